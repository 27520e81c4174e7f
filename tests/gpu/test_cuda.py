"""What must hold on a GPU. Skipped where there is none; TF32 is off, so that CPU and GPU differ by rounding alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU, STTauLSTM, load, predict
from sttau.engine import Noise, fingerprint
from sttau.engine.noise.reference import philox
from sttau.training import fit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "lstm soft": lambda: STTauLSTM(3, 32, 5),
    "lstm cell peephole": lambda: STTauLSTM(3, 32, 5, readout="cell", peephole=True),
    "gru hard": lambda: STTauGRU(3, 32, 5, mode="hard"),
    "gru exact": lambda: STTauGRU(3, 32, 5, mode="exact"),
    "gru deep both ways": lambda: STTauGRU(3, 32, 5, num_layers=2, bidirectional=True),
    "plain": lambda: nn.LSTM(3, 32, bidirectional=True),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(7, 20, 3), torch.tensor([20, 1, 13, 20, 2, 19, 8])


def test_the_bits_of_the_noise_are_those_of_the_cpu() -> None:
    a, b, c, d, e, f = torch.randint(2**32, (6, 1000))
    here = philox((a, b, c, d), (e, f))
    a, b, c, d, e, f = torch.stack([a, b, c, d, e, f]).cuda()
    there = philox((a, b, c, d), (e, f))
    assert all(torch.equal(cpu, gpu.cpu()) for cpu, gpu in zip(here, there, strict=True))
    x, lengths = _batch()
    assert torch.equal(fingerprint(x, lengths), fingerprint(x.cuda(), lengths.cuda()).cpu())


def test_gumbel_draws_are_those_of_the_cpu_up_to_rounding() -> None:
    here = Noise.of(torch.arange(50), samples=3, seed=2**40 + 1)
    there = Noise.of(torch.arange(50).cuda(), samples=3, seed=2**40 + 1)
    torch.testing.assert_close(here.gumbel(0, 100, 7), there.gumbel(0, 100, 7).cpu(), rtol=2e-6, atol=2e-6)


def test_draws_in_one_kernel_are_those_of_the_cpu() -> None:
    here = Noise.of(torch.tensor([7, 2**40 + 8, -3]), samples=2, seed=2**33 + 5, first_sample=3).for_layer(2)
    there = Noise(here.seed.cuda(), here.sequence.cuda(), here.sample.cuda(), layer=2)
    for start, steps, size in ((0, 1, 1), (3, 5, 7), (2, 2, 300)):
        assert torch.equal(here.uniform(start, steps, size), there.uniform(start, steps, size).cpu())
    torch.testing.assert_close(here.normal(4, 1001), there.normal(4, 1001).cpu(), rtol=2e-6, atol=2e-6)


@every_layer
def test_a_prediction_is_that_of_the_cpu(name: str) -> None:
    x, lengths = _batch()
    model = SequenceClassifier(LAYERS[name](), 4)
    here = predict(model, x, lengths, samples=8, seed=3)
    there = predict(model.cuda(), x, lengths, samples=8, seed=3)
    for field in ("mean", "variance", "total", "aleatoric"):
        torch.testing.assert_close(getattr(here, field), getattr(there, field).cpu(), rtol=1e-4, atol=1e-5)


@every_layer
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    x, lengths = _batch()
    y = torch.tensor([0, 1, 2, 3, 0, 1, 2])
    model = SequenceClassifier(LAYERS[name](), 4)
    noise = Noise.of(torch.arange(7), seed=1)
    gradients = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        named = Noise(noise.seed.to(device), noise.sequence.to(device), noise.sample.to(device))
        logits = model(x.to(device), lengths.to(device), noise=named)
        nn.functional.cross_entropy(logits, y.to(device)).backward()
        gradients.append([p.grad.cpu().clone() for p in model.parameters() if p.grad is not None])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@every_layer
def test_training_learns_and_repeats_itself(name: str) -> None:
    x = torch.randn(128, 4, 3)
    y = (x[:, -1, 0] > 0).long()
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        model = SequenceClassifier(LAYERS[name](), 2).cuda()
        log = fit(model, x, y, updates=150, batch_size=64, learning_rate=0.02, seed=5)
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert log[-1].loss < 0.6 * log[0].loss
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=1e-3)


def test_a_model_saved_on_the_gpu_loads_anywhere(tmp_path: object) -> None:
    x, lengths = _batch()
    model = SequenceClassifier(STTauLSTM(3, 32, 5), 4).cuda()
    path = model.save(f"{tmp_path}/model.safetensors")
    for device in ("cpu", "cuda"):
        again = load(path, device=device)
        assert again.head.weight.device.type == device
        close = torch.testing.assert_close
        close(predict(again, x, lengths).mean.cpu(), predict(model, x, lengths).mean.cpu(), rtol=1e-4, atol=1e-5)


def test_exact_inference_is_stable_over_ten_thousand_steps() -> None:
    model = SequenceClassifier(STTauGRU(3, 64, 10), 4)
    x = torch.randn(2, 10_000, 3)
    p = predict(model.cuda(), x, mode="exact")
    q = predict(model.double().cpu(), x.double(), mode="exact")
    torch.testing.assert_close(p.mean.cpu().double(), q.mean, rtol=1e-4, atol=1e-5)
