"""The data of the paper's networks, on the device where it is used, and the predictions of a network for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from sttau.data import SequenceDataset, load
from sttau.inference import predict
from sttau.layers import LayerMode
from sttau.models import Predictor

#: OOD data sets that networks are evaluated on, by the data they were trained on.
OOD: dict[str, dict[str, str]] = {"imdb": {"customer": "customer_reviews", "movie": "movie_reviews"}}

_PART_SEED = 0
_PARTS = ("train", "validation", "test", "ood", "time", "held_out", "folds", "fold")


class Splits(NamedTuple):
    """All data that a network is trained and evaluated on."""

    train: SequenceDataset
    validation: SequenceDataset
    test: SequenceDataset
    ood: dict[str, SequenceDataset]


def load_splits(data: str, part: Mapping[str, int], device: str) -> Splits:
    """Load a data set, or a part of it; what was loaded once stays on the device for all that follow.

    Args:
        data: Name of the data set.
        part: Numbers of sequences of ``train``, ``validation``, ``test`` and of each OOD data set (``ood``), a seeded
            choice, and to how many steps they are cut (``time``); all where nothing is said. ``held_out`` training
            sequences are for validation too, and not trained on. Of the rest, ``fold`` number i of ``folds`` is not
            trained on.
        device: Device of the tensors.

    Example:
        >>> splits = load_splits("digits", {"train": 50, "time": 6}, "cpu")
        >>> splits.train.inputs.shape, len(splits.test)
        (torch.Size([50, 6, 8]), 359)
    """
    if unknown := sorted(set(part) - set(_PARTS)):
        raise ValueError(f"part has {', '.join(_PARTS)}, each with a number; got {', '.join(unknown)}")
    return _load_once(data, tuple(sorted(part.items())), device)


@cache
def _load_once(data: str, part: tuple[tuple[str, int], ...], device: str) -> Splits:
    sizes = dict(part)

    def get(name: str, split: str, size: str) -> SequenceDataset:
        return _on(_cut(load(name, split), sizes.get(size), sizes.get("time")), device)

    train, validation = _hold_out(
        get(data, "train", "train"), get(data, "validation", "validation"), sizes.get("held_out", 0)
    )
    if "folds" in sizes:
        kept = torch.ones(len(train), dtype=torch.bool)
        kept[fold_rows(len(train), sizes["folds"], sizes["fold"])] = False
        train = train.select(kept.nonzero().flatten())
    splits = Splits(
        train=train,
        validation=validation,
        test=get(data, "test", "test"),
        ood={out: get(name, "test", "ood") for out, name in OOD.get(data, {}).items()},
    )
    if device == "cuda":
        torch.cuda.synchronize()  # it will be read on other streams
    return splits


def fold_rows(sequences: int, folds: int, number: int) -> Tensor:
    """Return the rows of one of several parts of equal size that training data is divided into, a seeded choice.

    Example:
        >>> sorted(torch.cat([fold_rows(5, 2, number) for number in range(2)]).tolist())
        [0, 1, 2, 3, 4]
    """
    order = torch.randperm(sequences, generator=torch.Generator().manual_seed(_PART_SEED))
    return order.tensor_split(folds)[number].sort().values


def _hold_out(
    train: SequenceDataset, validation: SequenceDataset, count: int
) -> tuple[SequenceDataset, SequenceDataset]:
    """Move some sequences, a seeded choice, from training to validation."""
    if not count:
        return train, validation
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(_PART_SEED))
    moved, kept = train.select(order[:count].sort().values), train.select(order[count:].sort().values)
    time = max(moved.inputs.shape[1], validation.inputs.shape[1])

    def widened(data: SequenceDataset) -> Tensor:
        wide = data.inputs.new_zeros(len(data), time, *data.inputs.shape[2:])
        wide[:, : data.inputs.shape[1]] = data.inputs
        return wide

    pairs = (moved, validation)
    return kept, replace(
        validation,
        inputs=torch.cat([widened(data) for data in pairs]),
        lengths=torch.cat([data.lengths for data in pairs]),
        labels=torch.cat([data.labels for data in pairs]),
        ids=None,
    )


def _cut(data: SequenceDataset, size: int | None, time: int | None) -> SequenceDataset:
    if size is not None and size < len(data):
        chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(_PART_SEED))[:size]
        data = data.select(chosen.sort().values)
    time = min(time or int(data.lengths.max()), int(data.lengths.max()))
    return replace(data, inputs=data.inputs[:, :time].contiguous(), lengths=data.lengths.clamp(max=time))


def _on(data: SequenceDataset, device: str) -> SequenceDataset:
    """Labels and lengths stay on the CPU: they are read one by one."""
    return replace(data, inputs=data.inputs.to(device))


def lengths_of(data: SequenceDataset) -> Tensor | None:
    """The lengths; None where all sequences are equally long, which is faster and the same."""
    return None if bool((data.lengths == data.inputs.shape[1]).all()) else data.lengths


def predict_probabilities(
    model: Predictor, data: SequenceDataset, samples: int = 10, seed: int = 0, mode: LayerMode | None = None
) -> Tensor:
    """Predict the class probabilities of all sequences.

    Args:
        model: Classifier, or an ensemble of them.
        data: Sequences to predict.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
        mode: Mode of the layer; its own by default.

    Returns:
        (runs, sequences, classes) float32 probabilities of the single samples, or members, on the CPU.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 16, num_states=4), num_classes=10)
        >>> predict_probabilities(model, load("digits", "test"), samples=3).shape
        torch.Size([3, 359, 10])
    """
    prediction = predict(model, data.inputs, lengths_of(data), samples, seed, mode, keep_samples=True)
    drawn = prediction.mean[None] if prediction.samples is None else prediction.samples  # exact inference has none
    probabilities: Tensor = drawn.cpu()
    return probabilities
