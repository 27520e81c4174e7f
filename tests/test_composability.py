"""Layers and models in the hands of other code: what is written for ``nn.LSTM``, and PyTorch's own tools."""

from __future__ import annotations

import copy
import os
import runpy
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import sttau
from sttau.data import load
from sttau.engine import Noise
from sttau.layers import (
    BayesLSTM,
    HeadDropoutLSTM,
    MinGRU,
    RecurrentLayer,
    SamplingFreeGRU,
    StateRegularizedGRU,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
    as_layer,
)

LAYERS: dict[str, Any] = {
    "st-tau": lambda: STTauLSTM(3, 8, 4, num_layers=2, bidirectional=True),
    "st-tau-gru": lambda: STTauGRU(3, 8, 4),
    "exact": lambda: STTauGRU(3, 8, 4, mode="exact"),
    "state-regularized": lambda: StateRegularizedGRU(3, 8, 4),
    "bayes": lambda: BayesLSTM(3, 8),
    "dropout": lambda: VariationalDropoutLSTM(3, 8),
    "head-dropout": lambda: HeadDropoutLSTM(3, 8),
    "min-gru": lambda: MinGRU(3, 8),
    "sp-gru": lambda: SamplingFreeGRU(3, 8),
    "lstm": lambda: as_layer(nn.LSTM(3, 8)),
}
every_layer = pytest.mark.parametrize("name", LAYERS)
#: Layers that run on PyTorch's LSTM, which has no rule for ``torch.vmap``.
ON_TORCH_LSTM = ("bayes", "head-dropout", "lstm")


def run(layer: RecurrentLayer, x: torch.Tensor) -> torch.Tensor:
    options = {} if layer.kind == "LSTM" else {"noise": Noise.of(torch.arange(x.shape[1]))}
    output: torch.Tensor = layer(x, **options)[0]
    return output


@every_layer
def test_weights_are_listed_and_laid_out_as_those_of_nn_lstm(name: str) -> None:
    layer = LAYERS[name]()
    layer.flatten_parameters()
    listed = [id(weight) for part in layer.all_weights for weight in part]
    assert sorted(listed) == sorted(map(id, layer.parameters()))
    assert len(layer.all_weights) == layer.num_layers * layer.num_directions
    assert layer.all_weights[0][0] is (layer.rnn if name == "lstm" else layer).weight_ih_l0


@every_layer
def test_a_layer_on_the_meta_device_knows_its_shapes(name: str) -> None:
    with torch.device("meta"):
        layer = LAYERS[name]()
    output = layer(torch.empty(5, 2, 3, device="meta"))[0]
    assert output.is_meta
    assert output.shape == LAYERS[name]()(torch.randn(5, 2, 3))[0].shape


@every_layer
def test_functional_gradients_are_those_of_backward(name: str) -> None:
    torch.manual_seed(0)
    layer, x = LAYERS[name](), torch.randn(5, 2, 3)
    options = {} if name == "lstm" else {"noise": Noise.of(torch.arange(2))}

    def loss(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        output: torch.Tensor = torch.func.functional_call(layer, weights, (x,), options)[0]
        return output.square().sum()

    found = torch.func.grad(loss)(dict(layer.named_parameters()))
    run(layer, x).square().sum().backward()
    for key, weight in layer.named_parameters():
        expected = torch.zeros_like(weight) if weight.grad is None else weight.grad
        torch.testing.assert_close(found[key], expected, rtol=1e-3, atol=1e-5)


@every_layer
def test_several_networks_are_run_by_vmap(name: str) -> None:
    layers, x = [LAYERS[name]() for _ in range(2)], torch.randn(5, 2, 3)
    weights = {
        key: torch.stack([layer.get_parameter(key) for layer in layers]) for key, _ in layers[0].named_parameters()
    }
    options = {} if name == "lstm" else {"noise": Noise.of(torch.arange(2))}

    def one(own: dict[str, torch.Tensor]) -> torch.Tensor:
        output: torch.Tensor = torch.func.functional_call(layers[0], own, (x,), options)[0]
        return output

    if name in ON_TORCH_LSTM:
        with pytest.raises(RuntimeError, match="Batching rule not implemented"):
            torch.vmap(one)(weights)
        return
    with torch.no_grad():
        found = torch.vmap(one)(weights)
        torch.testing.assert_close(found, torch.stack([run(layer, x) for layer in layers]), rtol=1e-4, atol=1e-5)


def compiled_gradients(layer: RecurrentLayer, x: torch.Tensor, backend: str) -> None:
    """Compare outputs and gradients of a compiled layer with its own."""
    torch._dynamo.reset()
    output = run(cast(RecurrentLayer, torch.compile(layer, backend=backend)), x)
    expected = run(layer, x)
    torch.testing.assert_close(output, expected)
    weights = list(layer.parameters())
    found = torch.autograd.grad(output.square().sum(), weights, allow_unused=True)
    own = torch.autograd.grad(expected.square().sum(), weights, allow_unused=True)
    for one, other in zip(found, own, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bayes", "head-dropout"])
@pytest.mark.filterwarnings("ignore")
def test_layers_on_a_functional_lstm_are_compiled_eagerly(name: str) -> None:
    compiled_gradients(LAYERS[name](), torch.randn(5, 2, 3), "eager")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYERS if name not in ("bayes", "head-dropout")])
