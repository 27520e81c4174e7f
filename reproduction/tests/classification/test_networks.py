from __future__ import annotations

import inspect

import pytest

from sttau.methods import METHODS
from sttau.training import TrainOptions
from sttau_reproduction.classification.cells import cells_of, networks_of
from sttau_reproduction.classification.networks import BEST, MEMBERS, NETWORKS, TITLES, find, make_quick
from sttau_reproduction.classification.trained import trainings_of


def test_every_network_has_a_name_for_people_and_is_there_once() -> None:
    assert len({(network.data, network.name) for network in NETWORKS}) == len(NETWORKS)
    assert {network.name for network in NETWORKS} == set(TITLES)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: f"{network.data}-{network.name}")
def test_networks_are_declared_in_words_that_build_and_fit_know(network: object) -> None:
    assert isinstance(network, type(NETWORKS[0]))
    assert ("member" in network.settings) <= (network.method == "ensemble")
    layer = METHODS[network.settings.get("member", network.method)].layers[network.settings["cell"]]
    known = {
        *inspect.signature(layer).parameters,
        "cell",
        "size",
        "member",
        "embedding_size",
        "embedding_scale",
        "memory",
        "gain",
        "model",
        "patch_size",
        "joint",
        "member_size",
    }
    known |= {"hidden_size"}  # nn.LSTM hides its own
    assert set(network.settings) <= known
    assert set(network.training) - {"selection", "average", "teacher", "parts"} <= set(TrainOptions.names())
    assert network.training["selection"] in ("error", "nll")


def test_all_is_all() -> None:
    assert sorted(map(id, networks_of("all"))) == sorted(map(id, NETWORKS))


@pytest.mark.parametrize(
    ("of", "name", "size"),
    [("lstm", "ensemble", MEMBERS), ("st-tau-best", "st-tau-ensemble", 5), ("lstm-best", "lstm-best-ensemble", 5)],
)
def test_members_of_an_ensemble_are_networks_that_stand_alone_too(of: str, name: str, size: int) -> None:
    for data in BEST:
        alone, (ensemble,) = cells_of([find(data, of)]), cells_of([find(data, name)])
        assert len(alone) == size
        assert [t.key for t in trainings_of(ensemble)] == [t.key for cell in alone for t in trainings_of(cell)]
        assert ensemble.settings["prediction_runs"] == alone[0].settings["prediction_runs"]


def test_the_lstm_with_matched_training_is_trained_in_the_same_way() -> None:
    for data in BEST:
        ours, plain = find(data, "st-tau-best"), find(data, "lstm-best")
        assert plain.training == ours.training
        common = {name: ours.settings[name] for name in plain.settings}
        common["model"] = {name: rate for name, rate in common["model"].items() if name != "paths"}
        assert common == plain.settings


def test_a_quick_network_is_the_same_but_small() -> None:
    network = find("imdb", "st-tau-100")
    quick = make_quick(network)
    assert (quick.name, quick.method) == (network.name, network.method)
    assert quick.part
    assert quick.training["updates"] < network.training["updates"] / 100


def test_seeds_can_be_chosen_and_an_ensemble_stays_one() -> None:
    chosen = cells_of(networks_of("table1"), seeds=3)
    assert {cell.seed for cell in chosen if cell.method == "ensemble"} == {0}
    assert {cell.seed for cell in chosen if cell.method == "bayes"} == {0, 1, 2}
    with pytest.raises(ValueError, match="seeds must be at least 1"):
        cells_of(networks_of("table1"), seeds=0)


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(ValueError, match=r"table1, .* got 'table9'"):
        networks_of("table9")
    with pytest.raises(ValueError, match=r"no network 'st-tau-100' on 'bih'; known there: lstm"):
        find("bih", "st-tau-100")
