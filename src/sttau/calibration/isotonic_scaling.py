"""Isotonic scaling: a monotone map of each class's probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sttau.calibration.scaling import Scaling, average, check_classes, check_logits


class IsotonicScaling(Scaling):
    """Map the averaged probability of each class by isotonic regression, then normalize the rows.

    One class against the rest (Zadrozny & Elkan, 2002), with scikit-learn. It needs more validation data than the other
    methods and can predict probabilities of exactly 0, with a log-likelihood of -inf for such a label. On the data it
    is fitted on, it cannot get worse for two classes; for more classes, normalization gives no such guarantee.

    Args:
        knots: Per class, the points between which its map is linear; set by ``fit``.

    Example:
        >>> logits, labels = torch.tensor([[4.0, 0.0], [3.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 0, 1, 1])
        >>> [round(p, 3) for p in IsotonicScaling().fit(logits, labels).probabilities(logits)[:, 0].tolist()]
        [0.667, 0.667, 0.0, 0.667]
    """

    def __init__(self, knots: Any = None) -> None:
        self.knots: list[tuple[list[float], list[float]]] | None = (
            None if knots is None else [(list(map(float, x)), list(map(float, y))) for x, y in knots]
        )

    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log of the mapped means over samples; -inf where a probability is 0."""
        z = check_logits(logits)
        if self.knots is None:
            raise ValueError("this IsotonicScaling is not fitted; call fit with validation logits and labels first")
        check_classes(z, len(self.knots))
        before = average(z).exp()
        columns = before.cpu().numpy().T
        mapped = np.stack([np.interp(column, *knots) for column, knots in zip(columns, self.knots, strict=True)], -1)
        after = torch.as_tensor(mapped, device=z.device)
        total = after.sum(-1, keepdim=True)
        return torch.where(total > 0, after / total, before).log()  # a row mapped to zeros is left unchanged

    def state_dict(self) -> dict[str, Any]:
        """Return the points between which the map of each class is linear."""
        if self.knots is None:
            raise ValueError("this IsotonicScaling is not fitted, so it has no state; call fit first")
        return {"type": "IsotonicScaling", "knots": [[list(x), list(y)] for x, y in self.knots]}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        from sklearn.isotonic import IsotonicRegression

        p, y = average(logits).exp().cpu().numpy(), labels.cpu().numpy()
        self.knots = []
        for k in range(p.shape[1]):
            fitted = IsotonicRegression(y_min=0, y_max=1).fit(p[:, k], (y == k).astype(float))
            self.knots.append((fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist()))


SCALING = IsotonicScaling