@pytest.mark.filterwarnings("ignore")
def test_all_other_layers_are_compiled_with_their_gradients(name: str) -> None:
    compiled_gradients(LAYERS[name](), torch.randn(5, 2, 3), "aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_gradient_of_a_functional_lstm_is_what_pytorch_does_not_trace() -> None:
    """Without anything of this library; where this fails, the limit in docs/composability.md is gone."""
    weights, start = tuple(nn.LSTM(3, 8).parameters()), torch.zeros(1, 2, 8)

    def output(x: torch.Tensor) -> torch.Tensor:
        return torch.lstm(x, (start, start), weights, True, 1, 0.0, True, False, False)[0]

    torch._dynamo.reset()
    with pytest.raises(AssertionError, match="to be Tensors"):
        torch.compile(output, backend="aot_eager")(torch.randn(5, 2, 3)).sum().backward()


@every_layer
def test_copies_are_equal_and_independent(name: str) -> None:
    layer, x = LAYERS[name](), torch.randn(5, 2, 3)
    other = copy.deepcopy(layer)
    assert torch.equal(run(layer, x), run(other, x))
    with torch.no_grad():
        next(other.parameters()).add_(1)
    assert not torch.equal(run(layer, x), run(other, x))


@every_layer
def test_mixed_precision_trains(name: str) -> None:
    layer = LAYERS[name]()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = layer(torch.randn(5, 2, 3))[0]
    output.float().square().sum().backward()
    assert all(weight.grad is None or bool(weight.grad.isfinite().all()) for weight in layer.parameters())


def test_arguments_are_shown_by_name() -> None:
    assert repr(STTauLSTM(3, 8, 4, num_layers=2)) == "STTauLSTM(3, 8, num_states=4, num_layers=2)"
    assert repr(BayesLSTM(3, 8, prior_scale=0.5)) == "BayesLSTM(3, 8, prior_scale=0.5)"


@pytest.mark.parametrize("kind", [STTauLSTM, BayesLSTM, MinGRU])
def test_proj_size_is_refused_with_a_remedy(kind: Any) -> None:
    with pytest.raises(ValueError, match="has no proj_size; leave it out and choose a smaller hidden_size"):
        kind(3, 8, proj_size=2)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_read_a_data_set(start: str) -> None:
    data = load("digits", "train")[:8]
    loader = DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context=start)
    assert [int(one.label) for one in loader] == data.labels.tolist()


def test_distributed_data_parallel_gives_the_same_gradients(tmp_path: Path) -> None:
    distributed = torch.distributed
    if distributed.is_initialized() or not distributed.is_gloo_available():
        pytest.skip("needs a process group of its own")
    model = sttau.SequenceClassifier(STTauLSTM(3, 8, 4), 2)
    x, noise = torch.randn(4, 5, 3), Noise.of(torch.arange(4))
    model(x, noise=noise).square().sum().backward()
    expected = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    try:
        nn.parallel.DistributedDataParallel(model)(x, noise=noise).square().sum().backward()
    finally:
        distributed.destroy_process_group()
    found = [weight.grad for weight in model.parameters() if weight.grad is not None]
    torch.testing.assert_close(found, expected)


def test_integrated_gradients_with_fixed_noise_are_complete() -> None:
    attr = pytest.importorskip("captum.attr")
    torch.manual_seed(0)
    model = sttau.SequenceClassifier(STTauGRU(3, 8, 4), 2).eval()
    x = torch.randn(4, 6, 3)

    def logits(inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = model(inputs, noise=Noise.of(torch.arange(4).repeat(len(inputs) // 4)))
        return output

    found, delta = attr.IntegratedGradients(logits).attribute(x, target=1, n_steps=200, return_convergence_delta=True)
    assert found.shape == x.shape
    assert float(delta.abs().max()) < 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_lightning_example_learns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(os.fspath(Path(__file__).parents[1] / "examples/lightning_module.py"))
    assert example["main"](epochs=6) > 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_darts_example_forecasts_and_is_backtested() -> None:
    darts = pytest.importorskip("darts")
    example = runpy.run_path(os.fspath(Path(__file__).parents[1] / "examples/darts_model.py"))
    found = example["main"](updates=200)
    assert found["sttau"] < found["yesterday"]
    assert found["coverage"] > 0.5
    series = darts.TimeSeries.from_values(torch.arange(40).double().sin().numpy())
    model = example["SequenceForecast"]("swag", length=6, updates=5, hidden_size=4)
    back = model.historical_forecasts(series, start=30, forecast_horizon=2, stride=5, last_points_only=False)
    assert [len(one) for one in back] == [2] * len(back)
    assert len(back) > 1
    assert model.fit(series).predict(3, num_samples=7).n_samples == 7
    again = [model.predict(3, num_samples=4, random_state=1).all_values() for _ in range(2)]
    assert (again[0] == again[1]).all()
