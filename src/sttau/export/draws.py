"""The library's random draws as ONNX operations: the same values as :class:`sttau.engine.Noise`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sttau.engine.noise.reference import MASK
from sttau.export.graph import Graph, Value

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
# The quantile function of the normal distribution, accurate to 1e-7 (Wichura, 1988, AS 241): numerators and
# denominators in ascending powers, near the middle and in the tails.
_MIDDLE = (
    (3.3871327179, 50.434271938, 159.29113202, 59.109374720),
    (1.0, 17.895169469, 78.757757664, 67.187563600),
)
_TAIL = ((1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103), (1.0, 0.73700164250, 0.12021132975))


@dataclass(frozen=True)
class Draws:
    """The draws of a batch, as a function of the inputs ``seed``, ``samples`` and ``ids`` of a graph.

    Attributes:
        graph: Graph the operations are appended to.
        seed: Seed, a scalar.
        sample: (samples,) numbers of the samples.
        sequence: (batch,) identities of the sequences.
    """

    graph: Graph
    seed: Value
    sample: Value
    sequence: Value

    def for_member(self, shift: int) -> Draws:
        """Return the draws of another member of an ensemble, whose seed is that many larger."""
        return self if shift == 0 else replace(self, seed=self.seed + self.graph.constant(shift, "int64"))

    def uniform(self, steps: Value, layer: int, size: int) -> Value:
        """Return (steps, samples, batch, size) values between 0 and 1.

        Args:
            steps: (steps,) numbers of the steps.
            layer: Number of the layer and direction.
            size: Values per step.
        """
        g = self.graph
        blocks = g.constant([(layer << 16) | block for block in range((size + 3) // 4)], "int64")
        counter = [
            blocks,
            g.unsqueeze(steps, 1, 2, 3),
            self._and(g.unsqueeze(self.sample, 0, 2, 3), MASK),
            self._and(g.unsqueeze(self.sequence, 0, 1, 3), MASK),
        ]
        words = [g.unsqueeze(self._unit(word), -1) for word in self._philox(counter)]
        flat = g.reshape(g.op("Concat", *words, axis=-1), 0, 0, 0, -1)
        return g.slice(flat, 0, size, 3)

    def gumbel(self, steps: Value, layer: int, size: int) -> Value:
        """Return (steps, samples, batch, size) draws of the standard Gumbel distribution."""
        g = self.graph
        return g.op("Neg", g.op("Log", g.op("Neg", g.op("Log", self.uniform(steps, layer, size)))))

    def gaussian(self, steps: Value, layer: int, size: int) -> Value:
        """Return (steps, samples, batch, size) standard normal draws: quantiles of the uniform ones.

        They are accurate to the last digits of float32 or so, as no draw lies in the far tails (below 2^-24).
        """
        g = self.graph
        p = self.uniform(steps, layer, size)
        q = p - 0.5
        near = g.op("Neg", q * q) + 0.180625
        rest = g.op("Min", p, g.op("Neg", p) + 1.0)
        far = g.op("Sqrt", g.op("Neg", g.op("Log", rest))) - 1.6
        middle, tail = q * _ratio(near, *_MIDDLE), g.op("Sign", q) * _ratio(far, *_TAIL)
        return g.where(g.op("Abs", q) > 0.425, tail, middle)

    def normal(self, size: int) -> Value:
        """Return (samples, size) standard normal draws, the same for all sequences."""
        g = self.graph
        sample = self._and(g.unsqueeze(self.sample, 1), MASK)
        blocks = g.constant(list(range((size + 3) // 4)), "int64")
        nothing = g.constant(0, "int64")
        words = [self._unit(word) for word in self._philox([blocks, nothing, sample, g.constant(MASK, "int64")])]
        values = []
        for first, second in ((words[0], words[1]), (words[2], words[3])):
            radius, turn = g.op("Sqrt", g.op("Log", first) * -2.0), second * (2 * math.pi)
            values += [radius * g.op("Cos", turn), radius * g.op("Sin", turn)]
        flat = g.op("Concat", *(g.unsqueeze(value, -1) for value in values), axis=-1)
        return g.slice(g.reshape(flat, 0, -1), 0, size, 1)

    def _philox(self, counter: list[Value]) -> list[Value]:
        """Philox-4x32-10 on words in int64; see :func:`sttau.engine.noise.reference.philox`."""
        g = self.graph
        wide = g.cast(self.seed, "uint64")
        high = g.op("BitShift", wide, g.constant(32, "uint64"), direction="RIGHT")
        k0, k1 = self._and(self.seed, MASK), self._and(g.cast(high, "int64"), MASK)
        c0, c1, c2, c3 = counter
        for _ in range(_ROUNDS):
            left_high, left_low = self._product(c0, _MULTIPLIERS[0])
            right_high, right_low = self._product(c2, _MULTIPLIERS[1])
            c0, c1, c2, c3 = (
                self._xor(self._xor(right_high, c1), k0),
                right_low,
                self._xor(self._xor(left_high, c3), k1),
                left_low,
            )
            k0, k1 = self._and(k0 + _WEYL[0], MASK), self._and(k1 + _WEYL[1], MASK)
        return [c0, c1, c2, c3]

    def _product(self, word: Value, factor: int) -> tuple[Value, Value]:
        """The high and the low 32 bits of a product of 32-bit words; 16 bits at a time, so that nothing overflows."""
        low, half = word * (factor & 0xFFFF), 1 << 16
        high = word * (factor >> 16) + low / half
        return high / half, self._and(high, 0xFFFF) * half + self._and(low, 0xFFFF)

    def _unit(self, word: Value) -> Value:
        return (self.graph.cast(word / 512, "float32") + 0.5) * 2.0**-23

    def _and(self, value: Value, mask: int) -> Value:
        return self.graph.op("BitwiseAnd", value, mask)

    def _xor(self, value: Value, other: Value) -> Value:
        return self.graph.op("BitwiseXor", value, other)


def _ratio(x: Value, above: tuple[float, ...], below: tuple[float, ...]) -> Value:
    """The quotient of two polynomials."""
    return _polynomial(x, above) / _polynomial(x, below)


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    value = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        value = (value + coefficient) * x
    return value + coefficients[0]
