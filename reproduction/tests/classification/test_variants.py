from __future__ import annotations

import pytest

from sttau_reproduction.classification.cells import cells_of
from sttau_reproduction.classification.networks import NETWORKS, Network, find
from sttau_reproduction.classification.trained import trainings_of
from sttau_reproduction.classification.variants import ABLATION, ENSEMBLES


@pytest.mark.parametrize("name", sorted(ENSEMBLES))
def test_ensembles_that_are_compared_by_cost_need_no_training_of_their_own(name: str) -> None:
    member, size = ENSEMBLES[name]
    for network in (network for network in NETWORKS if network.name == name):
        alone, (ensemble,) = cells_of([find(network.data, member)], seeds=size), cells_of([network])
        assert [t.key for t in trainings_of(ensemble)] == [t.key for cell in alone for t in trainings_of(cell)]


@pytest.mark.parametrize("name", sorted(ABLATION))
def test_each_network_of_the_ablation_differs_in_one_thing(name: str) -> None:
    best, changed = find("imdb", "st-tau-best"), find("imdb", name)

    def flat(network: Network) -> dict[str, object]:
        return {**network.settings, **network.settings["model"], **network.training, "model": None}

    ours, theirs = flat(best), flat(changed)
    assert len([key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]) == 1
    assert trainings_of(cells_of([changed])[0])[0].key != trainings_of(cells_of([best])[0])[0].key
