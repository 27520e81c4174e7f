"""What is measured, and how sure one can be of it.

A measure is a function of weighted rows, one row a test example. With weights of 1 it is the value; with the counts of
a bootstrap resample, that of the resample; and on the rows of two methods below each other, with 1 for one of the two
and 0 for the other, that of a round of the randomization test. So thousands of rounds are a few operations on matrices.
The values are those of ``sttau.calibration`` and ``sttau.ood``, and with the same seed the intervals and p-values too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sttau.calibration.intervals import Interval
from sttau.calibration.metrics import bin_edges, sort_into
from sttau.calibration.regression import central_interval, crps_terms, nll_terms
from sttau.calibration.significance import draw_signs
from sttau.ood import max_probability_score

#: (rounds, rows) weights, to (rounds,) values.
Weighing = Callable[[Tensor], Tensor]
#: Rows of every measure, by its name.
Rows = dict[str, Tensor]

_BINS = 10
_CHUNK_NUMBERS = 1 << 22  # about how many weights are drawn at once
_CACHED_NUMBERS = 1 << 18  # and how many are worked on, so that they stay in the cache


class Measure(NamedTuple):
    """A column of the table."""

    title: str
    goal: Literal["min", "max"] | None  # None where neither is better in itself
    digits: int  # after the point
    prepare: Callable[[Tensor], Weighing] | None = None  # None for a number that examples have no part in
    detects: bool = False  # whether its rows are those of familiar and of foreign sequences


def _mean(rows: Tensor) -> Weighing:
    return lambda weights: (weights @ rows[:, 0]) / weights.sum(1)


def _gaps(rows: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """(rounds, bins) |accuracy - confidence| · count, and count, of rows that are a bin's number and a gap."""
    inside = torch.nn.functional.one_hot(rows[:, 0].long(), _BINS).to(torch.float64)
    gaps = inside * rows[:, 1:]
    return lambda weights: ((weights @ gaps).abs(), weights @ inside)


def _expected_gap(rows: Tensor) -> Weighing:
    gaps = _gaps(rows)
    return lambda weights: gaps(weights)[0].sum(1) / weights.sum(1)


def _largest_gap(rows: Tensor) -> Weighing:
    gaps = _gaps(rows)

    def weigh(weights: Tensor) -> Tensor:
        gap, count = gaps(weights)
        return (gap / count.clamp_min(1)).amax(1)

    return weigh


class _Sorted(NamedTuple):
    """Rows in the order of their scores, and where a group of equal scores ends."""

    order: Tensor
    ends: Tensor | None  # None where no two are equal

    @classmethod
    def by(cls, scores: Tensor) -> _Sorted:
        order = scores.argsort()
        _, sizes = torch.unique_consecutive(scores[order], return_counts=True)
        return cls(order, None if len(sizes) == len(order) else sizes.cumsum(0) - 1)

    def up_to(self, values: Tensor) -> Tensor:
        """(rounds, groups) the sum of values, (rounds, rows), over each group and all before."""
        sums = _take(values, self.order).cumsum(1)
        return sums if self.ends is None else _take(sums, self.ends)


def _take(values: Tensor, columns: Tensor) -> Tensor:
    """The columns of a matrix; NumPy is several times as fast as PyTorch at it."""
    return torch.from_numpy(values.numpy().take(columns.numpy(), axis=1))


def _own(up_to: Tensor) -> Tensor:
    """What each group has by itself."""
    return up_to.diff(dim=1, prepend=torch.zeros_like(up_to[:, :1]))


def _risk_area(rows: Tensor) -> Weighing:
    """AURC of rows that are a doubt and a loss; the sum over the places of a group is one of harmonic numbers."""
    groups, losses = _Sorted.by(rows[:, 0]), rows[:, 1]

    def weigh(weights: Tensor) -> Tensor:
        given, lost = groups.up_to(weights), groups.up_to(weights * losses)
        size, loss = _own(given), _own(lost)
        before, lost_before = given - size, lost - loss
        mean = loss / size.clamp_min(1)
        total = weights.sum(1)
        steps = torch.arange(1, int(total.max()) + 1, dtype=torch.float64)
        harmonic = torch.cat([torch.zeros(1, dtype=torch.float64), (1 / steps).cumsum(0)])
        reached = harmonic[given.long()]
        tail = reached.diff(dim=1, prepend=torch.zeros_like(reached[:, :1]))
        return (loss + (lost_before - before * mean) * tail).sum(1) / total

    return weigh


def _roc_area(rows: Tensor) -> Weighing:
    """AUROC of rows that are a score and whether it is a foreign sequence's."""
    groups, foreign = _Sorted.by(rows[:, 0]), rows[:, 1]

    def weigh(weights: Tensor) -> Tensor:
        inside, outside = groups.up_to(weights * (1 - foreign)), _own(groups.up_to(weights * foreign))
        below = inside - _own(inside) / 2  # ties count half
        return (below * outside).sum(1) / (inside[:, -1] * outside.sum(1))

    return weigh


