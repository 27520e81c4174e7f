"""What both estimators share: parameters, training, files and pickles."""

from __future__ import annotations

import json
import os
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sttau.calibration import calibrate
from sttau.checks import as_integer, check_device
from sttau.data import SequenceDataset
from sttau.errors import ModelFileError, reading
from sttau.inference import predict
from sttau.methods.create import create_model
from sttau.methods.defaults import HIDDEN_SIZE
from sttau.models import Predictor, load
from sttau.sklearn.series import as_dataset, check_series
from sttau.sklearn.weights import hold_out, merge_equal
from sttau.training import TrainOptions, fit
from sttau.training.options import separate_options

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[Any]
Layout = Literal["channels_last", "channels_first"]
Kind = Literal["total", "aleatoric", "epistemic"]

#: Options of training that the parameters of estimators take their defaults from.
DEFAULTS = TrainOptions()
_NOTE = "sklearn"


class SequenceEstimator(BaseEstimator):
    """What :class:`STTauClassifier` and :class:`STTauRegressor` share."""

    _task: ClassVar[str]
    model_: Predictor
    n_features_in_: int
    reads_2d_: bool
    seed_: int

    def __init__(
        self,
        method: str = "st-tau",
        *,
        hidden_size: int = HIDDEN_SIZE,
        updates: int = DEFAULTS.total_updates,
        learning_rate: float = DEFAULTS.learning_rate,
        batch_size: int = DEFAULTS.batch_size,
        validation_fraction: float = 0.2,
        samples: int = 10,
        layout: Layout = "channels_last",
        device: str = "cpu",
        random_state: Any = None,
        warm_start: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.hidden_size = hidden_size
        self.updates = updates
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.samples = samples
        self.layout = layout
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.settings = settings

    # -- training ----------------------------------------------------------------------------------------------------

    def _train(self, data: SequenceDataset, weights: Array) -> None:
        """Train, calibrate and keep a model; float32 in training."""
        device, seed = check_device(self.device), self._seed()
        train, own, validation, calibration = hold_out(*merge_equal(data, weights), self.validation_fraction, seed)
        network, options = self._settings()
        if np.ptp(own) > 0:
            options["sample_weight"] = own
        if self.warm_start and hasattr(self, "model_"):
            model = deepcopy(self.model_).float().to(device)
        else:
            model = create_model(train, self.method, hidden_size=self.hidden_size, seed=seed, **network).to(device)
        if validation is not None:
            options.setdefault("metric", "nll")
        log = fit(model, train, validation=validation, seed=seed, **options)
        model = _for_prediction(model)
        model.decisions = None
        if calibration is not None:
            calibrate(model, calibration, samples=self.samples, seed=seed)
        self.model_, self.seed_ = model, seed
        self.loss_curve_ = [update.loss for update in log]
        self.n_iter_ = len(log)

    def _settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return settings of the network and options of training."""
        given = dict(self.settings or {})
        own = sorted(set(given) & {*self._get_param_names(), "seed", "sample_weight"})
        if own:
            raise ValueError(
                f"settings names {', '.join(own)}; pass these as parameters of their own, seed as random_state, "
                "sample_weight to fit"
            )
        network, training = separate_options(given)
        options: dict[str, Any] = {"progress": False} | training
        options |= {name: getattr(self, name) for name in ("learning_rate", "batch_size")}
        if options.get("epochs") is None:
            options["updates"] = self.updates
        return network, options

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return as_integer("random_state", self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    # -- data --------------------------------------------------------------------------------------------------------

    @property
    def _channels_first(self) -> bool:
        if self.layout not in ("channels_last", "channels_first"):
            raise ValueError(f"layout must be 'channels_last' or 'channels_first', got {self.layout!r}")
        return self.layout == "channels_first"

    @property
    def _allow_nan(self) -> bool:
        return bool((self.settings or {}).get("missing", "error") != "error")

    def _check_series(self, X: Any, reset: bool) -> Any:
        return check_series(self, X, channels_first=self._channels_first, allow_nan=self._allow_nan, reset=reset)

    def _dataset(self, X: Any, labels: Array | None, class_names: tuple[str, ...] = ()) -> SequenceDataset:
        first, nan = self._channels_first, self._allow_nan
        return as_dataset(X, labels, channels_first=first, allow_nan=nan, class_names=class_names)

    def _predict(self, X: Any) -> Any:
        """Return the prediction of ``sttau.predict``."""
        check_is_fitted(self, "model_")
        data = self._dataset(self._check_series(X, reset=False), None, self._class_names())
        return predict(self.model_, data, samples=self.samples, seed=self.seed_).cpu()

    def _class_names(self) -> tuple[str, ...]:
        return ()

    def predict_uncertainty(self, X: Any, kind: Kind = "total") -> Array:
        """Return the uncertainty of each prediction, (series,): entropy in bits, or the variance of a regressor.

        Args:
            X: Series, as in ``fit``.
            kind: ``total``; ``aleatoric``, the part from noise in the data; or ``epistemic``, the part from the model,
                which more data would reduce.
        """
        if kind not in ("total", "aleatoric", "epistemic"):
            raise ValueError(f"kind must be 'total', 'aleatoric' or 'epistemic', got {kind!r}")
        values: Array = getattr(self._predict(X), kind).reshape(-1).numpy()
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self._allow_nan
        return tags

    # -- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted estimator to one safetensors file, which :func:`sttau.load` reads as a model too.

        Parameters that are no plain values, such as callbacks or a random generator, are left out.

        Returns:
            The path written.
        """
        check_is_fitted(self, "model_")
        params = {name: value for name, value in self._params().items() if _is_plain(value)}
        self.model_.set_note(_NOTE, {"params": params, "fitted": self._fitted()})
        return self.model_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> Self:
        """Return a fitted estimator from a file that :meth:`save`, ``sttau train`` or ``model.save`` wrote.

        Args:
            path: Path of the file.
            device: Device of the model.
        """
        model: Predictor = load(path, device)
        if model.task != cls._task or model.reads_tokens or (cls._task == "regression" and model.num_outputs > 1):
            what = "token ids" if model.reads_tokens else f"series, {model.task} with {model.num_outputs} outputs"
            raise ModelFileError(f"{path}: the model is for {what}; {cls.__name__} is for {cls._task} of series")
        with reading(path, ModelFileError, "Write it again with the method save of an estimator."):
            note: Any = model.notes.get(_NOTE, {})
            params = note.get("params", {})
            estimator = cls(**{name: params[name] for name in cls._get_param_names() if name in params})
            estimator.device, estimator.model_ = device, _for_prediction(model)
            estimator._recall(note.get("fitted", {}))
        return estimator

    def _params(self) -> dict[str, Any]:
        """Parameters as they are written to files."""
        settings = {name: value for name, value in (self.settings or {}).items() if _is_plain(value)}
        params: dict[str, Any] = self.get_params(deep=False)
        return params | {"settings": settings or None}

    def _fitted(self) -> dict[str, Any]:
        """Fitted attributes as they are written to files."""
        return {"n_features_in": int(self.n_features_in_), "reads_2d": self.reads_2d_, "seed": self.seed_}

    def _recall(self, fitted: dict[str, Any]) -> None:
        """Restore what :meth:`_fitted` returned; a model that no estimator wrote has nothing of it."""
        self.n_features_in_ = int(fitted.get("n_features_in", self.model_.num_features or 0))
        self.reads_2d_, self.seed_ = bool(fitted.get("reads_2d", False)), int(fitted.get("seed", 0))

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds the model as the bytes of a safetensors file, on no device."""
        state = dict(super().__getstate__())
        if "model_" in state:
            with tempfile.TemporaryDirectory() as folder:
                state["model_"] = state["model_"].save(Path(folder) / "model.safetensors").read_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if isinstance(state.get("model_"), bytes):
            available = torch.device(self.device).type != "cuda" or torch.cuda.is_available()
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                path.write_bytes(state["model_"])
                self.model_ = _for_prediction(load(path, self.device if available else "cpu"))


def _for_prediction(model: Predictor) -> Predictor:
    """Return the model in eval mode, on a CPU in float64.

    Sums of float32 depend on the number of rows that are computed together, by about 1e-7, and scikit-learn expects the
    same prediction of a series whatever it is predicted with. The kernels of a GPU compute in float32.
    """
    return model.to(torch.float64 if model.device.type == "cpu" else torch.float32).eval()


def _is_plain(value: Any) -> bool:
    """Whether JSON holds a value."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
