"""Random search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sttau.data import from_arrays
from sttau.methods import DataSpec, build
from sttau.training.stacking import stack_key
from sttau_reproduction.classification import search, trials
from sttau_reproduction.classification.networks import find


def test_draws_are_those_of_the_seed_and_within_the_space() -> None:
    found = list(search.draw("bih", "dropout", 20))
    assert found == list(search.draw("bih", "dropout", 20))
    assert found != list(search.draw("bih", "dropout", 20, seed=1))
    assert len({json.dumps(changes, sort_keys=True) for changes in found}) == 20
    for changes in found:
        assert 0.001 <= changes["training"]["learning_rate"] <= 0.03
        assert changes["settings"]["memory"] in (24, 94, 187, 374)
        assert 0.01 <= changes["settings"]["dropout"] <= 0.4
    assert "dropout" not in next(search.draw("bih", "lstm", 1))["settings"]
    with pytest.raises(ValueError, match="no search space of 'digits'; there are bih, imdb"):
        next(search.draw("digits", "lstm", 1))


def test_one_line_of_a_file_makes_many_trials_that_train_together(tmp_path: Path) -> None:
    file = tmp_path / "trials.json"
    line = {"name": "random VD", "data": "imdb", "network": "dropout-best", "part": {"held_out": 30}}
    alone = {"name": "as declared", "data": "imdb", "network": "lstm-best"}
    file.write_text(json.dumps([{**line, "random": 6, "training": {"updates": 70}}, alone]))
    *drawn, declared = trials.read_trials(file)
    assert [cell.method for cell in drawn] == [f"random VD {number}" for number in range(6)]
    assert declared.settings["settings"] == find("imdb", "lstm-best").settings
    assert len({cell.key for cell in drawn}) == 6
    data = from_arrays(torch.randint(1, 50, (20, 6)).numpy(), torch.arange(20).numpy() % 2)
    spec = DataSpec.of(data)
    keys = set()
    for cell in drawn:
        assert cell.settings["training"]["updates"] == 70
        assert cell.settings["training"]["batch_size"] == find("imdb", "dropout-best").training["batch_size"]
        assert cell.settings["part"] == {"held_out": 30}
        small = {**cell.settings["settings"], "hidden_size": 4, "embedding_size": 4}
        keys.add(stack_key(build("dropout", spec, small, data, 0)))
    assert len(keys) == 1
    assert None not in keys


@pytest.mark.parametrize(("tolerance", "chosen"), [(0.0, "lowest"), (0.003, "calibrated")])
def test_the_calibrated_trial_is_chosen_among_good_ones(tolerance: float, chosen: str) -> None:
    values = {"lowest": (0.22, 1.2), "calibrated": (0.222, 0.9), "worse": (0.23, 1.0)}
    records: list[dict[str, Any]] = [
        {"method": name, "metrics": {"validation_nll": nll, "scaling_temperature": temperature}}
        for name, (nll, temperature) in values.items()
    ]
    assert search.choose(records, tolerance)["method"] == chosen
