"""Recurrent policies: any layer with a dense head; or ST-τ with one state per action, which needs no head.

A policy is a :class:`~sttau.models.SequenceClassifier` over actions, so it is saved and loaded as one. Its output
after step t is the distribution π_t over actions. With ST-τ and k states for k actions (the paper's appendix on
reinforcement learning) that is α_t, the Gumbel softmax over the states itself.

During an episode a policy is evaluated step by step; the training step evaluates whole episodes at once. Both use the
same noise, so both give the same π_t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.data import Described, Schema
from sttau.engine import Mode, Noise
from sttau.engine.recurrence.reference import gru_cell, lstm_cell, transition
from sttau.errors import ModelFileError
from sttau.layers import BayesLSTM, FiniteStateRNN, HeadDropoutLSTM, TorchRNN, VariationalDropoutLSTM
from sttau.methods import METHODS, find_method
from sttau.models import SequenceClassifier
from sttau.rl.environments import Task
from sttau.seeds import seeded

#: How an action is taken from π_t. ``sampling`` draws it; ``greedy`` takes the most probable one. Where π_t is itself
#: a sample α_t of ST-τ, its largest entry is a draw from softmax(l_t), by the Gumbel-max trick. So a greedy ST-τ policy
#: still explores, and a greedy LSTM does not.
Choice = Literal["sampling", "greedy"]

#: Layers of which a step is the LSTM or GRU cell that :class:`Player` computes.
_EVALUATED = (TorchRNN, BayesLSTM, VariationalDropoutLSTM, FiniteStateRNN)
_NOISE_SAMPLES = 64  # samples of the step's own noise, for the distribution of an action


def make_policy(
    method: str, task: Task, *, hidden_size: int = 100, seed: int = 0, settings: Mapping[str, Any] | None = None
) -> SequenceClassifier:
    """Return a new policy for a task.

    Args:
        method: Name of a method of one network (``sttau.methods.METHODS``), with ``-gru`` for its GRU form. ST-τ has
            one state per action, unless settings say otherwise.
        task: Task that defines the sizes and names.
        hidden_size: Hidden size of the layer.
        seed: Seed of the initial weights.
        settings: Further arguments of the layer.

    Example:
        >>> from sttau.rl.environments import find_task
        >>> policy = make_policy("st-tau", find_task("cartpole-pomdp"))
        >>> policy.feature_names, policy.class_names, policy.layer.num_states
        (('position', 'angle'), ('left', 'right'), 2)
    """
    make_layer = _layer_of(method)
    actions, options = len(task.actions), dict(settings or {})
    if "num_states" in signature(make_layer).parameters:
        options = {"num_states": actions} | options
    with seeded(seed, cpu_only=True):
        layer = make_layer(len(task.observations), hidden_size, **options)
        by_state = getattr(layer, "num_states", None) == actions
        policy = SequenceClassifier(layer, actions, head="halves" if by_state else "dense")
    policy.set_metadata(cast(Described, _Names(task.actions, task.observations)))
    return policy


def _layer_of(method: str) -> Callable[..., nn.Module]:
    """The constructor of the layer of a method, or of its GRU form."""
    other_form = method.endswith("-gru") and method not in METHODS
    name, cell = (method.removesuffix("-gru"), "gru") if other_form else (method, None)
    record = find_method(name)
    if record.sampling == "members" or (cell is not None and cell not in record.layers):
        raise ValueError(f"method {method!r} is not one network with such a cell; choose for instance lstm or st-tau")
    return record.layers[cell or next(iter(record.layers))]


class _Names(NamedTuple):
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    vocabulary: tuple[str, ...] | None = None
    schema: Schema | None = None


class Role(NamedTuple):
    """What a policy was trained for."""

    task: str
    horizon: int
    choice: Choice


def remember(policy: SequenceClassifier, task: Task, choice: Choice) -> None:
    """Keep the task of a policy and how it chooses actions; they are saved with it."""
    policy.set_note("policy", Role(task.name, task.horizon, choice)._asdict())


def recall(policy: SequenceClassifier) -> Role | None:
    """Return what a policy was trained for; None where it does not know.

    Example:
        >>> from sttau.rl.environments import find_task
        >>> task = find_task("cartpole500-pomdp")
        >>> policy = make_policy("st-tau", task)
        >>> remember(policy, task, "greedy")
        >>> recall(policy)
        Role(task='cartpole500-pomdp', horizon=500, choice='greedy')
    """
    note = policy.notes.get("policy")
    if note is None:
        return None
    kinds = {"task": str, "horizon": int, "choice": str}
    if not isinstance(note, dict) or any(not isinstance(note.get(name), kind) for name, kind in kinds.items()):
        raise ModelFileError(f"the policy's note of its task is damaged: {note!r}; name the task and the choice")
    check_choice(note["choice"])
    return Role(note["task"], note["horizon"], note["choice"])


def check_policy(policy: SequenceClassifier, task: Task) -> None:
    """Raise an error if a policy does not fit a task, or cannot be evaluated step by step."""
    layer = policy.layer
    if layer.input_size != len(task.observations):
        raise ValueError(
            f"the policy has {layer.input_size} features per step, but {task.name} has {len(task.observations)} "
            f"({', '.join(task.observations)}); choose another task, or make_policy(method, task)"
        )
    if policy.num_classes != len(task.actions):
        raise ValueError(f"the policy has {policy.num_classes} actions, but {task.name} has {len(task.actions)}")
    if policy.device.type != "cpu" or policy.dtype != torch.float32:
        raise ValueError(f"a policy must be on the CPU in float32, but this one is {policy.dtype} on {policy.device}")
    if policy.embedding is not None or layer.num_layers > 1 or layer.bidirectional or policy.dropout:
        raise ValueError("a policy needs one unidirectional layer over features, with dropout=0")
    if not isinstance(layer, _EVALUATED) or isinstance(layer, HeadDropoutLSTM):
        raise ValueError(
            f"a policy of {layer.kind} cannot be evaluated step by step; choose lstm, bayes, dropout, "
            "state-regularized or st-tau"
        )
    finite = None if layer.num_states is None else policy.finite_state_layer
    if finite is not None and (finite.mode not in ("soft", "deterministic") or finite.readout != "state"):
        raise ValueError('an ST-τ policy needs mode="soft" or "deterministic", and readout="state"')


def log_probabilities(
    policy: SequenceClassifier, observations: Tensor, actions: Tensor, *, noise: Noise, choice: Choice = "sampling"
) -> Tensor:
    """Return the log-probability of every action of whole episodes, with a gradient: (episodes, time).

    This is log π_t(a_t), given the noise. A greedy choice of ST-τ's states is itself a draw from softmax(l_t), by the
    Gumbel-max trick, and has its probability. (l_t = τ log α_t − γ_t, up to a constant.) A greedy choice without such
    noise is deterministic and has no gradient; π_t is used instead, as in the paper.

    Args:
        policy: Policy that played the episodes.
        observations: (episodes, time, features) observations.
        actions: (episodes, time) actions.
        noise: Noise of the episodes.
        choice: How actions were taken from π_t.

    Example:
        >>> from sttau.rl.environments import find_task
        >>> policy = make_policy("st-tau", find_task("cartpole-mdp"))
        >>> x, actions = torch.randn(3, 5, 4), torch.zeros(3, 5, dtype=torch.int64)
        >>> log_probabilities(policy, x, actions, noise=Noise.of(torch.arange(3))).shape
        torch.Size([3, 5])
    """
    logits: Tensor = policy(observations, noise=noise, per_step=True)
    if choice == "greedy" and policy.has_fixed_labels and policy.layer.mode == "soft":
        logits = policy.layer.temperature * logits - noise.gumbel(0, *logits.shape[1:])
    return logits.log_softmax(-1).gather(-1, actions[..., None]).squeeze(-1)


class Player:
    """Step-by-step evaluation of a policy, without gradients.

    Weights and masks are sampled once for the episodes; the object has the recurrent state of each episode.

    Args:
        policy: Policy.
        noise: Noise of all samples, one row per episode.
        horizon: Largest number of steps of an episode.

    Example:
        >>> from sttau.rl.environments import find_task
        >>> policy = make_policy("st-tau", find_task("cartpole-mdp"))
        >>> noise = Noise.of(torch.arange(3))
        >>> x = torch.randn(3, 5, 4)
        >>> player = Player(policy, noise, horizon=5)
        >>> steps = torch.stack([player.step(x[:, t]) for t in range(5)], dim=1)
        >>> steps.allclose(policy(x, noise=noise, per_step=True).softmax(-1), atol=1e-6)
        True
    """

    @torch.no_grad()
    def __init__(self, policy: SequenceClassifier, noise: Noise, horizon: int) -> None:
        layer, rows = policy.layer, len(noise.sequence)
        self.policy = policy
        self._finite = None if layer.num_states is None else policy.finite_state_layer
        self._weights = layer.cell_weights(noise)
        self._input_mask, self._mask = layer.cell_masks(noise)
        self._gumbel: Tensor | None = None
        if self._finite is not None and self._finite.mode != "deterministic":
            self._gumbel = noise.gumbel(0, horizon, self._finite.num_states)
        self._hidden = torch.zeros(rows, layer.hidden_size)
        if self._finite is not None and self._finite.initial == "first":
            self._hidden = self._weights.states[:1].expand(rows, -1)
        self._memory = torch.zeros(rows, layer.hidden_size)
        self._logits: list[Tensor] = []

    @torch.no_grad()
    def step(self, observations: Tensor) -> Tensor:
        """Read an observation, (episodes, features), update the state, and return π_t, (episodes, actions)."""
        weights, time = self._weights, len(self._logits)
        x = F.linear(observations * self._input_mask, weights.input, weights.input_bias)
        if not self.policy.layer.is_lstm:
            u = gru_cell(x, self._hidden, weights)
        else:
            u, self._memory = lstm_cell(x, self._mask * self._hidden, self._memory, weights)
        if self._finite is None:
            self._hidden, logits = u, cast(Tensor, self.policy.head(u))
            self._logits.append(logits)
            return logits.softmax(-1)
        self._logits.append(u @ weights.states.T)
        alpha = self._alpha(self._logits[-1], None if self._gumbel is None else self._gumbel[:, time])
        self._hidden = alpha @ weights.states
        return self._policy(alpha)

    @torch.no_grad()
    def action_distribution(self, choice: Choice) -> Tensor:
        """Return the distribution of every action so far, given everything before its step: (episodes, time, actions).

        It is π_t itself, or a point mass for a greedy choice. For ST-τ it includes the step's own Gumbel noise: it is
        softmax(l_t) for a greedy choice of states, and a mean over samples of the noise otherwise.
        """
        logits = torch.stack(self._logits, dim=1)
        if self._finite is None:
            return _after_choice(logits.softmax(-1), choice)
        if self._gumbel is None:
            return _after_choice(self._policy(self._alpha(logits, None)), choice)
        if choice == "greedy" and self.policy.has_fixed_labels:
            return self._policy(logits.softmax(-1))
        draws = Noise.of(torch.zeros(1, dtype=torch.int64)).gumbel(0, _NOISE_SAMPLES, logits.shape[-1])
        return _after_choice(self._policy(self._alpha(logits, draws[0, :, None, None])), choice).mean(0)

    def _alpha(self, logits: Tensor, gumbel: Tensor | None) -> Tensor:
        assert self._finite is not None
        return transition(logits, self._weights.temperature, gumbel, cast(Mode, self._finite.mode))

    def _policy(self, alpha: Tensor) -> Tensor:
        """π_t for α_t: the same if states are actions, otherwise the output of the head."""
        head = self.policy.head
        return cast(Tensor, head(alpha if self.policy.has_fixed_labels else alpha @ self._weights.states)).softmax(-1)


def _after_choice(chances: Tensor, choice: Choice) -> Tensor:
    """Distribution of an action that is taken from these probabilities."""
    return chances if choice == "sampling" else F.one_hot(chances.argmax(-1), chances.shape[-1]).to(chances)


def check_choice(choice: str) -> None:
    """Raise an error unless it is one of :data:`Choice`."""
    if choice not in get_args(Choice):
        raise ValueError(f"choice must be one of {', '.join(map(repr, get_args(Choice)))}, got {choice!r}")