def _average_precision(rows: Tensor) -> Weighing:
    """AUPR of the same rows, the foreign ones to be found."""
    groups, foreign = _Sorted.by(-rows[:, 0]), rows[:, 1]

    def weigh(weights: Tensor) -> Tensor:
        flagged, found = groups.up_to(weights), groups.up_to(weights * foreign)
        return (found / flagged.clamp_min(1) * _own(found)).sum(1) / found[:, -1]

    return weigh


#: Every column of the table, in order. Errors, calibration errors and areas are in percent.
MEASURES: dict[str, Measure] = {
    "pe": Measure("error %", "min", 2, _mean),
    "mse": Measure("MSE", "min", 4, _mean),
    "mae": Measure("MAE", "min", 4, _mean),
    "nll": Measure("NLL", "min", 3, _mean),
    "crps": Measure("CRPS", "min", 4, _mean),
    "brier": Measure("Brier", "min", 4, _mean),
    "ece": Measure("ECE %", "min", 2, _expected_gap),
    "mce": Measure("MCE %", "min", 1, _largest_gap),
    "aurc": Measure("AURC %", "min", 3, _risk_area),
    "auroc": Measure("OOD AUROC %", "max", 1, _roc_area, detects=True),
    "aupr": Measure("OOD AUPR %", "max", 1, _average_precision, detects=True),
    "coverage": Measure("95 % interval: coverage %", None, 1, _mean),
    "width": Measure("95 % interval: width", None, 3, _mean),
    "parameters": Measure("parameters", None, 0),
    "seconds": Measure("training s", None, 1),
    "predict_ms": Measure("ms a prediction", None, 3),
}
_PERCENT = ("pe", "ece", "mce", "aurc", "auroc", "aupr", "coverage")


def classification_rows(probabilities: Tensor, labels: Tensor, foreign: Tensor | None = None) -> Rows:
    """Rows of all measures of a classifier.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        foreign: (sequences, classes) probabilities for sequences from elsewhere.
    """
    p, wide = probabilities, probabilities.to(torch.float64)
    confidence, label = p.max(dim=-1)
    wrong = (label != labels).to(torch.float64)
    outcome = torch.nn.functional.one_hot(labels, p.shape[1]).to(torch.float64)
    doubt = max_probability_score(p).to(torch.float64)
    gap = torch.stack([sort_into(confidence, bin_edges(confidence, _BINS, "width")).double(), 1 - wrong], -1)
    gap[:, 1] -= confidence
    rows = {
        "pe": wrong[:, None],
        "nll": -wide.gather(1, labels[:, None]).clamp_min(torch.finfo(p.dtype).tiny).log(),  # 0 is one that underflowed
        "brier": (wide - outcome).square().sum(-1, keepdim=True),
        "ece": gap,
        "mce": gap,
        "aurc": torch.stack([doubt, wrong], -1),
    }
    if foreign is not None:
        strange = max_probability_score(foreign).to(torch.float64)
        scores = torch.cat([doubt, strange])
        rows["auroc"] = rows["aupr"] = torch.stack([scores, torch.arange(len(scores)).ge(len(doubt)).double()], -1)
    return rows


def regression_rows(mean: Tensor, variance: Tensor, targets: Tensor) -> Rows:
    """Rows of all measures of a regressor, averaged over its outputs.

    Args:
        mean: (runs, predictions, outputs) of the mixture that is predicted.
        variance: of the same shape.
        targets: (predictions, outputs).
    """
    away = mean.to(torch.float64).mean(0) - targets
    low, high = central_interval(mean, variance, 0.95)
    terms = {
        "mse": away.square(),
        "mae": away.abs(),
        "nll": nll_terms(mean, variance, targets),
        "crps": crps_terms(mean, variance, targets),
        "coverage": ((low <= targets) & (targets <= high)).to(torch.float64),
        "width": high - low,
    }
    return {name: value.mean(-1, keepdim=True) for name, value in terms.items()}


def evaluate(rows: Rows) -> dict[str, float]:
    """Every measure of one trained network.

    Example:
        >>> rows = classification_rows(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        >>> {name: round(value, 3) for name, value in evaluate(rows).items() if name in ("pe", "brier")}
        {'pe': 50.0, 'brier': 0.65}
    """
    return {
        name: float(_prepare(name, part)(torch.ones(1, len(part), dtype=torch.float64))) for name, part in rows.items()
    }


