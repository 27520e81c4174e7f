"""All detectors by name. A new one is one new file with its ``DETECTOR``, and its name here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sttau.models import Predictor
from sttau.ood.detector import Detector
from sttau.ood.scores import SCORES

#: The files with a ``DETECTOR``.
_FILES = (
    "energy", "react", "vim", "knn", "mahalanobis", "token_density", "unknown_tokens", "length", "prediction_score",
)  # fmt: skip

#: Every detector by its name.
DETECTORS: dict[str, type[Detector]] = {
    kind.name: kind for kind in (import_module(f"sttau.ood.detectors.{file}").DETECTOR for file in _FILES)
}


def make_detector(name: str, **settings: Any) -> Detector:
    """Return a detector by name, not fitted.

    Args:
        name: Name in :data:`DETECTORS`, or of a score of predictions in :data:`sttau.ood.SCORES`.
        **settings: Arguments of its class.

    Example:
        >>> make_detector("knn", neighbors=5), make_detector("entropy").of
        (KNN(), 'entropy')
    """
    if name in SCORES:
        return DETECTORS["prediction-score"](score=name, **settings)  # type: ignore[call-arg]
    if name not in DETECTORS:
        raise ValueError(f"detector must be one of {', '.join((*SCORES, *DETECTORS))}, got {name!r}")
    return DETECTORS[name](**settings)


def kept_detector(model: Predictor) -> Detector:
    """Return the detector that :meth:`Detector.keep` kept in a model, fitted and with its threshold."""
    kept = model.detector
    if kept is None:
        raise ValueError("the model has no detector; fit one and call detector.keep(model) before model.save(path)")
    kind = DETECTORS[kept.name]
    settings = kind.absent | dict(kept.settings)
    threshold = settings.pop("threshold")
    detector = kind(**settings)
    detector.tensors, detector.threshold, detector._fitted = kept.tensors, threshold, True
    return detector
