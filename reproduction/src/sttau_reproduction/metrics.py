"""Metrics of results under unambiguous names."""

from __future__ import annotations

from sttau.jobs import Result

#: Experiments whose metric ``temperature`` is that of temperature scaling; in others it is τ of the layer.
_SCALED = ("paper", "trial")


def metrics_of(result: Result) -> dict[str, float]:
    """Metrics of a result, with ``tau`` for τ of a layer and ``scaling_temperature`` for that of temperature scaling.

    Results of version 0.1 have ``temperature`` for either, depending on the experiment.

    Example:
        >>> scaled = Result("paper", "bih", "lstm", None, 0, {"pe": 1.4, "temperature": 1.2}, {}, 1.0)
        >>> layer = Result("cartpole-temperature", "cartpole-mdp", "st-tau", 2, 0, {"temperature": 0.9}, {}, 1.0)
        >>> metrics_of(scaled), metrics_of(layer)
        ({'pe': 1.4, 'scaling_temperature': 1.2}, {'tau': 0.9})
    """
    name = "scaling_temperature" if result.experiment in _SCALED else "tau"
    return {name if key == "temperature" else key: value for key, value in result.metrics.items()}
