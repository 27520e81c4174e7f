from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sttau.jobs import Result
from sttau_reproduction.classification.cost import front, means_of, with_member_costs

QUALITIES = {"nll": 0.2, "pe": 2.0, "ece": 1.0, "aurc": 0.5}


def _result(network: str, seed: int, **metrics: float) -> Result:
    return Result("paper", "imdb", network, None, seed, QUALITIES | metrics, {}, 1.0)


@given(st.dictionaries(st.text("abcdefgh", min_size=1), st.tuples(st.integers(0, 4), st.integers(0, 4))))
def test_nothing_beats_a_network_on_the_front_and_one_of_them_beats_every_other(
    points: dict[str, tuple[int, int]],
) -> None:
    def beats(one: str, other: str) -> bool:
        (cost, loss), (its_cost, its_loss) = points[one], points[other]
        return (cost < its_cost and loss <= its_loss) or (cost <= its_cost and loss < its_loss)

    kept = front({name: (float(cost), float(loss)) for name, (cost, loss) in points.items()})
    assert not [(one, other) for one in points for other in kept if beats(one, other)]
    assert all(any(beats(one, other) for one in kept) for other in points if other not in kept)
    assert [points[name] for name in kept] == sorted(points[name] for name in kept)


def test_an_ensemble_takes_the_mean_time_of_its_members_unless_it_was_timed_itself() -> None:
    members = [_result("lstm-best", seed, train_seconds=10.0 + seed, predict_seconds=1.0) for seed in (0, 2)]
    pair = _result("lstm-best-ensemble-2", 0, predict_seconds=1.5)
    found = with_member_costs([*members, pair])
    assert found[:2] == members
    assert found[2].metrics == QUALITIES | {"train_seconds": 22.0, "predict_seconds": 1.5}


def test_means_are_over_seeds_and_of_networks_that_have_every_number() -> None:
    rows = [_result("lstm", seed, train_seconds=1.0 + seed, predict_seconds=2.0) for seed in (0, 1)]
    found = means_of([*rows, _result("dropout-best", 0)], "imdb", ["lstm", "dropout-best"])
    assert found == {"lstm": pytest.approx(QUALITIES | {"train_seconds": 1.5, "predict_seconds": 2.0})}
