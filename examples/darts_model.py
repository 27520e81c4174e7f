"""Forecasts of this library as a model of darts, so that its metrics, backtests and plots work with them.

Run: python examples/darts_model.py
"""

from __future__ import annotations

import numpy as np
import torch
from darts import TimeSeries
from darts.metrics import mae, mic
from darts.models import NaiveSeasonal
from darts.models.forecasting.forecasting_model import LocalForecastingModel

import sttau
from sttau.data import SequenceDataset, windows


class SequenceForecast(LocalForecastingModel):
    """A network that reads the last steps of one series and predicts the next; longer forecasts are sampled paths.

    Args:
        method: Name of a method of ``sttau.methods.METHODS``.
        length: Steps that the network reads.
        updates: Updates of training.
        hidden_size: Size of the hidden state.
        seed: Seed of training, and of forecasts without a ``random_state``.
    """

    def __init__(
        self, method: str = "st-tau", length: int = 24, updates: int = 400, hidden_size: int = 32, seed: int = 0
    ) -> None:
        super().__init__()
        self.method, self.length, self.updates, self.hidden_size, self.seed = method, length, updates, hidden_size, seed

    def fit(self, series: TimeSeries, verbose: bool | None = None) -> SequenceForecast:
        """Train on all windows of a series of one component."""
        super().fit(series, verbose=verbose)
        self._assert_univariate(series)
        cut = windows(series.values(), self.length)
        lengths = torch.full((len(cut.inputs),), self.length)
        data = SequenceDataset("series", "train", cut.inputs.float(), lengths, cut.targets.float(), (), "darts")
        self.model = sttau.create_model(data, self.method, hidden_size=self.hidden_size, seed=self.seed, patch_size=1)
        sttau.fit(self.model, data, updates=self.updates, seed=self.seed, progress=False)
        return self

    def predict(
        self,
        n: int,
        num_samples: int = 1,
        verbose: bool | None = None,
        show_warnings: bool = True,
        random_state: int | None = None,
    ) -> TimeSeries:
        """Forecast n steps: the mean of 100 paths, or with ``num_samples`` above 1 so many paths."""
        super().predict(n, num_samples, verbose=verbose)
        history = torch.from_numpy(self.training_series.values()[-self.length :].astype(np.float32))
        members, wanted = len(self.model.members), 100 if num_samples == 1 else num_samples
        seed = self.seed if random_state is None else random_state
        found = sttau.forecast(self.model, history[None], n, samples=-(-wanted // members), seed=seed)
        # Paths of one member follow each other; those of all are taken in turn, so that any number is of all.
        paths = found.paths[:, 0].unflatten(0, (members, -1)).transpose(0, 1).flatten(0, 1)[:wanted]
        values = paths.mean(0, keepdim=True) if num_samples == 1 else paths
        return self._build_forecast_series(values.permute(1, 2, 0).double().numpy())

    @property
    def supports_multivariate(self) -> bool:
        """One component only."""
        return False

    @property
    def supports_probabilistic_prediction(self) -> bool:
        """Paths are samples."""
        return True

    @property
    def _target_window_lengths(self) -> tuple[int, int]:
        return self._min_train_input_length(self.length + 1), 0


def main(updates: int = 400) -> dict[str, float]:
    """Forecast a day of a generated series of hours; return errors, and the share of values in the 80 % interval."""
    generator = np.random.default_rng(0)
    hours = np.arange(24 * 40)
    values = (
        np.sin(2 * np.pi * hours / 24) + 0.5 * np.sin(4 * np.pi * hours / 24) + 0.2 * generator.normal(size=len(hours))
    )
    train, test = TimeSeries.from_values(values).split_before(24 * 39)
    model = SequenceForecast(updates=updates).fit(train)
    paths = model.predict(24, num_samples=200)
    return {
        "sttau": float(mae(test, model.predict(24))),
        "yesterday": float(mae(test, NaiveSeasonal(24).fit(train).predict(24))),
        "coverage": float(mic(test, paths, q_interval=(0.1, 0.9))),
    }


if __name__ == "__main__":
    print(main())
