"""Ensembles that are drawn from a distribution of weights at the end of training."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

from torch import Tensor, nn

from sttau.models import DeepEnsemble, Posterior, Predictor
from sttau.training.options import TrainOptions
from sttau.training.weight_distribution import WeightDistribution

#: The files with a ``POSTERIOR``, which are the names too. A new distribution is a new file and its name in this line.
_FILES = ("laplace", "swag")


def find_posterior(posterior: Posterior) -> WeightDistribution:
    """Return the distribution that an ensemble names, with its settings; an error that lists what there is otherwise.

    Example:
        >>> find_posterior(Posterior("swag", arguments={"rank": 10}))
        SWAG(snapshots=20, every=None, rank=10)
    """
    kind, _, arguments = posterior
    if kind not in _FILES:
        raise ValueError(f"posterior must be one of {', '.join(_FILES)}, got {kind!r}")
    distribution: type[WeightDistribution] = import_module(f"sttau.training.{kind}").POSTERIOR
    names = [field.name for field in fields(distribution)]
    unknown = sorted(set(arguments) - set(names))
    if unknown:
        raise ValueError(f"posterior of {kind} takes {', '.join(names)}; got {unknown[0]!r}")
    return distribution(**arguments)


def prepare_posterior(model: Predictor) -> None:
    """Before training: leave one network of an ensemble with a posterior, after checking that it can be drawn.

    Members that share weights get their own.
    """
    if not isinstance(model, DeepEnsemble):
        return
    if model.differs_in_heads:
        model.copy_bodies()
    if model.posterior is None:
        return
    find_posterior(model.posterior).check(model.members[0])
    model.networks = nn.ModuleList(model.members[:1])


def draw_members(
    model: Predictor, inputs: Tensor, targets: Tensor, lengths: Tensor | None, options: TrainOptions
) -> None:
    """After training: replace the network of an ensemble with a posterior by networks that are drawn from it.

    Args:
        model: Trained predictor; one without a posterior is left as it is.
        inputs: Inputs of the training data.
        targets: Their targets.
        lengths: (sequences,) valid steps.
        options: Options of the training.
    """
    if not isinstance(model, DeepEnsemble) or model.posterior is None:
        return
    network, distribution = model.members[0], find_posterior(model.posterior)
    drawn = distribution.draw(network, inputs, targets, lengths, members=model.posterior.size, options=options)
    model.networks = drawn.networks
    model.train(network.training)
