from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sttau
from sttau import DeepEnsemble, SequenceClassifier, create_model, fit, predict
from sttau.data import SequenceDataset, load
from sttau.methods import METHODS
from sttau.models import Posterior
from sttau.training import FitJob, TrainOptions, fit_many, laplace, swag
from tests.extension import copy_package, replace_once, run_copy

DRAWN = [name for name, method in METHODS.items() if method.posterior is not None]
SMALL = {"updates": 20, "validate_every": 10, "progress": False}
every_posterior = pytest.mark.parametrize("method", DRAWN)


def digits(count: int = 60) -> tuple[SequenceDataset, SequenceDataset]:
    parts = (load("digits", split) for split in ("train", "validation"))
    train, validation = (part.select(torch.linspace(0, len(part) - 1, count).long()) for part in parts)
    return train, validation


def numbers() -> SequenceDataset:
    x = torch.randn(60, 6, 2, generator=torch.Generator().manual_seed(0))
    return SequenceDataset("numbers", "train", x, torch.full((60,), 6), x.sum((1, 2)), (), "made up")


def trained(method: str, **changes: object) -> DeepEnsemble:
    train, validation = digits()
    model = create_model(train, method, hidden_size=8, size=3)
    assert isinstance(model, DeepEnsemble)
    assert len(model.members) == 1
    fit(model, train, validation=validation, **{**SMALL, **changes})  # type: ignore[arg-type]
    return model


@every_posterior
def test_training_ends_with_an_ensemble_of_draws_that_is_saved(method: str, tmp_path: Path) -> None:
    model, (train, _) = trained(method), digits()
    assert len(model.members) == 3
    heads = [member.head.weight for member in model.members]
    assert not torch.equal(heads[0], heads[1])
    found = predict(model, train)
    assert bool((found.epistemic > 0).all())
    again = sttau.load(model.save(tmp_path / "model.safetensors"))
    assert again.posterior == model.posterior
    assert torch.equal(predict(again, train).mean, found.mean)


@every_posterior
def test_the_draws_follow_from_the_seed_and_from_a_resumed_run(method: str, tmp_path: Path) -> None:
    first, again, other = (trained(method, seed=seed, folder=tmp_path / str(seed)) for seed in (0, 0, 1))
    for one, two in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    assert not torch.equal(first.members[0].head.weight, other.members[0].head.weight)


@every_posterior
def test_training_again_begins_at_one_network(method: str) -> None:
    model, (train, _) = trained(method), digits()
    log = fit(model, train, **SMALL)  # type: ignore[arg-type]
    assert len(log) == 20
    assert len(model.members) == 3


@every_posterior
def test_a_regressor_has_a_posterior_too(method: str) -> None:
    data = numbers()
    model = create_model(data, method, hidden_size=8, size=4)
    fit(model, data, **SMALL)  # type: ignore[arg-type]
    assert len(model.members) == 4
    assert bool((predict(model, data).epistemic > 0).all())


def test_several_trainings_at_once_end_with_draws() -> None:
    train, _ = digits()
    models = [create_model(train, "laplace", hidden_size=8, size=size) for size in (2, 3)]
    done = list(fit_many(FitJob(model, train, options=TrainOptions(updates=4)) for model in models))
    assert [one.error for one in done] == [None, None]
    assert [len(model.members) for model in models] == [2, 3]


def test_what_cannot_be_drawn_is_refused_before_training() -> None:
    train, _ = digits()
    with pytest.raises(ValueError, match=r"posterior of swag takes snapshots, every, rank; got 'ranks'"):
        fit(create_model(train, "swag", posterior={"ranks": 3}), train, updates=1)
    with pytest.raises(ValueError, match="weights, more than 4,096"):
        fit(create_model(train, "laplace", hidden_size=500), train, updates=1)
    with pytest.raises(ValueError, match="size must be"):
        create_model(train, "swag", size=0)


@pytest.mark.parametrize("method", ["laplace", "swag"])
def test_copies_of_a_network_are_laid_out_in_one_piece_before_they_run(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise cuDNN would copy their weights at every call; on a CPU the calls stand for the layout."""
    laid_out: set[int] = set()
    forward = nn.LSTM.forward

    def flatten_parameters(self: nn.LSTM) -> None:
        laid_out.add(id(self.weight_ih_l0))

    def checked(self: nn.LSTM, *args: Any) -> Any:
        assert id(self.weight_ih_l0) in laid_out
        return forward(self, *args)

    monkeypatch.setattr(nn.LSTM, "flatten_parameters", flatten_parameters)
    monkeypatch.setattr(nn.LSTM, "forward", checked)
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    model.layer.flatten_parameters()
    x, y = torch.randn(20, 3, 2), torch.arange(20) % 2
    if method == "laplace":
        ensemble = laplace(model, x, members=2)
    else:
        ensemble = swag(model, x, y, members=2, snapshots=2, every=1, updates=2)
    assert predict(ensemble, x).mean.shape == (20, 2)


NEW_POSTERIOR = '''"""Copies of a network with random biases."""

from copy import deepcopy
from dataclasses import dataclass

import torch

from sttau.models import DeepEnsemble
from sttau.training.weight_distribution import WeightDistribution


@dataclass(frozen=True)
class RandomBiases(WeightDistribution):
    scale: float = 1.0

    def draw(self, network, inputs, targets, lengths, *, members, options):
        drawn = [deepcopy(network) for _ in range(members)]
        for number, member in enumerate(drawn):
            member.head.bias.data.fill_(number * self.scale)
        return DeepEnsemble(drawn)


POSTERIOR = RandomBiases
'''
USE = """
import sttau, torch
from sttau.models import DeepEnsemble, Posterior
model = sttau.SequenceClassifier(torch.nn.GRU(2, 4), 2)
ensemble = DeepEnsemble([model], Posterior("random_biases", 3, {"scale": 2.0}))
sttau.fit(ensemble, torch.randn(8, 3, 2), torch.arange(8) % 2, updates=1)
print([float(member.head.bias[0]) for member in ensemble.members])
"""


@pytest.mark.slow
def test_a_new_posterior_is_one_file_and_one_name(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "training/random_biases.py").write_text(NEW_POSTERIOR, "utf-8")
    replace_once(package / "training/posterior.py", '"swag")', '"swag", "random_biases")')
    assert run_copy(package, "-c", USE).strip() == "[0.0, 2.0, 4.0]"


def test_an_unknown_posterior_is_refused_with_the_names_of_all() -> None:
    train, _ = digits()
    model = DeepEnsemble([SequenceClassifier(nn.LSTM(8, 4), 10)], Posterior("gauss"))
    with pytest.raises(ValueError, match="posterior must be one of laplace, swag, got 'gauss'"):
        fit(model, train, updates=1)
