from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reproduction.tests.classification.small_networks import cells
from sttau.jobs import Result
from sttau.training import FitJob, fit_many
from sttau_reproduction.classification import trained
from sttau_reproduction.classification.cells import Work
from sttau_reproduction.classification.trained import network_path, read_network, trainings_of


def _counted(patch: pytest.MonkeyPatch) -> list[FitJob]:
    """Note every training that is begun."""
    begun: list[FitJob] = []

    def watch(jobs: Any, at_once: int) -> Any:
        for done in fit_many(jobs, at_once):
            begun.append(done.job)
            yield done

    patch.setattr(trained, "fit_many", watch)
    return begun


#: The second is a CPU too, but is treated as a GPU is: everything is trained at once.
DEVICES = pytest.mark.parametrize("device", ["cpu", "cpu:0"])


@DEVICES
def test_an_ensemble_is_made_of_the_networks_of_other_cells(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = _counted(monkeypatch)
    every = cells("lstm", "ensemble", seeds=2)
    results = dict(
        zip([cell.key for cell in every], [r for _, r in Work(tmp_path, device)(every, tmp_path)], strict=True)
    )
    assert len(results) == 3
    assert len(begun) == 2
    ensemble, _ = read_network(tmp_path / "networks", every[2], "cpu")
    for cell, member in zip(every[:2], ensemble.members, strict=True):
        alone, _ = read_network(tmp_path / "networks", cell, "cpu")
        for name, value in alone.state_dict().items():
            assert value.equal(member.state_dict()[name])
    assert len(list((tmp_path / "networks").glob("*.safetensors"))) == 2
    assert not [path for path in (tmp_path / "networks").iterdir() if path.is_dir()]  # checkpoints are gone


@DEVICES
def test_a_training_that_fails_fails_only_its_cells(device: str, tmp_path: Path) -> None:
    (fine,), (broken,) = cells("lstm"), cells("st-tau-classes", learning_rate=1e30)
    (unknown,) = cells("dropout")
    unknown = replace(unknown, settings=unknown.settings | {"settings": {"cell": "lstm", "hidden_sizes": 6}})
    found = {cell.key: result for cell, result in Work(tmp_path, device)([broken, unknown, fine], tmp_path)}
    assert isinstance(found[fine.key], Result)
    assert isinstance(found[broken.key], FloatingPointError)
    assert "do not fit" in str(found[unknown.key])
    assert not network_path(tmp_path / "networks", trainings_of(broken)[0]).exists()
