"""Early stopping: the best validation value so far, and when to give up."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class EarlyStopping:
    """Keeps the best value of a metric and counts the validations since.

    Attributes:
        mode: Whether the metric is minimized (``min``) or maximized (``max``).
        patience: Validations without improvement after which training should stop; None for never.
        best: Best value so far.
        stale: Validations since the best one.

    Example:
        >>> stopping = EarlyStopping("min", patience=2)
        >>> [stopping.improved(value) for value in (0.5, 0.4, 0.45, float("nan"))], stopping.should_stop
        ([True, True, False, False], True)
    """

    mode: str = "min"
    patience: int | None = None
    best: float | None = None
    stale: int = 0

    def improved(self, value: float) -> bool:
        """Record a validation; return whether it is the best so far. NaN never is."""
        sign = 1 if self.mode == "min" else -1
        if not math.isnan(value) and (self.best is None or sign * value < sign * self.best):
            self.best, self.stale = value, 0
            return True
        self.stale += 1
        return False

    @property
    def should_stop(self) -> bool:
        """Whether the best value is too many validations ago."""
        return self.patience is not None and self.stale >= self.patience
