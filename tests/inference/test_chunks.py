"""A prediction depends on its sequence alone, and leaves the model as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from sttau import DeepEnsemble, SequenceClassifier, STTauGRU, STTauLSTM, predict
from tests.inference.small_models import DOUBLE, EXACTLY, FIELDS, SAMPLED, batch_of, bold, close

# -- a prediction depends on its sequence alone --------------------------------------------------------------


LENGTHS = [6, 4, 1, 5, 6]
LAYERS: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: STTauLSTM(2, 4, 3),
    "GRU": lambda: STTauGRU(2, 4, 3),
    "deep LSTM": lambda: STTauLSTM(2, 4, 3, num_layers=2, dropout=0.5, bidirectional=True),
    "deep GRU": lambda: STTauGRU(2, 4, 3, num_layers=2, dropout=0.5, bidirectional=True),
}


class Change(NamedTuple):
    """A batch made of the rows ``rows`` of another, which must be predicted alike."""

    inputs: Tensor
    lengths: Tensor | None
    rows: list[int]
    chunk_size: int | None = None


def split(x: Tensor, lengths: Tensor) -> list[Change]:
    return [Change(x[i : i + 1, :length], None, [i]) for i, length in enumerate(lengths.tolist())]


def shuffled(x: Tensor, lengths: Tensor) -> list[Change]:
    order = [3, 0, 4, 2, 1]
    return [Change(x[order], lengths[order], order)]


def repeated(x: Tensor, lengths: Tensor) -> list[Change]:
    rows = [0, 1, 2, 3, 4, 0, 2, 2]
    return [Change(x[rows], lengths[rows], rows)]


def padded(x: Tensor, lengths: Tensor) -> list[Change]:
    garbage = [float("nan"), float("inf"), -1e30] if x.is_floating_point() else [-1, 10**12, 4]
    changes = []
    for value in garbage:
        longer = torch.full((len(x), 9, *x.shape[2:]), value, dtype=x.dtype)
        for row, length in enumerate(lengths.tolist()):
            longer[row, :length] = x[row, :length]
        changes.append(Change(longer, lengths, [0, 1, 2, 3, 4]))
    return changes


def in_chunks(x: Tensor, lengths: Tensor) -> list[Change]:
    return [Change(x, lengths, [0, 1, 2, 3, 4], size) for size in (1, 3, 20, 10**6)]


@cache
def _predicted(
    name: str, mode: Any, per_step: bool, tokens: bool, dtype: torch.dtype
) -> tuple[Any, Tensor, Tensor, Any]:
    """A model, a batch, its lengths and its prediction, the same for all changes of the batch."""
    torch.manual_seed(0)
    make = (LAYERS | SAMPLED)[name.removeprefix("ensemble of ")]

    def network() -> SequenceClassifier:
        return SequenceClassifier(make(), 3, nn.Embedding(5, 2) if tokens else None)

    model: Any = (DeepEnsemble.of(network, size=3) if name.startswith("ensemble") else network()).to(dtype)
    x = torch.randint(5, (5, 6)) if tokens else torch.randn(5, 6, 2, dtype=dtype)
    lengths = torch.tensor(LENGTHS)
    return model, x, lengths, predict(model, x, lengths, 7, 3, mode, per_step=per_step)


@pytest.mark.parametrize("change", [split, shuffled, repeated, padded, in_chunks], ids=lambda f: f.__name__)
@pytest.mark.parametrize("tokens", [False, True], ids=["features", "tokens"])
@pytest.mark.parametrize(
    ("name", "mode", "per_step"),
    [
        *((name, mode, False) for name in LAYERS for mode in ("soft", "hard")),
        *((name, mode, True) for name in ("LSTM", "GRU") for mode in ("soft", "hard")),
        ("GRU", "exact", False),
        ("GRU", "exact", True),
        *((name, "sampled", False) for name in SAMPLED),
        *((name, "sampled", True) for name in ("bayes", "dropout")),
        ("ensemble of GRU", "soft", False),
        ("ensemble of GRU", "exact", True),
        ("ensemble of dropout", "sampled", True),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (DOUBLE, EXACTLY)], ids=str)
@pytest.mark.slow
def test_a_prediction_depends_on_its_sequence_alone(
    change: Callable[[Tensor, Tensor], list[Change]],
    tokens: bool,
    name: str,
    mode: Any,
    per_step: bool,
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    together = name.startswith("ensemble")
    model, x, lengths, whole = _predicted(name, mode, per_step, tokens, dtype)
    for inputs, valid, rows, chunk_size in change(x, lengths):
        part = predict(model, inputs, valid, 7, 3, mode, per_step=per_step, chunk_size=chunk_size)
        for field in FIELDS:
            got, want = getattr(part, field), getattr(whole, field)[rows]
            steps = min(inputs.shape[1], 6)
            close(*((got[:, :steps], want[:, :steps]) if per_step else (got, want)), tolerance)
        if mode == "exact" and not together:
            assert part.attribution is not None
            assert whole.attribution is not None
            steps = min(inputs.shape[1], 6)
            close(part.attribution[:, :steps], whole.attribution[rows, :steps], tolerance)
            assert bool((part.attribution[:, 6:] <= tolerance).all())


# -- what predict leaves behind ------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
def test_the_training_flag_is_left_as_it_was(training: bool) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3, num_layers=2, dropout=0.5), 3).train(training)
    predict(model, torch.zeros(1, 3, 2))
    assert all(module.training == training for module in model.modules())


def test_the_training_flag_is_left_as_it_was_after_an_error() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3).train()
    model.head = nn.Linear(5, 3)  # does not fit: fails in the middle of the run
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        predict(model, torch.zeros(1, 3, 2))
    assert all(module.training for module in model.modules())


def test_a_part_that_was_frozen_stays_frozen() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3).train()
    model.layer.eval()
    predict(model, torch.zeros(1, 3, 2))
    assert model.training
    assert not model.layer.training


def test_dropout_is_off_while_predicting() -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, num_layers=2, dropout=0.9), 3))
    x = batch_of(3, 5, 2)
    assert torch.equal(predict(model.train(), x).mean, predict(model.eval(), x).mean)


def test_predictions_in_several_threads_leave_a_model_in_training_mode_and_are_those_of_one_thread() -> None:
    model = bold(SequenceClassifier(STTauLSTM(2, 4, 3, num_layers=2, dropout=0.9), 3)).train()
    x, flags = batch_of(3, 5, 2), []
    expected = predict(model, x).mean
    meeting = threading.Barrier(4, timeout=60)

    def meet(module: nn.Module, arguments: object) -> None:  # so that all are at work at once, and end one by one
        meeting.wait()
        flags.append((module.training, model.training, model.layer.training))

    model.register_forward_pre_hook(meet)
    with ThreadPoolExecutor(4) as pool:
        means = list(pool.map(lambda _: predict(model, x).mean, range(4)))
    assert all(torch.equal(mean, expected) for mean in means)
    assert flags == [(False, True, True)] * 4
    assert all(module.training for module in model.modules())


def test_a_model_that_keeps_a_method_or_is_compiled_predicts_in_eval_mode() -> None:
    model = bold(SequenceClassifier(nn.LSTM(2, 4, num_layers=2, dropout=0.9), 3))
    x = batch_of(3, 5, 2)
    expected = predict(model.eval(), x).mean
    model.embed = model.embed  # type: ignore[method-assign]
    model.train()
    assert torch.equal(predict(model, x).mean, expected)
    model.compile(backend="eager")
    assert torch.equal(predict(model, x).mean, expected)
    assert torch.equal(predict(torch.compile(model, backend="eager"), x).mean, expected)  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", ["soft", "hard", "deterministic"])
@pytest.mark.parametrize("kind", [STTauGRU, STTauLSTM])
def test_the_same_call_and_longer_padding_give_the_same_bits(kind: Any, mode: Any) -> None:
    torch.manual_seed(0)
    model, lengths = SequenceClassifier(kind(3, 50, 5), 4), torch.randint(1, 12, (13,))
    x = torch.randn(13, 11, 3)
    padded = torch.cat([x, torch.full((13, 5, 3), torch.nan)], dim=1)
    first, again = (predict(model, x, lengths, mode=mode) for _ in range(2))
    longer = predict(model, padded, lengths, mode=mode)
    for name in FIELDS:
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert torch.equal(getattr(first, name), getattr(longer, name))
