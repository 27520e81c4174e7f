"""Deep ensembles: a predictor whose members are independent networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from sttau.checks import as_integer
from sttau.data import Described
from sttau.engine import Noise
from sttau.layers import LayerMode
from sttau.models.base import SequenceModel
from sttau.models.classifier import SequenceClassifier
from sttau.models.predictor import Predictor, Task
from sttau.models.regressor import Gaussian
from sttau.seeds import seeded

Model = TypeVar("Model", bound=SequenceModel)
_SEED_STRIDE = 0x1E3779B97F4A7C15  # between the noise seeds of two members


#: One weight of the joint loss, or those at the beginning and at the end of training.
Joint = float | tuple[float, float]


class Posterior(NamedTuple):
    """The distribution of weights that the members of an ensemble are drawn from at the end of training."""

    kind: str  # one of those in sttau.training.posterior
    size: int = 10  # members that are drawn
    arguments: Mapping[str, Any] = MappingProxyType({})  # settings of that kind


class DeepEnsemble(Predictor):
    """Networks of one kind that are initialized and trained independently (Lakshminarayanan et al., 2017).

    It is trained, evaluated and saved as one model. Its loss is the sum of its members' losses on the same batch; they
    share no weights, so an elementwise optimizer such as Adam trains each as if it were alone, and ``fit`` clips the
    gradient of each member separately. A prediction averages probabilities over members and over their samples; its
    epistemic uncertainty is their disagreement.

    With ``joint`` the loss includes that of the mean prediction of the members. If the members are in exact mode, they
    are probabilistic automata, and the ensemble is one automaton: it starts in the first state of a random member and
    stays in that member.

    Args:
        members: Classifiers, or regressors, on layers of one kind.
        posterior: Distribution that ``fit`` draws the members from after it has trained one network; None to train all
            members. Training such an ensemble again begins at its first member.
        joint: Weight β of the loss of the mean prediction in the training of classifiers, between 0 and 1:
            (1 - β) Σ_m L_m + β M L(mean of the M members). 0 trains each member alone, 1 only what they predict
            together. Of two numbers, β begins with the first and changes linearly to the second during training.

    Example:
        >>> from sttau import SequenceClassifier
        >>> ensemble = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(8, 32), num_classes=3), size=5)
        >>> ensemble(torch.randn(4, 10, 8)).shape
        torch.Size([20, 3])
    """

    def __init__(
        self, members: Iterable[SequenceModel], posterior: Posterior | None = None, joint: Joint = 0.0
    ) -> None:
        super().__init__()
        self.posterior = posterior
        self.joint: Joint = _check_joint(joint)
        self._progress: float | Tensor = 1.0
        self.networks = nn.ModuleList(members)
        if joint and posterior is not None:
            raise ValueError("joint trains all members, but those of an ensemble with a posterior are drawn")
        if not len(self.networks):
            raise ValueError("members must hold at least one model, got none")
        for number, member in enumerate(self.members):
            if not isinstance(member, SequenceModel):
                raise TypeError(f"members must be classifiers or regressors, but member {number} is {type(member)}")
            if _kind(member) != _kind(self.members[0]):
                raise ValueError(
                    f"members must be of one kind, but member {number} differs from the first in its sizes"
                )
            if joint and not isinstance(member, SequenceClassifier):
                raise TypeError("joint is for classifiers; leave it at 0 for regressors")
            member.layer.flatten_parameters()  # copies of a network on a GPU have their weights in several pieces

    @classmethod
    def of(cls, make: Callable[[], SequenceModel], size: int = 10, seed: int = 0, joint: Joint = 0.0) -> DeepEnsemble:
        """Construct ``size`` members with different initial weights; PyTorch's global generator is left unchanged."""
        size, seed = as_integer("size", size, 1), as_integer("seed", seed)
        members = []
        for number in range(size):
            with seeded(seed + number):
                members.append(make())
        return cls(members, joint=joint)

    @property
    def task(self) -> Task:  # type: ignore[override]
        """Task of the members."""
        return self.members[0].task

    @property
    def members(self) -> tuple[SequenceModel, ...]:
        """The networks, in the order of their construction."""
        return tuple(cast(SequenceModel, network) for network in self.networks)

    @property
    def differs_in_heads(self) -> bool:
        """Whether the members are one network with several heads, as those of the Laplace approximation are."""
        first, *others = (_body(member) for member in self.members)
        return bool(others) and all(
            body.keys() == first.keys() and all(body[name] is first[name] for name in first) for body in others
        )

    def copy_bodies(self) -> None:
        """Give every member weights of its own."""
        self.networks = nn.ModuleList(deepcopy(member) for member in self.members)

    @property
    def num_outputs(self) -> int:
        """Classes, or values predicted per sequence, of each member."""
        return self.members[0].num_outputs

    def forward(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        per_step: bool = False,
    ) -> Any:
        """Return the members' outputs, ordered by sample and then by member: members · rows rows."""
        if self.differs_in_heads and not self.training and self.resolve_mode(mode) == "deterministic":
            read = self.members[0].features(inputs, lengths, mode=mode, per_step=per_step)
            outputs = [member.output(read) for member in self.members]
        else:
            outputs = [
                member(inputs, lengths, noise=own, mode=mode, per_step=per_step)
                for member, own in zip(self.members, self.member_noises(noise), strict=True)
            ]
        if isinstance(outputs[0], Tensor):
            return _interleave(outputs, len(inputs))
        means, variances = zip(*outputs, strict=True)
        return Gaussian(
            _interleave(means, len(inputs)), None if variances[0] is None else _interleave(variances, len(inputs))
        )

    def hidden_states(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
    ) -> Tensor:
        """Return the members' layer outputs after every step, concatenated: (rows, time, members · d)."""
        parts = zip(self.members, self.member_noises(noise), strict=True)
        return torch.cat([m.hidden_states(inputs, lengths, noise=own, mode=mode) for m, own in parts], dim=-1)

    def set_progress(self, done: float | Tensor) -> None:
        """Note how much of the training is done: a joint loss may change its weight."""
        self._progress = done

    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Check targets as each member does."""
        return self.members[0].check_targets(targets, batch)

    def set_metadata(self, data: Described) -> None:
        """Keep the names of the data in every member."""
        for member in self.members:
            member.set_metadata(data)

    def loss(
        self,
        inputs: Tensor,
        targets: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the sum of the members' losses; with ``joint``, weighed with that of their mean prediction."""
        if self.joint:
            return self._joint_loss(inputs, targets, lengths, noise, weights)
        members = zip(self.members, self.member_noises(noise), strict=True)
        given = {} if weights is None else {"weights": weights}  # a member's own loss may not take them
        return torch.stack([member.loss(inputs, targets, lengths, noise=own, **given) for member, own in members]).sum()

    def _joint_loss(
        self, inputs: Tensor, targets: Tensor, lengths: Tensor | None, noise: Noise | None, weights: Tensor | None
    ) -> Tensor:
        members = [cast(SequenceClassifier, member) for member in self.members]
        logits = [
            member(inputs, lengths, noise=own) for member, own in zip(members, self.member_noises(noise), strict=True)
        ]
        mean = torch.stack([values.log_softmax(dim=-1) for values in logits]).logsumexp(0) - math.log(len(members))
        losses = [
            member.loss_from_logits(values, targets, weights) for member, values in zip(members, logits, strict=True)
        ]
        together = members[0].loss_from_logits(mean, targets, weights)
        first, last = self.joint if isinstance(self.joint, tuple) else (self.joint, self.joint)
        beta = first + (last - first) * self._progress
        return (1 - beta) * torch.stack(losses).sum() + beta * len(members) * together

    def penalty(self, sequences: int) -> Tensor | None:
        """Return the sum of the members' penalties."""
        parts = [part for part in (member.penalty(sequences) for member in self.members) if part is not None]
        return torch.stack(parts).sum() if parts else None

    def separate_losses(self, noise: Noise | None) -> list[tuple[Predictor, Noise | None]]:
        """Return the members; an ensemble whose loss or penalty is not their sum is not separated."""
        if self.joint or type(self).loss is not DeepEnsemble.loss or type(self).penalty is not DeepEnsemble.penalty:
            return super().separate_losses(noise)
        return list(zip(self.members, self.member_noises(noise), strict=True))

    def member_noises(self, noise: Noise | None) -> list[Noise | None]:
        """Return the noise of each member, with seeds far apart; the first keeps the given one."""
        return [
            None if noise is None else replace(noise, seed=noise.seed + seed_offset(number))
            for number in range(len(self.networks))
        ]

    def config(self) -> dict[str, Any]:
        """Return all that constructs an ensemble like this one, except its weights."""
        drawn = (
            {}
            if self.posterior is None
            else {"posterior": {**self.posterior._asdict(), "arguments": dict(self.posterior.arguments)}}
        )
        joint = {"joint": self.joint} if self.joint else {}
        heads = {"differs_in_heads": True} if self.differs_in_heads else {}
        members = [member.config() for member in self.members]
        return {"model": type(self).__name__, "members": members, **drawn, **joint, **heads}

    def distinct_weights(self) -> dict[str, Tensor]:
        """Return the state dict, without what members share with the first."""
        weights = dict(self.state_dict())
        if self.differs_in_heads:
            body = tuple(f"{name}." for name in _body(self.members[0]))
            for name in list(weights):
                part, *place = name.split(".", 2)
                if part == "networks" and place[0] != "0" and place[1].startswith(body):
                    del weights[name]
        return weights


