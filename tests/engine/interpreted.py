"""Compare the exact engine's Triton kernels, run by Triton's interpreter on the CPU, with the reference.

A program of its own, since TRITON_INTERPRET must be set before Triton is imported. It writes the largest error of every
value and gradient, relative to the largest number among them, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sttau.engine import Weights, exact

Errors = dict[str, dict[str, float]]

ROWS = [  # inputs, k, d, features, bias; tiles hold 64 or 16 inputs and 32 or 64 columns
    (1, 2, 1, 1, True),
    (5, 3, 7, 2, False),
    (64, 5, 32, 3, True),
    (70, 10, 33, 4, True),
    (17, 17, 65, 2, True),
]
SCANS: list[tuple[int, int, int, list[int] | None]] = [  # batch, time, k, lengths; blocks hold 16 steps
    (2, 2, 2, None),
    (1, 17, 17, None),
    (2, 35, 3, None),
    (4, 40, 10, [40, 1, 17, 18]),
    (2, 34, 5, [1, 2]),
]


def compare(fast: Callable[..., Tensor], slow: Callable[..., Tensor], given: Sequence[Tensor]) -> list[float]:
    """Largest error of the value and of each gradient; the slow one is computed in float64."""
    results = []
    for function, dtype in ((fast, torch.float32), (slow, torch.float64)):
        tensors = [tensor.to(dtype).requires_grad_() for tensor in given]
        value = function(*tensors)
        weight = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        slopes = torch.autograd.grad((value * weight.to(dtype)).sum(), tensors)
        results.append([value.detach().double(), *(slope.double() for slope in slopes)])
    return [((a - b).abs().max() / b.abs().max().clamp_min(1e-6)).item() for a, b in zip(*results, strict=True)]


def rows(count: int, k: int, d: int, features: int, bias: bool, *, own: bool = False) -> dict[str, float]:
    """Transition matrices; with ``own``, rows from hidden states that are not the states."""
    shapes = {"inputs": (count, features), "input": (3 * d, features), "recurrent": (3 * d, d)}
    if bias:
        shapes |= {"input_bias": (3 * d,), "recurrent_bias": (3 * d,)}  # type: ignore[dict-item]
    shapes |= {"states": (k, d)} | ({"hidden": (1, d)} if own else {})
    names = list(shapes)

    def function(engine: exact.Engine) -> Callable[..., Tensor]:
        def law(*tensors: Tensor) -> Tensor:
            named = dict(zip(names, tensors, strict=True))
            weights = Weights(
                input=named["input"],
                recurrent=named["recurrent"],
                input_bias=named.get("input_bias"),
                recurrent_bias=named.get("recurrent_bias"),
                states=named["states"],
                temperature=torch.tensor(1.0),
            )
            return exact.transition_rows(named["inputs"], named.get("hidden", weights.states), weights, engine=engine)

        return law

    given = [torch.randn(shape, dtype=torch.float64) / shape[-1] ** 0.25 for shape in shapes.values()]
    return dict(zip(["value", *names], compare(function("triton"), function("reference"), given), strict=True))


def scan(batch: int, time: int, k: int, lengths: list[int] | None) -> dict[str, float]:
    """The law of the state, for matrices of which some hardly move and some forget all."""
    given = [torch.randn(batch, k).softmax(-1), (3 * torch.randn(batch, time - 1, k, k)).softmax(-1)]
    valid = None if lengths is None else torch.tensor(lengths)

    def function(engine: exact.Engine) -> Callable[..., Tensor]:
        return lambda first, matrices: exact.state_distribution(first, matrices, valid, engine=engine)

    return dict(
        zip(("value", "first", "matrices"), compare(function("triton"), function("reference"), given), strict=True)
    )


def large() -> dict[str, float]:
    """Scores of ±10⁴ give no NaN: zero says so."""
    w_x, w_h, b_x, b_h, S = (
        (torch.randn(shape) * 1e3).requires_grad_() for shape in ((9, 2), (9, 3), (9,), (9,), (4, 3))
    )
    weights = Weights(w_x, w_h, b_x, b_h, S, torch.tensor(1.0))
    law = exact.transition_matrices(torch.randn(20, 2), weights, engine="triton")
    slopes = torch.autograd.grad(law.square().sum(), (w_x, w_h, b_x, b_h, S))
    return {"not finite": float(sum((~tensor.isfinite()).sum() for tensor in (law, *slopes)))}


def main() -> Errors:
    """All comparisons."""
    from sttau.engine import exact_triton

    torch.manual_seed(0)
    errors = {f"rows {case}": rows(*case) for case in ROWS}
    errors |= {"rows from other hidden states": rows(9, 4, 5, 2, True, own=True)}
    errors |= {f"scan {case}": scan(*case) for case in SCANS}
    errors |= {"rows with large scores": large()}
    exact_triton._PIECE_NUMBERS = 1
    errors |= {"rows in pieces": rows(40, 3, 5, 2, True)}

    weights = [torch.randn(shape) for shape in ((5, 2), (9, 2), (9,), (2, 9), (2, 3), (4, 3))]
    laws = [torch.randn(2, 3).softmax(-1), torch.randn(2, 20, 3, 3).softmax(-1), torch.tensor([21, 4])]
    for operator, given in (("transition_rows", weights), ("state_distribution", laws)):
        learnable = tuple(tensor.requires_grad_(tensor.is_floating_point()) for tensor in given)
        told = torch.library.opcheck(
            getattr(torch.ops.sttau, operator).default, learnable, raise_exception=False,
            test_utils=("test_schema", "test_faketensor", "test_autograd_registration", "test_aot_dispatch_dynamic"),
        )  # fmt: skip
        errors[f"operator {operator}"] = {
            f"{name}: {result}": float(result != "SUCCESS") for name, result in told.items()
        }
    return errors


if __name__ == "__main__":
    torch.set_num_threads(1)
    exact._SERIAL = 10**6  # the loop: what is differentiated is then the normalisation of laws, as in the kernels
    json.dump(main(), sys.stdout)
