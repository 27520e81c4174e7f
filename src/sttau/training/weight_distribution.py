"""The interface of distributions of weights that members of an ensemble are drawn from after training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from sttau.models import DeepEnsemble, SequenceModel
from sttau.training.options import TrainOptions


@dataclass(frozen=True)
class WeightDistribution(ABC):
    """A distribution of the weights of a trained network; a subclass is a dataclass, whose fields are its settings."""

    def check(self, network: SequenceModel) -> None:  # noqa: B027 (most distributions take every network)
        """Before training: raise where the distribution is not defined for a network."""

    @abstractmethod
    def draw(
        self,
        network: SequenceModel,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None,
        *,
        members: int,
        options: TrainOptions,
    ) -> DeepEnsemble:
        """Return an ensemble of networks with weights that are drawn.

        Args:
            network: Trained network.
            inputs: Inputs of the training data.
            targets: Their targets.
            lengths: (sequences,) valid steps.
            members: Number of networks to draw.
            options: Options of the training.
        """
