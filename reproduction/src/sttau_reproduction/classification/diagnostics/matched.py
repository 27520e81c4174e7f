"""OOD detection at equal length: in-distribution texts are cut to the lengths of the OOD texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from sttau.data import SequenceDataset
from sttau.inference import features
from sttau.metrics import METRICS, detection
from sttau.metrics.statistics.resampling import draw_counts
from sttau.models import Predictor
from sttau.ood import SCORES, FeatureDistance
from sttau_reproduction.classification.evaluation import choose_in_distribution
from sttau_reproduction.classification.splits import Splits, lengths_of, predict_probabilities

PER_TEXT = 4  # cut reviews for each OOD text
_RESAMPLES = 200
_FITTED = 5000  # training sequences that distances are taken from
_AREAS = ("auroc", "aupr")


def cut_to_lengths(data: SequenceDataset, lengths: Tensor, seed: int = 0) -> SequenceDataset:
    """Return the beginnings of texts, as many as there are lengths and as long: a seeded choice of texts long enough.

    Where no text is long enough, the longest is taken as it is.

    Example:
        >>> ids, ends = torch.tensor([[2, 3, 4, 5], [6, 7, 0, 0]]), torch.tensor([4, 2])
        >>> texts = SequenceDataset("a", "test", ids, ends, torch.tensor([0, 1]), ("n", "p"), "made", ("w",) * 8)
        >>> cut_to_lengths(texts, torch.tensor([3, 4])).inputs.tolist()
        [[2, 3, 4, 0], [2, 3, 4, 5]]
    """
    order = data.lengths.argsort(descending=True, stable=True)
    shortest_first = data.lengths[order].flip(0)
    enough = (len(data) - torch.searchsorted(shortest_first.contiguous(), lengths)).clamp_min(1)
    drawn = torch.rand(len(lengths), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = order[(drawn * enough).long()]
    chosen = data.select(rows)
    ends = torch.minimum(lengths, chosen.lengths)
    inputs = chosen.inputs[:, : int(ends.max())]
    beyond = torch.arange(inputs.shape[1])[None] >= ends[:, None]
    return replace(chosen, inputs=inputs.masked_fill(beyond.to(inputs.device), 0), lengths=ends)


def match_lengths(data: SequenceDataset, ood: SequenceDataset, seed: int = 0) -> SequenceDataset:
    """Return :data:`PER_TEXT` cut in-distribution texts for each OOD text."""
    return cut_to_lengths(data, ood.lengths.repeat(PER_TEXT), seed)


def measure_areas(inside: Tensor, ood: Tensor, intervals: bool = False) -> dict[str, float]:
    """AUROC, AUPR and the false-positive rate in percent; 95 % intervals of the areas over examples, if asked for.

    OOD texts are repeated as often as there are in-distribution texts for each, so that AUPR is 50 by chance.

    Args:
        inside: (n,) scores of in-distribution sequences.
        ood: (m,) scores of OOD sequences.
        intervals: Whether to resample both groups.

    Example:
        >>> measure_areas(torch.tensor([0.1, 0.2, 0.6, 0.3]), torch.tensor([0.5, 0.9]))
        {'auroc': 87.5, 'aupr': 90.0, 'fpr95': 25.0}
    """
    times = max(1, len(inside) // len(ood))
    found = detection(inside, ood.repeat_interleave(times))
    values = {name: 100 * getattr(found, name) for name in ("auroc", "aupr", "fpr95")}
    if not intervals:
        return values
    weight = torch.cat([torch.ones(len(inside)), torch.full((len(ood),), float(times))]).double()
    for name in _AREAS:
        metric = METRICS[name].per_example
        assert metric is not None
        weighted = metric.weighted(metric.rows(inside, ood))
        drawn = torch.cat([weighted(w * weight) for w in draw_counts([len(inside), len(ood)], _RESAMPLES, 0)])
        low, high = (100 * drawn.double().quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))).tolist()
        values |= {f"{name}_low": low, f"{name}_high": high}
    return values


def measure_detection(
    model: Predictor, splits: Splits, drawn: Tensor, samples: int, intervals: bool
) -> dict[str, float]:
    """Areas of every score of Table 2, with all of each text and at equal length.

    Args:
        model: Trained network.
        splits: Data of the experiment.
        drawn: (samples, sequences, classes) probabilities of all test sequences.
        samples: Monte Carlo samples of a prediction.
        intervals: Whether intervals are wanted.

    Returns:
        ``{data}_{score}_auroc`` and so on, and the same at equal length as ``{data}_{score}_matched_auroc``.
    """
    if not splits.ood:
        return {}
    inside = choose_in_distribution(len(splits.test), splits.ood)
    distance = _distance(model, splits, samples)
    found: dict[str, float] = {}
    for out, data in splits.ood.items():
        cut, unseen = match_lengths(splits.test, data), predict_probabilities(model, data, samples)
        far = distance(data)
        for name, some, farther in (
            ("", drawn[:, inside[out]], distance(splits.test.select(inside[out]))),
            ("matched_", predict_probabilities(model, cut, samples), distance(cut)),
        ):
            pairs = {
                score.replace("-", "_"): (function(some), function(unseen))
                for score, function in SCORES.items()
                if len(unseen) > 1 or score not in ("variance", "mutual-information")
            }
            pairs["feature_distance"] = (farther, far)
            for score, (here, there) in pairs.items():
                areas = measure_areas(here, there, intervals)
                found |= {f"{out}_{score}_{name}{what}": value for what, value in areas.items()}
    return found


def _distance(model: Predictor, splits: Splits, samples: int) -> Callable[[SequenceDataset], Tensor]:
    """The distance of features from those of training data, as Table 2 has it."""
    train = splits.train
    rows = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:_FITTED]
    fitted = train.select(rows)

    def read(data: SequenceDataset) -> Tensor:
        return features(model, data.inputs, lengths_of(data), samples)

    distance = FeatureDistance().fit(read(fitted), fitted.labels)
    return lambda data: distance.score(read(data))


def detect_by_length(test: SequenceDataset, ood: Mapping[str, SequenceDataset]) -> dict[str, float]:
    """The same areas for the length alone: the shorter a text, the more it is taken for OOD; and the mean lengths."""
    inside = choose_in_distribution(len(test), dict(ood))
    found = {"length": float(test.lengths.double().mean())}
    for out, data in ood.items():
        found[f"{out}_length"] = float(data.lengths.double().mean())
        for name, some in (("", test.select(inside[out])), ("matched_", match_lengths(test, data))):
            areas = measure_areas(-some.lengths.double(), -data.lengths.double(), intervals=True)
            found |= {f"{out}_{name}{what}": value for what, value in areas.items()}
    return found
