"""Ensembles that are drawn from a distribution of weights at the end of training."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from torch import Tensor, nn

from sttau.models import DeepEnsemble, Predictor
from sttau.training.laplace import check_laplace, laplace
from sttau.training.options import TrainOptions
from sttau.training.swag import swag

_FUNCTIONS: dict[str, Callable[..., DeepEnsemble]] = {"laplace": laplace, "swag": swag}
_GIVEN = ("model", "train", "data", "targets", "lengths", "members", "options", "seed", "changes")


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
    kind, _, arguments = model.posterior
    if kind not in _FUNCTIONS:
        raise ValueError(f"posterior must be one of {', '.join(_FUNCTIONS)}, got {kind!r}")
    names = [name for name in inspect.signature(_FUNCTIONS[kind]).parameters if name not in _GIVEN]
    unknown = sorted(set(arguments) - set(names))
    if unknown:
        raise ValueError(f"posterior of {kind} takes {', '.join(names)}; got {unknown[0]!r}")
    if kind == "laplace":
        check_laplace(model.members[0])
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
    kind, size, arguments = model.posterior
    network = model.members[0]
    if kind == "laplace":
        drawn = laplace(network, inputs, lengths, members=size, seed=options.seed, **arguments)
    else:
        drawn = swag(network, inputs, targets, lengths, members=size, options=options, **arguments)
    model.networks = drawn.networks
    model.train(network.training)