def intervals(
    methods: Mapping[str, Sequence[Rows]], examples: int, resamples: int, level: float, seed: int
) -> dict[tuple[str, str], Interval]:
    """Bootstrap interval of each method's mean over seeds, by method and measure.

    Args:
        methods: the rows of every seed, by method.
        examples: of the test data; the rows of detection go on with foreign ones.
        resamples: how many times examples are drawn, the same for all methods and seeds.
        level: of confidence.
        seed: of the draws.
    """
    seeds_of = {name: len(runs) for name, runs in methods.items()}
    found: dict[tuple[str, str], Interval] = {}
    for sort in (False, True):
        works = {
            (method, name): [_prepare(name, run[name]) for run in runs]
            for method, runs in methods.items()
            for name in runs[0]
            if MEASURES[name].detects == sort
        }
        if not works:
            continue
        values: dict[tuple[str, str], list[Tensor]] = {key: [] for key in works}
        sizes = _sizes(methods, examples, sort)
        for weights in _in_pieces(_resampled(sizes, resamples, seed)):
            for key, work in works.items():
                values[key].append(sum((weigh(weights) for weigh in work), torch.zeros(())) / seeds_of[key[0]])
        whole = torch.ones(1, sum(sizes), dtype=torch.float64)
        tail = (1 - level) / 2
        shares = torch.tensor([tail, 1 - tail], dtype=torch.float64)
        for key, work in works.items():
            value = sum(float(weigh(whole)) for weigh in work) / len(work)
            low, high = torch.cat(values[key]).quantile(shares).tolist()
            found[key] = Interval(value, low, high, level)
    return found


def p_values(ours: Sequence[Rows], theirs: Sequence[Rows], examples: int, rounds: int, seed: int) -> dict[str, float]:
    """Approximate randomization test of two methods, for each measure with a goal.

    In every round the answers to each example are exchanged, those of all seeds together, with probability one half.
    """
    found: dict[str, float] = {}
    for sort in (False, True):
        names = [name for name in ours[0] if MEASURES[name].detects == sort and MEASURES[name].goal]
        if not names:
            continue
        works = {name: [_both(name, a[name], b[name]) for a, b in zip(ours, theirs, strict=True)] for name in names}
        size = sum(_sizes({"": ours}, examples, sort))
        whole = torch.ones(1, size, dtype=torch.float64)
        least, count = {}, dict.fromkeys(names, 0)
        for name, work in works.items():
            pairs = [weigh(whole) for weigh in work]
            left, right = sum(float(a) for a, _ in pairs), sum(float(b) for _, b in pairs)
            least[name] = abs(left - right) - 1e-12 * (abs(left) + abs(right))  # rounding must not tell equals apart
        for signs in _in_pieces(draw_signs(size, rounds, seed)):
            keep = (1 + signs) / 2
            for name, work in works.items():
                apart = sum((a - b for a, b in (weigh(keep) for weigh in work)), torch.zeros(()))
                count[name] += int((apart.abs() >= least[name]).sum())
        found |= {name: (count[name] + 1) / (rounds + 1) for name in names}
    return found


def adjust(p: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction for several tests at once: the chance that any of them is wrong stays below the level.

    Example:
        >>> adjust({"a": 0.01, "b": 0.04, "c": 0.03})
        {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    adjusted, largest = {}, 0.0
    for place, (name, value) in enumerate(sorted(p.items(), key=lambda pair: pair[1])):
        largest = max(largest, min(1.0, (len(p) - place) * value))
        adjusted[name] = largest
    return adjusted


def _prepare(name: str, rows: Tensor) -> Weighing:
    prepare = MEASURES[name].prepare
    assert prepare is not None
    weigh = prepare(rows)
    return (lambda weights: 100 * weigh(weights)) if name in _PERCENT else weigh


def _both(name: str, ours: Tensor, theirs: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Both methods' values when the rows with weight 0 are exchanged."""
    weigh = _prepare(name, torch.cat([ours, theirs]))

    def exchange(keep: Tensor) -> tuple[Tensor, Tensor]:
        return weigh(torch.cat([keep, 1 - keep], 1)), weigh(torch.cat([1 - keep, keep], 1))

    return exchange


def _sizes(methods: Mapping[str, Sequence[Rows]], examples: int, detects: bool) -> list[int]:
    if not detects:
        return [examples]
    rows = next(iter(methods.values()))[0]["auroc"]
    return [examples, len(rows) - examples]


def _resampled(sizes: list[int], resamples: int, seed: int) -> Iterator[Tensor]:
    """Counts of the rows in each resample, (some, rows), as ``draw_rows`` draws them; foreign ones are drawn apart."""
    generators = [torch.Generator().manual_seed(seed + place) for place in range(len(sizes))]
    at_once = max(1, _CHUNK_NUMBERS // sum(sizes))
    for first in range(0, resamples, at_once):
        some = min(at_once, resamples - first)
        draws = [torch.randint(n, (some, n), generator=g) for n, g in zip(sizes, generators, strict=True)]
        yield torch.cat([_counts(draw, size) for draw, size in zip(draws, sizes, strict=True)], 1)


def _in_pieces(chunks: Iterable[Tensor]) -> Iterator[Tensor]:
    for chunk in chunks:
        yield from chunk.split(max(1, _CACHED_NUMBERS // chunk.shape[1]))


def _counts(draws: Tensor, size: int) -> Tensor:
    counts = torch.zeros(len(draws), size, dtype=torch.float64)
    return counts.scatter_add_(1, draws, torch.ones_like(draws, dtype=torch.float64))
