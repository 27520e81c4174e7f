from __future__ import annotations

import numpy as np
import pytest

from sttau.jobs import Result
from sttau_reproduction.classification.diagnostics.corruptions import SEVERITIES
from sttau_reproduction.classification.diagnostics.drawing import corruption_figure, cost_figure
from sttau_reproduction.classification.diagnostics.tables import CORRUPTIONS


def _network(name: str, train: float, nll: float) -> Result:
    metrics = {"nll": nll, "pe": 2.0, "ece": 1.0, "aurc": 0.5, "train_seconds": train, "predict_seconds": 1.0}
    return Result("paper", "bih", name, None, 0, metrics, {}, 1.0)


def test_the_front_leads_from_the_cheapest_network_to_the_best_and_leaves_out_what_is_beaten() -> None:
    figure = cost_figure(
        "bih", [_network("lstm", 2.0, 0.3), _network("lstm-best", 5.0, 0.1), _network("st-tau-10", 9.0, 0.2)]
    )
    assert figure is not None
    front, *kinds = figure.axes[0].lines  # training and NLL
    assert np.asarray(front.get_xydata()).tolist() == [[2.0, 0.3], [5.0, 0.1]]
    assert sorted(np.asarray(line.get_xdata()).item() for line in kinds) == [2.0, 5.0, 9.0]


def test_an_ensemble_is_joined_to_its_member_at_the_cost_of_all_of_them() -> None:
    pair = Result("paper", "bih", "lstm-best-ensemble-2", None, 0, {"nll": 0.05, "pe": 1, "ece": 1, "aurc": 1}, {}, 1.0)
    figure = cost_figure("bih", [_network("lstm-best", 5.0, 0.1), pair])
    assert figure is not None
    _, kind = figure.axes[0].lines
    assert np.asarray(kind.get_xydata()).tolist() == [[5.0, 0.1], [10.0, 0.05]]


@pytest.mark.parametrize("data", CORRUPTIONS)
def test_a_curve_begins_at_the_data_as_it_is_and_is_the_mean_over_seeds(data: str) -> None:
    rows = []
    for seed in (0, 1):
        metrics = {f"{kind}_{severity}_ece": severity + seed for kind in CORRUPTIONS[data] for severity in SEVERITIES}
        rows.append(
            Result("diagnostics", data, "lstm", None, seed, metrics | {"clean_0_ece": 0.5, "ece": 0.25}, {}, 1.0)
        )
    figure = corruption_figure(rows)
    assert figure is not None
    assert len(figure.axes) == len(CORRUPTIONS[data])
    for axes, kind in zip(figure.axes, CORRUPTIONS[data], strict=True):
        (line,) = axes.lines
        start = 0.25 if kind == "classes" else 0.5  # class frequencies are those of other weights, not of other data
        assert np.asarray(line.get_ydata()).tolist() == [start, *(severity + 0.5 for severity in SEVERITIES)]
