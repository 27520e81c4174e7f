"""The state of a run: everything that changes during training, as a checkpoint holds it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from sttau.models import Predictor
from sttau.training.early_stopping import EarlyStopping
from sttau.training.ema import EMA, copy_tensors


class TrainState:
    """Weights, optimizer, scheduler, moving average and early stopping of a run, and the number of updates made.

    Attributes:
        number: Updates made.
        finished: Whether training is over.
        best_weights: Weights with the best validation value; None before the first validation.
    """

    def __init__(
        self,
        model: Predictor,
        parameters: list[nn.Parameter],
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        ema: EMA | None,
        early_stopping: EarlyStopping,
        scheduler: LRScheduler | None = None,
    ) -> None:
        self.model, self.parameters, self.optimizer, self.scaler = model, parameters, optimizer, scaler
        self.ema, self.early_stopping, self.scheduler = ema, early_stopping, scheduler
        self.number = 0
        self.finished = False
        self.best_weights: dict[str, Tensor] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state as a checkpoint holds it."""
        return {
            "number": self.number,
            "ended": self.finished,
            "best": self.early_stopping.best,
            "stale": self.early_stopping.stale,
            "model": dict(self.model.state_dict()),
            "best_weights": self.best_weights,
            "ema": None if self.ema is None else self.ema.weights,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            **({} if self.scheduler is None else {"scheduler": self.scheduler.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.number, self.finished = state["number"], state["ended"]
        self.early_stopping.best, self.early_stopping.stale = state["best"], state["stale"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(_with_counters(state["scheduler"], self.scheduler.state_dict()))
        if self.ema is not None:
            copy_tensors(state["ema"], self.ema.weights)
        if state["best_weights"] is not None:
            device = self.model.device
            self.best_weights = {name: weight.to(device) for name, weight in state["best_weights"].items()}

    def step_scheduler(self) -> None:
        """Change the learning rate after an update, where there is a scheduler of updates."""
        if self.scheduler is not None and not isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step()

    def record_validation(self, value: float) -> None:
        """Keep the weights if a validation value is the best so far, and finish if it is too long ago."""
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(value)
        if self.early_stopping.improved(value):
            self.best_weights = {name: weight.detach().clone() for name, weight in self.model.state_dict().items()}
        self.finished |= self.early_stopping.should_stop

    def restore_best(self) -> None:
        """Set the model to its best weights: those of the best validation, else the moving average, else the last."""
        if self.ema is not None:
            self.ema.copy_to_parameters()
        if self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)

    def temperatures(self) -> Tensor:
        """Return τ of each layer and direction, of the first member of an ensemble; empty where there is none."""
        return self.model.members[0].layer.temperature.detach().flatten()


def _with_counters(saved: Any, own: Any) -> Any:
    """The saved state of a scheduler with the counters of its own, which a checkpoint holds as dicts."""
    if isinstance(own, Counter):
        return Counter(saved)
    if isinstance(saved, dict) and isinstance(own, dict):
        return {name: _with_counters(value, own.get(name)) for name, value in saved.items()}
    if isinstance(saved, list) and isinstance(own, list) and len(saved) == len(own):
        return [_with_counters(value, before) for value, before in zip(saved, own, strict=True)]
    return saved
