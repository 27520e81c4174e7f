"""Random search: trials of a declared network whose values are drawn from a search space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scipy.stats import loguniform, uniform
from sklearn.model_selection import ParameterSampler

_EVERYWHERE = {"training.schedule": ["constant", "cosine"], "training.average": [0.99, 0.998, 0.999]}
#: Values of each data set that are drawn, by the path of their name; widths, batches and the number of updates are
#: those of the network, so that all trials cost the same.
SPACES: Mapping[str, Mapping[str, Any]] = {
    "bih": {
        "settings.memory": [24, 94, 187, 374],
        "settings.model.dropout": uniform(0.0, 0.4),
        "settings.model.input_noise": uniform(0.0, 0.15),
        "training.learning_rate": loguniform(0.001, 0.03),
        "training.weight_decay": loguniform(0.0001, 0.1),
        **_EVERYWHERE,
    },
    "imdb": {
        "settings.memory": [10, 100, 300, 1000],
        "settings.embedding_scale": [0.03, 0.1, 0.3, 1.0],
        "settings.model.dropout": uniform(0.0, 0.7),
        "settings.model.word_dropout": uniform(0.0, 0.5),
        "training.learning_rate": loguniform(0.0005, 0.01),
        "training.weight_decay": loguniform(0.001, 0.5),
        **_EVERYWHERE,
    },
}
#: And of one method alone, by the name of the method.
OF_METHOD: Mapping[str, Mapping[str, Any]] = {"dropout": {"settings.dropout": loguniform(0.01, 0.4)}}

_DIGITS = 4  # of a drawn number


def draw(data: str, method: str, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Changes of a declared network, drawn independently.

    Args:
        data: A key of :data:`SPACES`.
        method: Method of the network.
        count: Number of draws.
        seed: Seed of the draws.

    Example:
        >>> (one,) = draw("imdb", "lstm", 1)
        >>> sorted(one), sorted(one["settings"])
        (['settings', 'training'], ['embedding_scale', 'memory', 'model'])
    """
    if data not in SPACES:
        raise ValueError(f"there is no search space of {data!r}; there are {', '.join(SPACES)}")
    space = {**SPACES[data], **OF_METHOD.get(method, {})}
    for drawn in ParameterSampler(space, count, random_state=seed):
        changes: dict[str, Any] = {}
        for path, value in sorted(drawn.items()):
            *outer, name = path.split(".")
            place = changes
            for step in outer:
                place = place.setdefault(step, {})
            place[name] = float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
        yield changes


def choose(records: Iterable[Mapping[str, Any]], tolerance: float = 0.003) -> Mapping[str, Any]:
    """The trial whose optimal temperature is closest to 1, among those close to the lowest validation NLL.

    It is the rule by which ST-τ was chosen (reproduction/docs/log.md).

    Args:
        records: Recorded trials with metrics.
        tolerance: How far above the lowest NLL a trial may be.

    Example:
        >>> values = ((0.22, 1.3), (0.222, 1.1), (0.3, 1.0))
        >>> choose({"metrics": {"validation_nll": n, "scaling_temperature": t}} for n, t in values)["metrics"]
        {'validation_nll': 0.222, 'scaling_temperature': 1.1}
    """
    metrics = [(record, record["metrics"]) for record in records]
    lowest = min(found["validation_nll"] for _, found in metrics)
    close = [(record, found) for record, found in metrics if found["validation_nll"] <= lowest + tolerance]
    return min(close, key=lambda item: abs(item[1]["scaling_temperature"] - 1))[0]
