"""Cost of the baselines relative to ``nn.LSTM``: all in one run, as medians of alternating rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial

import torch
from torch import Tensor, nn

from sttau.bench import SAMPLES, Shape, Task, make_inputs, time_alternately, training_step, without_gradients
from sttau.engine import Noise
from sttau.jobs import Result
from sttau.layers import BayesLSTM, LSTMLayer, VariationalDropoutLSTM
from sttau.models import DeepEnsemble, Predictor, SequenceClassifier
from sttau.training.batches import Batch
from sttau.training.gradients import Gradients

SHAPES = (
    Shape("lstm", 8, 500, 256, 256, 2),
    Shape("lstm", 256, 187, 1, 128, 5),
    Shape("lstm", 64, 100, 32, 100, 5),
    Shape("lstm", 64, 8, 8, 64, 10),
)
TASKS: tuple[Task, ...] = ("training", "forward", "samples")
MEMBERS = 5  # of the ensemble


def measure_baselines(
    shapes: tuple[Shape, ...] = SHAPES,
    device: str = "cpu",
    *,
    rounds: int = 7,
    round_seconds: float = 0.15,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Result]:
    """Time a training step, a forward pass and ten samples of each baseline, in float32.

    For ``nn.LSTM`` and an ensemble of it ten samples are one pass: there is nothing to draw. An ensemble is trained as
    ``fit`` does it, and in two other ways: in one graph of all members, and on a CPU with two threads.

    Args:
        shapes: Shapes to measure; the number of states does not matter.
        device: Device of the measurement.
        rounds: Number of alternations of the methods; each value is the median over them.
        round_seconds: Approximate time of one method in one round.
        progress: Callback, called with the name of each measurement.
    """
    allow = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        for shape in shapes:
            began = time.perf_counter()
            torch.manual_seed(0)
            x = make_inputs(shape, device, torch.float32)
            plain = partial(nn.LSTM, shape.features, shape.hidden, device=device)
            ensemble = DeepEnsemble.of(lambda make=plain: SequenceClassifier(make(), 2), MEMBERS)  # type: ignore[misc]
            layers: dict[str, nn.LSTM | LSTMLayer | DeepEnsemble] = {
                "lstm": plain(),
                "ensemble": ensemble,
                "bayes": BayesLSTM(shape.features, shape.hidden, device=device),
                "dropout": VariationalDropoutLSTM(shape.features, shape.hidden, dropout=0.1, device=device),
            }
            metrics: dict[str, dict[str, float]] = {method: {} for method in layers}
            for task in TASKS:
                progress(f"{shape.name}: {task}")
                work = {f"{method}/{task}": _work(layer, x, task) for method, layer in layers.items()}
                if task == "training":
                    work |= {f"ensemble/training{way}": call for way, call in _trainings(ensemble, x).items()}
                for name, value in time_alternately(work, device, rounds, round_seconds).items():
                    method, _, what = name.partition("/")
                    metrics[method][f"{what}_ms"] = value
            seconds = time.perf_counter() - began
            settings = {**asdict(shape), "precision": "float32", "rounds": rounds, "device": device}
            for method, numbers in metrics.items():
                yield Result("baseline-speed", shape.name, method, None, 0, numbers, settings, seconds)
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allow


def _trainings(ensemble: DeepEnsemble, x: Tensor) -> dict[str, Callable[[], None]]:
    """The gradient of all members: as ``fit`` takes it, in one graph, and on a CPU in two threads."""
    rows = torch.arange(x.shape[1], device=x.device)
    batch = Batch(x.transpose(0, 1), torch.zeros_like(rows), None, Noise.of(rows), 1.0)
    off = torch.amp.GradScaler(x.device.type, enabled=False)

    def gradients_of(model: Predictor) -> Gradients:
        return Gradients(model, list(model.parameters()), off, "float32", 1, 1)

    together, alone = gradients_of(ensemble), [gradients_of(member) for member in ensemble.members]
    whole = list(ensemble.parameters())
    pool = ThreadPoolExecutor(2)

    def as_fit_does() -> None:
        together(batch)

    def in_one_graph() -> None:
        torch.autograd.grad(ensemble.loss(batch.inputs, batch.targets, noise=batch.noise), whole)

    def in_threads() -> None:
        list(pool.map(lambda gradients: gradients(batch), alone))

    ways = {"": as_fit_does, "_one_graph": in_one_graph}
    return ways if x.is_cuda else ways | {"_two_threads": in_threads}


def _work(layer: nn.LSTM | LSTMLayer | DeepEnsemble, x: Tensor, task: Task) -> Callable[[], None]:
    def last(noise: Noise | None = None) -> Tensor:
        if isinstance(layer, DeepEnsemble):
            answer: Tensor = layer(x.transpose(0, 1))
            return answer
        if isinstance(layer, nn.LSTM):
            output: Tensor = layer(x)[0]
            return output[-1]
        return layer.features(x.transpose(0, 1), noise=noise, steps="last").squeeze(1)

    if task == "training":
        return training_step(last, [layer])
    many = Noise.of(torch.arange(x.shape[1], device=x.device), SAMPLES)
    return without_gradients(last if task == "forward" else lambda: last(many))
