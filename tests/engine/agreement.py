"""Comparison of an engine with the reference: the same problem on both, values and all gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sttau.engine import Cell, Engine, Mode, Noise, Readout, Steps, Weights, run
from sttau.engine.recurrence import reference


@dataclass(frozen=True)
class Case:
    """One layer, one batch."""

    cell: Cell
    mode: Mode
    states: int
    size: int
    readout: Readout = "cell"
    steps: Steps = "all"
    time: int = 4
    batch: int = 2
    features: int = 3
    samples: int = 1
    ragged: bool = False
    reverse: bool = False
    peephole: bool = False
    bias: bool = True
    start: bool = True
    tokens: bool = False
    temperature: float = 1.3

    def __str__(self) -> str:
        default = Case(self.cell, self.mode, self.states, self.size)
        rest = [f"{k}={v}" for k, v in vars(self).items() if v != getattr(default, k)]
        return " ".join([self.cell, self.mode, f"k{self.states}", f"d{self.size}", *rest])


def small_cases() -> list[Case]:
    """Every option at least once with each cell and mode, on shapes that an interpreter can bear."""
    cases = []
    cells: tuple[Cell, ...] = ("lstm", "gru")
    modes: tuple[Mode, ...] = ("soft", "hard", "deterministic")
    for cell in cells:
        for mode in modes:
            plain = Case(cell, mode, 2, 7)
            cases += [
                replace(plain, readout="state"),
                replace(plain, states=5, size=9, samples=2, ragged=True, reverse=True),
                replace(plain, states=11, size=9, ragged=True, steps="last", tokens=True),
                replace(plain, states=3, features=1, steps="last", start=False, bias=False),
                replace(plain, states=19, size=5, ragged=True, reverse=True, start=False),
            ]
        soft = Case(cell, "soft", 4, 8)
        cases += [
            replace(soft, features=2, ragged=True, samples=2),
            replace(soft, readout="state", steps="last", ragged=True),
            replace(soft, readout="state", steps="last", reverse=True),
            replace(soft, time=1, batch=1, size=1),
            replace(soft, tokens=True, samples=3, reverse=True),
        ]
    lstm = Case("lstm", "soft", 3, 9, ragged=True, peephole=True)
    return [*cases, lstm, replace(lstm, reverse=True, states=18), replace(lstm, mode="hard", bias=False)]


def large_cases() -> list[Case]:
    """Shapes for a real GPU: odd sizes, one to sixteen and many states, long and short."""
    cases = []
    cells: tuple[Cell, ...] = ("lstm", "gru")
    modes: tuple[Mode, ...] = ("soft", "hard", "deterministic")
    sizes = ((2, 256), (3, 7), (5, 128), (10, 100), (16, 33), (17, 64), (100, 130))
    for cell in cells:
        for mode in modes:
            cases += [
                Case(
                    cell,
                    mode,
                    k,
                    d,
                    time=37,
                    batch=5,
                    features=2 if k == 5 else 6,
                    samples=2,
                    ragged=True,
                    reverse=not d % 2,
                )
                for k, d in sizes
            ]
        cases += [
            Case(cell, "soft", 2, 1024, features=5),
            Case(cell, "soft", 128, 1000, time=5),
            Case(cell, "soft", 7, 20, time=9, features=1, readout="state", steps="last"),
        ]
    return [*cases, Case("lstm", "soft", 18, 9, time=26, ragged=True, peephole=True, reverse=True)]


def disagreement(
    case: Case, engine: Engine, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> dict[str, float]:
    """Largest error of every result and gradient, relative to the largest true value; the truth is computed in float64.

    Where the reference in the same dtype is no better than a fifth of it, that is not the engine's error, and 0
    stands there: a recurrence can amplify rounding.
    """
    generator = torch.Generator().manual_seed(0)
    true = _evaluate(case, "reference", torch.float64, device, generator)
    ours = _evaluate(case, engine, dtype, device, generator)
    plain = _evaluate(case, "reference", dtype, device, generator)
    errors = {}
    for name, value in true.items():
        scale = float(value.abs().max()) + 1e-30
        error = float((ours[name] - value).abs().max()) / scale
        amplified = float((plain[name] - value).abs().max()) / scale
        errors[name] = 0.0 if error <= 5 * amplified else error
    return errors


def _evaluate(
    case: Case, engine: Engine, dtype: torch.dtype, device: str, generator: torch.Generator
) -> dict[str, Tensor]:
    generator.manual_seed(0)

    def numbers(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).float()
        return drawn.to(device, dtype).requires_grad_()

    d, rows = case.size, case.batch * case.samples
    width = (4 if case.cell == "lstm" else 3) * d
    weights = Weights(
        input=numbers(width, case.features, scale=0.5),
        recurrent=numbers(width, d, scale=d**-0.5),
        input_bias=numbers(width, scale=0.5) if case.bias else None,
        recurrent_bias=numbers(width, scale=0.5) if case.bias else None,
        states=numbers(case.states, d, scale=0.5),
        temperature=torch.tensor(case.temperature, device=device, dtype=dtype, requires_grad=True),
        peephole=numbers(3, d, scale=0.5) if case.peephole else None,
    )
    hidden = numbers(rows, d) if case.start else None
    memory = numbers(rows, d) if case.start and case.cell == "lstm" else None
    table = numbers(9, case.features) if case.tokens else None
    inputs = numbers(case.batch, case.time, case.features)
    if case.tokens:
        inputs = torch.randint(9, (case.batch, case.time), generator=generator).to(device)
    lengths = torch.randint(1, case.time + 1, (case.batch,), generator=generator)
    lengths[0] = case.time
    options = {
        "noise": Noise.of(torch.arange(case.batch, device=device) + 5, case.samples, seed=2**33 + 7).for_layer(1),
        "mode": case.mode,
        "readout": case.readout,
        "lengths": lengths.to(device) if case.ragged else None,
        "reverse": case.reverse,
        "steps": case.steps,
        "embedding": table,
    }
    if engine == "reference":
        result = reference.run(case.cell, inputs, weights, hidden, memory, **options)  # type: ignore[arg-type]
    else:
        result = run(case.cell, inputs, weights, hidden, memory, engine=engine, **options)  # type: ignore[arg-type]
    values = {name: value for name, value in result._asdict().items() if value is not None}
    loss = torch.zeros((), dtype=torch.float64, device=device)
    for value in values.values():
        weight = torch.randn(value.shape, generator=generator, dtype=torch.float64).float()
        loss = loss + (value.double() * weight.double().to(device)).sum()
    leaves = dict(weights._asdict(), hidden=hidden, memory=memory, inputs=table if case.tokens else inputs)
    leaves = {name: leaf for name, leaf in leaves.items() if leaf is not None}
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    named = {f"gradient of {name}": gradient for name, gradient in zip(leaves, gradients, strict=True)}
    return {name: value.detach().double() for name, value in (values | named).items()}