def seed_offset(member: int) -> int:
    """How much larger the seed of a member is than that of the first, as a number of 64 bits with a sign.

    Example:
        >>> seed_offset(0), seed_offset(9) < 0
        (0, False)
    """
    return (member * _SEED_STRIDE + 2**63) % 2**64 - 2**63


def with_own_head(model: Model) -> Model:
    """Return a copy of a model that shares all modules with it but the head.

    Example:
        >>> from sttau import SequenceClassifier
        >>> model = SequenceClassifier(nn.LSTM(2, 8), num_classes=3)
        >>> other = with_own_head(model)
        >>> other.layer is model.layer, other.head is model.head
        (True, False)
    """
    return deepcopy(model, {id(module): module for module in _body(model).values()})


def _body(model: SequenceModel) -> dict[str, nn.Module]:
    """All modules of a network but its head."""
    return {name: module for name, module in model.named_children() if name != "head"}


def _check_joint(joint: Joint) -> Joint:
    values = joint if isinstance(joint, tuple | list) else (joint, joint)
    if len(values) != 2 or not all(0 <= value <= 1 for value in values):
        raise ValueError(f"joint must be between 0 and 1, or two such numbers, got {joint}")
    return joint if not isinstance(joint, tuple | list) else (float(values[0]), float(values[1]))


def _kind(member: SequenceModel) -> dict[str, Any]:
    """What members of an ensemble must have in common."""
    return {name: value for name, value in member.config().items() if name != "data"}


def _interleave(outputs: Sequence[Tensor], batch: int) -> Tensor:
    """Reorder (samples · batch, …) of each member to (samples · members · batch, …)."""
    return torch.stack([output.unflatten(0, (-1, batch)) for output in outputs], dim=1).flatten(0, 2)
