"""Several trainings at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sttau.models import SequenceModel
from sttau.training.log import Update
from sttau.training.loop import fit


@dataclass(frozen=True, eq=False)
class Job:
    """A call of :func:`fit` that is still to be made: its model, its data and its other arguments by name."""

    model: SequenceModel
    inputs: Any
    targets: Any
    lengths: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Finished(NamedTuple):
    """A job that is done, or has failed."""

    number: int  # of the job, counted from 0
    job: Job
    log: list[Update]
    seconds: float  # that it took, beside the others
    error: Exception | None  # why it failed; the others go on


def fit_together(jobs: Iterable[Job], at_once: int = 16) -> Iterator[Finished]:
    """Train several models in one process, and hand over each as soon as it is done.

    Args:
        jobs: taken one by one as room becomes free, so an iterator may make models late.
        at_once: how many are trained at a time on a GPU; on a CPU it is one after another.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> x, y = torch.randn(32, 5, 2), torch.arange(32) % 2
        >>> models = [SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2) for _ in range(3)]
        >>> jobs = (Job(model, x, y, options={"updates": 4, "seed": seed}) for seed, model in enumerate(models))
        >>> [(done.number, len(done.log)) for done in fit_together(jobs)]
        [(0, 4), (1, 4), (2, 4)]
    """
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}")
    for number, job in enumerate(jobs):
        began, log, error = time.perf_counter(), [], None
        try:
            log = fit(job.model, job.inputs, job.targets, job.lengths, **job.options)
        except Exception as caught:
            error = caught
        yield Finished(number, job, log, time.perf_counter() - began, error)
