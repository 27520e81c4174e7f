"""The recurrence as a PyTorch operator: what compilers, exporters and autograd expect of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sttau
from sttau.engine import Noise, using


def _arguments(cell: str, mode: str, read: str, reverse: bool, features: int) -> tuple[Any, ...]:
    width = (4 if cell == "lstm" else 3) * 7

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    tau = torch.tensor(1.2, dtype=torch.float64, requires_grad=True)
    noise = Noise.of(torch.arange(2))
    return (
        leaf(5, 2, features), None, leaf(width, features), leaf(width), leaf(4, width), leaf(4, 7), tau, None,
        leaf(2, width), leaf(2, 7), torch.tensor([5, 3]), noise.seed, noise.sequence, noise.sample, 2, 0, 0, cell, mode,
        reverse, read, True, "cpu",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "mode", "read", "reverse", "features"),
    [
        ("lstm", "soft", "all", False, 3),
        ("gru", "hard", "last", True, 12),
        ("lstm", "soft", "none", True, 12),
    ],
)
def test_the_operator_keeps_the_contract_of_torch_library(
    cell: str, mode: str, read: str, reverse: bool, features: int
) -> None:
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    arguments = _arguments(cell, mode, read, reverse, features)
    torch.library.opcheck(torch.ops.sttau.recurrence.default, arguments, test_utils=checks)


class _Whole(nn.Module):
    """Noise identified by row, so that all inputs are tensors."""

    def __init__(self, layer: sttau.STTauLSTM | sttau.STTauGRU) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.features(x, noise=Noise.of(torch.arange(x.shape[0])), steps="last")


@pytest.mark.parametrize("layers", [1, 2])
def test_compiled_is_eager_in_values_and_gradients(layers: int) -> None:
    model = _Whole(sttau.STTauLSTM(3, 8, 4, num_layers=layers, readout="cell"))
    x = torch.randn(2, 5, 3)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    results = []
    for run in (model, compiled):
        model.zero_grad()
        output = run(x)
        output.square().sum().backward()
        results.append([output, *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    assert len(results[0]) == len(results[1]) > 5
    for eager, other in zip(*results, strict=True):
        torch.testing.assert_close(eager, other)


def test_the_exact_distribution_can_be_compiled() -> None:
    layer, x = sttau.STTauGRU(3, 8, 4, mode="exact"), torch.randn(2, 5, 3)
    compiled = torch.compile(layer.state_distribution, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer.state_distribution(x))


@pytest.mark.parametrize("layer", [sttau.STTauLSTM(3, 11, 4), sttau.STTauGRU(3, 11, 4, bias=False)])
def test_a_layer_first_run_under_inference_mode_can_be_trained(layer: nn.Module) -> None:
    x = torch.randn(5, 13, 3)  # a size that no other test uses: cached constants are created here
    with torch.inference_mode():
        layer(x)
    layer(x)[0].sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


def test_exported_is_eager() -> None:
    model = _Whole(sttau.STTauGRU(3, 8, 4)).eval()
    x = torch.randn(2, 5, 3)
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
        torch.testing.assert_close(exported.module()(x), model(x))
    assert any("sttau.recurrence" in str(node.target) for node in exported.graph.nodes)


@pytest.mark.parametrize("layer", [sttau.STTauLSTM(3, 8, 4, readout="cell"), sttau.StateRegularizedGRU(3, 8, 4)])
def test_an_exported_model_reads_any_number_of_sequences_and_steps(layer: nn.Module) -> None:
    model = sttau.SequenceClassifier(layer, 2).eval().requires_grad_(False)
    lengths, free = torch.tensor([5, 2, 4]), torch.export.Dim("batch", min=2)
    shapes = {"inputs": {0: free, 1: torch.export.Dim("time", min=2)}, "lengths": {0: free}}
    exported = torch.export.export(model, (torch.randn(3, 5, 3), lengths), dynamic_shapes=shapes)
    x, lengths = torch.randn(7, 9, 3), torch.tensor([9, 1, 5, 3, 9, 2, 8])
    torch.manual_seed(0)
    found = exported.module()(x, lengths)
    torch.manual_seed(0)
    torch.testing.assert_close(found, model(x, lengths))


def test_a_second_derivative_raises() -> None:
    layer, x = sttau.STTauGRU(3, 8, 4), torch.randn(5, 2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)


def test_a_layer_whose_output_is_not_used_has_gradients_of_its_memory() -> None:
    layer = sttau.STTauLSTM(3, 8, 4)
    _, (_, c_n) = layer(torch.randn(5, 2, 3))
    c_n.sum().backward()
    assert float(layer.weight_ih_l0.grad.abs().sum()) > 0  # type: ignore[union-attr, operator]


@pytest.mark.parametrize("kind", [sttau.STTauLSTM, sttau.STTauGRU])
@pytest.mark.parametrize("mode", ["soft", "hard", "deterministic"])
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "hx"])
@pytest.mark.parametrize("time", [1, 2])
def test_parameters_that_are_not_used_have_no_gradient_on_any_engine(
    kind: Any, mode: Any, given: bool, time: int
) -> None:
    torch.manual_seed(0)
    layer, x = kind(3, 8, 4, readout="cell", mode=mode), torch.randn(time, 2, 3)
    start = torch.randn(1, 2, 8)
    hx = None if not given else (start, start) if kind is sttau.STTauLSTM else start
    without = []
    for engine in ("reference", "cpu"):
        layer.zero_grad()
        with using(engine):
            layer(x, hx, noise=Noise.of(torch.arange(2)))[0].sum().backward()
        without.append({name for name, parameter in layer.named_parameters() if parameter.grad is None})
    assert without == [{"states_l0", "log_temperature_l0"} if time == 1 else set()] * 2
