"""Probabilistic automata as values: initial distribution, stochastic matrix per symbol, acceptance probabilities."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sttau.errors import AutomatonError, reading
from sttau.files import write_atomically
from sttau.formats import Format, read_text
from sttau.languages.alphabets import Strings, encode_strings

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

PA_FORMAT = Format("sttau.pa", error=AutomatonError)
_SLACK = 1e-5  # tolerance of sums: rows may have been computed by a network in float32
_ROUNDED = 1e-12  # sums as close to 1 as this are kept, so that a value that is written and read is the same


@dataclass(frozen=True, eq=False)
class PA:
    """A probabilistic automaton: it reads a string and accepts it with some probability.

    From state i, symbol a leads to state j with probability ``matrices[a, i, j]``; a string x_1 … x_T is accepted with

        p(x) = initial · A_{x_1} ⋯ A_{x_T} · output.

    Tensors are copied, converted to float64 and checked; distributions whose sum is off by rounding are normalized.

    Attributes:
        initial: (k,) distribution of the initial state.
        matrices: (symbols, k, k) transition matrices with rows on the simplex, in the order of ``alphabet``.
        output: (k,) probability that a string which ends in this state is accepted.
        alphabet: Symbols, in the order of ``matrices``.

    Example:
        >>> coin = PA([1, 0], [[[0.5, 0.5], [0, 1]]], [0, 1], ("a",))
        >>> coin.probability(["", "a", "aa"])
        tensor([0.0000, 0.5000, 0.7500], dtype=torch.float64)
    """

    initial: Tensor
    matrices: Tensor
    output: Tensor
    alphabet: tuple[str, ...]

    def __post_init__(self) -> None:
        alphabet = tuple(self.alphabet)
        if not alphabet:
            raise ValueError("alphabet is empty: a PA needs at least one symbol")
        if not all(isinstance(symbol, str) and symbol for symbol in alphabet) or len(set(alphabet)) < len(alphabet):
            raise ValueError(f"alphabet must be distinct, non-empty strings, got {alphabet}")
        initial, matrices, output = (_float64(name, getattr(self, name)) for name in ("initial", "matrices", "output"))
        k = len(output) if output.dim() == 1 else 0
        if not k:
            raise ValueError(f"output must be (states,), one probability per state, got shape {tuple(output.shape)}")
        for name, value, shape in (
            ("initial", initial, (k,)),
            ("matrices", matrices, (len(alphabet), k, k)),
        ):
            if tuple(value.shape) != shape:
                raise ValueError(
                    f"{name} must have shape {shape} for {len(alphabet)} symbols and the {k} states of output, "
                    f"got {tuple(value.shape)}"
                )
        if bool((output < -_SLACK).any() | (output > 1 + _SLACK).any()):
            raise ValueError(f"output must be probabilities in [0, 1], got {output.tolist()}")
        values: dict[str, Any] = {
            "initial": _simplex(initial, "initial"),
            "matrices": torch.stack(
                [
                    _simplex(matrix, f"matrices[{number}] (symbol {symbol!r})")
                    for number, (matrix, symbol) in enumerate(zip(matrices, alphabet, strict=True))
                ]
            ),
            "output": output.clamp(0, 1),
            "alphabet": alphabet,
        }
        for name, checked in values.items():
            object.__setattr__(self, name, checked)

    def __eq__(self, other: object) -> bool:
        """Whether all values and symbols are equal; ``compare`` decides whether the languages are equal."""
        if not isinstance(other, PA):
            return NotImplemented
        return self.alphabet == other.alphabet and all(
            torch.equal(getattr(self, name).cpu(), getattr(other, name).cpu())
            for name in ("initial", "matrices", "output")
        )

    def __hash__(self) -> int:
        return hash((self.alphabet, tuple(self.initial.tolist()), tuple(self.output.tolist())))

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.output)

    def to(self, device: torch.device | str) -> PA:
        """Return the same automaton with its tensors on a device."""
        return PA(self.initial.to(device), self.matrices.to(device), self.output.to(device), self.alphabet)

    def encode(self, strings: Strings, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return strings as positions in the alphabet, (strings, time), with their lengths; both on the PA's device.

        Example:
            >>> PA([1.0], [[[1.0]], [[1.0]]], [1.0], ("0", "1")).encode(["01", "1"])
            (tensor([[0, 1],
                    [1, 0]]), tensor([2, 1]))
        """
        return encode_strings(strings, self.alphabet, lengths, self.output.device)

    def state_distribution(self, strings: Strings, lengths: Tensor | None = None) -> Tensor:
        """Return the distribution of the state after each string, (strings, k)."""
        ids, lengths = self.encode(strings, lengths)
        states, rows = self.initial.expand(len(ids), -1), torch.arange(len(ids), device=ids.device)
        every = self.matrices.transpose(0, 1).flatten(1)  # (k, symbols · k)
        for step in range(ids.shape[1]):
            if len(self.alphabet) <= self.num_states:  # reading every symbol is cheaper than gathering matrices
                moved = (states @ every).view(len(ids), len(self.alphabet), -1)[rows, ids[:, step]]
            else:
                moved = torch.bmm(states[:, None], self.matrices[ids[:, step]])[:, 0]
            states = torch.where((step < lengths)[:, None], moved, states)
        return states

    def probability(self, strings: Strings, lengths: Tensor | None = None) -> Tensor:
        """Return the probability that each string is accepted, (strings,), in float64.

        Args:
            strings: Strings whose characters are symbols, or lists of symbols; or a tensor (strings, time) of
                positions in the alphabet.
            lengths: (strings,) valid steps of each row of a tensor; all steps if None.
        """
        return (self.state_distribution(strings, lengths) @ self.output).clamp(0, 1)

    def sample(self, strings: Strings, count: int = 1, *, seed: int, lengths: Tensor | None = None) -> Tensor:
        """Sample acceptance of each string: (count, strings) booleans.

        Args:
            strings: Strings as for :meth:`probability`.
            count: Number of samples per string.
            seed: Seed of the samples.
            lengths: (strings,) valid steps of each row of a tensor.

        Example:
            >>> coin = PA([1, 0], [[[0.5, 0.5], [0, 1]]], [0, 1], ("a",))
            >>> coin.sample(["", "a"], 1000, seed=0).double().mean(0).round(decimals=1)
            tensor([0.0000, 0.5000], dtype=torch.float64)
        """
        chances = self.probability(strings, lengths).cpu()
        draws = torch.rand(count, len(chances), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        return (draws < chances).to(self.output.device)

    @staticmethod
    def from_dfa(dfa: DFA) -> PA:
        """Return a DFA as a PA that accepts with probability 1 or 0; missing moves lead to a dead state.

        Example:
            >>> from sttau.automata import tomita
            >>> PA.from_dfa(tomita(3)).probability(["100", "10"])
            tensor([1., 0.], dtype=torch.float64)
        """
        alphabet = tuple(sorted(dfa.input_symbols))
        found: list[Any] = [dfa.initial_state]
        for state in found:
            for symbol in alphabet:
                target = dfa.transitions[state].get(symbol)
                if target is not None and target not in found:
                    found.append(target)
        partial = any(len(dfa.transitions[state]) < len(alphabet) for state in found)
        number = {state: row for row, state in enumerate(found)}
        k = len(found) + partial
        matrices = torch.zeros(len(alphabet), k, k, dtype=torch.float64)
        for a, symbol in enumerate(alphabet):
            for row in range(k):
                target = dfa.transitions[found[row]].get(symbol) if row < len(found) else None
                matrices[a, row, k - 1 if target is None else number[target]] = 1
        return PA(
            initial=torch.eye(k, dtype=torch.float64)[0],
            matrices=matrices,
            output=torch.tensor([float(row < len(found) and found[row] in dfa.final_states) for row in range(k)]),
            alphabet=alphabet,
        )

    def to_dfa(self) -> DFA:
        """Return a PA whose probabilities are all 0 or 1 as a DFA; states keep their numbers.

        Example:
            >>> from sttau.automata import compare, tomita
            >>> compare(PA.from_dfa(tomita(4)).to_dfa(), tomita(4))
            Equivalence(equal=True, counterexample=None)
        """
        from automata.fa.dfa import DFA

        for name in ("initial", "matrices", "output"):
            if not bool(((value := getattr(self, name)) == value.round()).all()):
                raise ValueError(f"this PA is not deterministic: {name} contains probabilities other than 0 and 1")
        moves = self.matrices.argmax(-1).tolist()
        return DFA(
            states=set(range(self.num_states)),
            input_symbols=set(self.alphabet),
            transitions={
                state: {symbol: moves[a][state] for a, symbol in enumerate(self.alphabet)}
                for state in range(self.num_states)
            },
            initial_state=int(self.initial.argmax()),
            final_states=set(self.output.nonzero()[:, 0].tolist()),
        )

    def to_json(self) -> str:
        """Return the automaton as JSON text, with all digits.

        Example:
            >>> coin = PA([1, 0], [[[0.5, 0.5], [0, 1]]], [0, 1], ("a",))
            >>> PA.from_json(coin.to_json()) == coin
            True
        """
        return PA_FORMAT.to_json(
            {
                "alphabet": list(self.alphabet),
                "initial": self.initial.tolist(),
                "matrices": self.matrices.tolist(),
                "output": self.output.tolist(),
            }
        )

    @staticmethod
    def from_json(text: str, source: str = "the JSON text") -> PA:
        """Read text that :meth:`to_json` wrote, in this or an older version of the format.

        Args:
            text: JSON text.
            source: Name of the file for error messages.
        """
        content = PA_FORMAT.from_json(text, source)
        with reading(f"the PA in {source}", AutomatonError):
            return PA(content["initial"], content["matrices"], content["output"], tuple(content["alphabet"]))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the automaton to a JSON file atomically; return its path."""
        return write_atomically(path, (self.to_json() + "\n").encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> PA:
        """Read a file that :meth:`save` wrote."""
        return PA.from_json(read_text(path, AutomatonError), str(path))


def _float64(name: str, value: Any) -> Tensor:
    """A finite copy in float64."""
    try:
        tensor = torch.as_tensor(value).detach().to(torch.float64, copy=True)
        if not hasattr(value, "dtype"):
            tensor = torch.tensor(value, dtype=torch.float64)  # from the value again: nested lists became float32
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a tensor or nested lists of floats: {error}") from error
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} contains NaN or infinity")
    return tensor


def _simplex(rows: Tensor, name: str) -> Tensor:
    """Check distributions over the last dimension and remove rounding errors."""
    total = rows.sum(-1, keepdim=True)
    bad = (rows < -_SLACK).any(-1) | ((total[..., 0] - 1).abs() > _SLACK)
    if bool(bad.any()):
        found = rows.reshape(-1, rows.shape[-1])[bad.flatten()][0]
        where = f"row {int(bad.nonzero()[0])} is" if rows.dim() > 1 else "it is"
        raise ValueError(
            f"{name} must be probabilities that sum to 1, but {where} {found.tolist()}, sum {float(found.sum()):.6g}"
        )
    rows = rows.clamp(min=0)
    total = rows.sum(-1, keepdim=True)
    return torch.where((total - 1).abs() > _ROUNDED, rows / total, rows)
