"""SWAG: a Gaussian over the weights that training passes through."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sttau.checks import as_integer
from sttau.models import DeepEnsemble, SequenceModel
from sttau.seeds import derive_seed
from sttau.training.distributed import join
from sttau.training.log import Update
from sttau.training.options import TrainOptions
from sttau.training.trainer import fit
from sttau.training.weight_distribution import WeightDistribution

_EXTRA = 0.5  # further updates by default, at most this share of those of training


class WeightMoments:
    """Mean, variances and a low-rank covariance of weights that are added one after the other.

    Args:
        rank: Number of deviations that are kept, those of the last weights.

    Example:
        >>> moments = WeightMoments(rank=2)
        >>> for value in (1.0, 2.0, 6.0):
        ...     moments.add(torch.tensor([value]))
        >>> moments.mean.item(), round(moments.variance.item(), 3), [d.item() for d in moments.deviations]
        (3.0, 4.667, [0.5, 3.0])
    """

    def __init__(self, rank: int = 20) -> None:
        self.rank = as_integer("rank", rank, 2)
        self.count = 0
        self.mean = self.square = torch.zeros((), dtype=torch.float64)
        self.deviations: list[Tensor] = []

    def add(self, weights: Tensor) -> None:
        """Include weights, as one vector."""
        weights = weights.detach().cpu().double()
        self.count += 1
        self.mean = self.mean + (weights - self.mean) / self.count
        self.square = self.square + (weights.square() - self.square) / self.count
        self.deviations = [*self.deviations, weights - self.mean][-self.rank :]

    @property
    def variance(self) -> Tensor:
        """Variance of each weight."""
        return (self.square - self.mean.square()).clamp_min(0)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Draw weights: half of the covariance is diagonal, half is that of the deviations."""
        if self.count < 2:
            raise ValueError(f"two weights must be added before any can be drawn, got {self.count}")
        diagonal = torch.randn(self.mean.shape, generator=generator, dtype=torch.float64) * self.variance.sqrt()
        columns = torch.stack(self.deviations)
        low_rank = torch.randn(len(columns), generator=generator, dtype=torch.float64) @ columns
        return self.mean + diagonal / math.sqrt(2) + low_rank / math.sqrt(2 * (len(columns) - 1))


def swag(
    model: SequenceModel,
    data: Any,
    targets: Any = None,
    lengths: Any = None,
    *,
    members: int = 10,
    snapshots: int = 20,
    every: int | None = None,
    rank: int = 20,
    options: TrainOptions | None = None,
    **changes: Any,
) -> DeepEnsemble:
    """Return an ensemble whose weights are drawn from a Gaussian fitted to those of further training.

    A copy of a trained network is trained on at a constant learning rate. The mean of its weights at regular intervals,
    their variances and their last deviations from the mean make a Gaussian (Maddox et al., 2019), from which the
    members are drawn. There are no validation data: nothing is chosen among the draws.

    Args:
        model: A trained classifier or regressor.
        data: Its training data: a ``SequenceDataset``, or inputs with ``targets`` and ``lengths``.
        targets: Targets, where ``data`` is inputs.
        lengths: Lengths, where ``data`` is inputs.
        members: Number of networks to draw.
        snapshots: Number of weights that the Gaussian is fitted to.
        every: Updates between two snapshots; by default an epoch, but together at most half of the options' updates.
        rank: Number of deviations in the covariance.
        options: Options of the previous training; schedules, validation, callbacks and the folder are left out.
        changes: Single options by name, such as ``learning_rate=0.001``.

    Example:
        >>> from sttau import SequenceClassifier
        >>> x, y = torch.randn(40, 5, 2), torch.arange(40) % 2
        >>> ensemble = swag(SequenceClassifier(nn.GRU(2, 8), num_classes=2), x, y, members=4, every=1)
        >>> len(ensemble.members)
        4
    """
    members, snapshots = as_integer("members", members, 1), as_integer("snapshots", snapshots, 2)
    moments = WeightMoments(rank)
    sequences = len(getattr(data, "inputs", data))
    before = (options or TrainOptions()).with_changes(**changes).for_data(sequences)
    every = snapshot_interval(before, sequences, snapshots) if every is None else as_integer("every", every, 1)
    trained = deepcopy(model)
    trained.layer.flatten_parameters()  # a copy on a GPU has its weights in several pieces
    weights = [parameter for parameter in trained.parameters() if parameter.requires_grad]

    def collect(update: Update) -> None:
        if update.number % every == 0:
            moments.add(nn.utils.parameters_to_vector(weights))

    fit(
        trained, data, targets, lengths,
        options=before.with_changes(
            updates=every * snapshots, seed=derive_seed(before.seed, "swag"), callbacks=collect,
            checkpoint_every=every,  # on a GPU, callbacks are called for several updates at once, but up to these
            schedule="constant", warmup=0, scheduler=None, ema_decay=None, metric=None, patience=None, folder=None,
            progress=False,
        ),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(derive_seed(before.seed, "swag draws"))
    processes, drawn = join(model.device), []
    for _ in range(members):
        vector = nn.utils.parameters_to_vector(weights).detach()
        if processes.first:  # callbacks are called there alone
            vector = moments.draw(generator).to(vector)
        processes.copy_first([vector])
        with torch.no_grad():
            nn.utils.vector_to_parameters(vector, weights)
        drawn.append(deepcopy(trained))
        drawn[-1].decisions = None
    return DeepEnsemble(drawn)


def snapshot_interval(options: TrainOptions, sequences: int, snapshots: int) -> int:
    """Return the updates between two snapshots: an epoch, but together at most half of the training's updates.

    Args:
        options: Options of the training before.
        sequences: Number of training sequences.
        snapshots: Number of snapshots.
    """
    return max(1, min(-(-sequences // options.batch_size), int(_EXTRA * options.total_updates) // snapshots))


@dataclass(frozen=True)
class SWAG(WeightDistribution):
    """The Gaussian over the weights of further training that :func:`swag` draws from, with its settings."""

    snapshots: int = 20
    every: int | None = None
    rank: int = 20

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
        """Return the ensemble of :func:`swag`."""
        return swag(
            network, inputs, targets, lengths,
            members=members, snapshots=self.snapshots, every=self.every, rank=self.rank, options=options,
        )  # fmt: skip


POSTERIOR = SWAG
