from __future__ import annotations

import io

import pytest

from sttau.plotting.learning_curve import learning_figure
from sttau.plotting.style import look
from sttau.training import Update


@pytest.mark.parametrize("length", [1, 3, 400])
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_a_learning_curve_has_a_panel_for_loss_each_metric_and_temperature(length: int, layers: int) -> None:
    log = [
        Update(n, length, 1 / n, (1.0,) * layers, metrics={"nll": 0.5, "error": 0.1} if n % 2 == 0 else {})
        for n in range(1, length + 1)
    ]
    with look():
        figure = learning_figure(log)
        figure.savefig(io.BytesIO())
    titles = [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes]
    validation = ["validation: nll", "validation: error"] if length > 1 else []
    assert titles == ["training loss", *validation, *(["temperature τ"] if layers else [])]
    if layers:
        assert len(figure.axes[-1].lines) == layers
