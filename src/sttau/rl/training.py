"""Episodes and training: REINFORCE with a baseline, the same for every method.

A batch of episodes is played without gradients. One forward pass over all of them, with the same noise, then gives
log π_t(a_t) with a gradient, and the loss is −mean_t A_t log π_t(a_t). The return that follows a step is
G_t = Σ_{s ≥ t} γ^{s-t} r_s; its advantage A_t = G_t − b_t is relative to a baseline that depends only on the time t (a
moving average over earlier batches), in units of the batch's standard deviation.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sttau.checks import as_integer, check_same_settings
from sttau.engine import Noise
from sttau.files import write_atomically
from sttau.models import SequenceClassifier
from sttau.padding import valid_steps
from sttau.rl.environments import Environments, Task
from sttau.rl.policies import Choice, Player, check_choice, check_policy, log_probabilities, recall, remember
from sttau.training import Interrupted
from sttau.training.checkpoints import checkpoint_path, locked, newest_checkpoint, write_checkpoint
from sttau.training.interruption import interruptible

_logger = logging.getLogger(__name__)


class Episodes(NamedTuple):
    """A batch of episodes, padded at the end."""

    observations: Tensor  # (episodes, time, features)
    probabilities: Tensor  # (episodes, time, actions): π_t
    action_distribution: Tensor  # (episodes, time, actions): of the action, given everything before its step
    actions: Tensor  # (episodes, time)
    rewards: Tensor  # (episodes, time), 0 beyond the end
    lengths: Tensor  # (episodes,)
    noise: Noise

    @property
    def scores(self) -> Tensor:
        """Cumulative reward of each episode: (episodes,)."""
        return self.rewards.sum(1)

    @property
    def entropy(self) -> float:
        """Entropy of an action given everything before its step, in bits, averaged over steps."""
        p = self.action_distribution.clamp_min(torch.finfo(self.action_distribution.dtype).tiny)
        bits = -(p * p.log2()).sum(-1)
        return float(bits[valid_steps(bits, self.lengths)].mean())


def play(
    policy: SequenceClassifier,
    environments: Environments,
    *,
    choice: Choice | None = None,
    seed: int = 0,
    number: int = 0,
    on_step: Callable[[], None] = lambda: None,
) -> Episodes:
    """Play one episode in every copy of an environment, to the end.

    Args:
        policy: Policy.
        environments: Copies of the environment.
        choice: How actions are taken from π_t; None for the way the policy was trained in, or else ``sampling``.
        seed: Seed of all randomness, together with ``number``.
        number: Number of the batch.
        on_step: Function called before every step, for instance to render a frame.

    Example:
        >>> from sttau.rl import find_task, make_policy
        >>> task = find_task("cartpole-mdp")
        >>> with Environments(task, copies=4) as environments:
        ...     episodes = play(make_policy("lstm", task), environments)
        >>> bool((episodes.scores <= 50).all()), bool((episodes.scores == episodes.lengths - 1).any())
        (True, True)
    """
    task, copies = environments.task, environments.copies
    check_policy(policy, task)
    if choice is None:
        role = recall(policy)
        choice = "sampling" if role is None else role.choice
    check_choice(choice)
    first, draws, chance = (int(n) for n in np.random.SeedSequence([seed, number]).generate_state(3))
    noise = Noise.of(torch.arange(copies), seed=draws)
    player = Player(policy, noise, task.horizon)
    uniform = torch.rand(task.horizon, copies, 1, generator=torch.Generator().manual_seed(chance))
    seen, chances, taken, rewards = [environments.reset(first)], [], [], []
    lengths = torch.zeros(copies, dtype=torch.int64)
    playing = torch.ones(copies, dtype=torch.bool)
    for t in range(task.horizon):
        on_step()
        pi = player.step(seen[t])
        action = pi.argmax(-1) if choice == "greedy" else (uniform[t] >= pi.cumsum(-1)[:, :-1]).sum(-1)
        step = environments.step(action)
        chances.append(pi)
        taken.append(action)
        rewards.append(step.rewards * playing)
        lengths += playing
        playing = playing & ~step.ended
        if not playing.any():
            break
        seen.append(step.observations)
    return Episodes(
        observations=torch.stack(seen, dim=1),
        probabilities=torch.stack(chances, dim=1),
        action_distribution=player.action_distribution(choice),
        actions=torch.stack(taken, dim=1),
        rewards=torch.stack(rewards, dim=1),
        lengths=lengths,
        noise=noise,
    )


@dataclass(frozen=True)
class Settings:
    """Settings of the training of a policy.

    Attributes:
        episodes: Total number of episodes.
        batch: Episodes per update.
        learning_rate: Learning rate of Adam.
        discount: Discount factor γ.
        memory: Decay of the moving average of the baseline.
        clip: Largest norm of the gradient.
        choice: How actions are taken from π_t.
    """

    episodes: int = 1000
    batch: int = 10
    learning_rate: float = 0.003
    discount: float = 0.99
    memory: float = 0.8
    clip: float = 1.0
    choice: Choice = "sampling"

    def __post_init__(self) -> None:
        check_choice(self.choice)
        for name in ("episodes", "batch"):
            as_integer(name, getattr(self, name), 1)
        for name in ("learning_rate", "clip"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("discount", "memory"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")


class Point(NamedTuple):
    """A point of a learning curve: one batch of episodes, played before the update on it."""

    episodes: int  # episodes so far, including this batch
    steps: int  # environment steps so far, including this batch
    reward: float  # cumulative reward, mean over the batch
    entropy: float  # entropy of an action in bits
    temperature: float | None  # τ
    seconds: float


#: Called with every point of the learning curve.
Callback = Callable[[Point], None]


def train(
    policy: SequenceClassifier,
    task: Task,
    settings: Settings = Settings(),  # noqa: B008 (immutable)
    *,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    callbacks: Callback | Iterable[Callback] = (),
) -> list[Point]:
    """Train a policy in place and return its learning curve.

    Ctrl-C ends training after the present update, with a checkpoint where there is a folder. The same call resumes from
    it and ends with the same weights as without the interruption. The policy keeps its task and its choice of actions.

    Args:
        policy: Policy of :func:`~sttau.rl.policies.make_policy`.
        task: Task.
        settings: Settings of the training.
        seed: Seed of all randomness except the policy's initial weights.
        folder: Folder for checkpoints and the learning curve, ``log.jsonl``, one line of JSON per point, written during
            training. A run resumes from its own checkpoint there.
        checkpoint_every: Updates between two checkpoints.
        callbacks: Functions called with every :class:`Point`.

    Example:
        >>> from sttau.rl import find_task, make_policy
        >>> task = find_task("cartpole-mdp")
        >>> curve = train(make_policy("st-tau", task), task, Settings(episodes=20, batch=10))
        >>> [point.episodes for point in curve]
        [10, 20]
    """
    check_policy(policy, task)
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
    callbacks = (callbacks,) if callable(callbacks) else tuple(callbacks)
    remember(policy, task, settings.choice)
    run = _Run(policy, task, settings, seed, None if folder is None else Path(folder))
    try:
        with (
            nullcontext() if run.folder is None else locked(run.folder),
            Environments(task, settings.batch) as environments,
            interruptible() as interrupted,
        ):
            run.resume()
            policy.train()
            while run.number < run.updates:
                episodes = play(policy, environments, choice=settings.choice, seed=seed, number=run.number)
                point = run.record(episodes)
                for callback in callbacks:
                    callback(point)
                run.update(episodes)
                if interrupted() or run.number % checkpoint_every == 0 or run.number == run.updates:
                    run.save()
                if interrupted() and run.number < run.updates:
                    raise Interrupted(run.interruption())
    finally:
        policy.eval()
    return run.curve


class _Run:
    """One training of a policy: what changes from update to update, its checkpoints and its learning curve."""

    def __init__(
        self, policy: SequenceClassifier, task: Task, settings: Settings, seed: int, folder: Path | None
    ) -> None:
        self.policy, self.task, self.settings, self.folder = policy, task, settings, folder
        self.updates = -(-settings.episodes // settings.batch)
        self.optimizer = torch.optim.Adam(policy.parameters(), settings.learning_rate)
        self.baseline = torch.zeros(task.horizon)
        self.known = torch.zeros(task.horizon, dtype=torch.bool)  # time steps that the baseline has seen
        self.number = 0  # updates made
        self.curve: list[Point] = []
        self.began = time.perf_counter()
        self.description = asdict(settings) | {"task": task.name, "horizon": task.horizon, "seed": seed}
        if folder is not None:
            config = {name: value for name, value in policy.config().items() if name != "data"}
            self.description |= {f"model.{name}": value for name, value in config.items()}

    def record(self, episodes: Episodes) -> Point:
        """Add a batch of episodes to the learning curve."""
        layer, before = self.policy.layer, self.curve[-1].steps if self.curve else 0
        point = Point(
            episodes=(self.number + 1) * self.settings.batch,
            steps=before + int(episodes.lengths.sum()),
            reward=float(episodes.scores.mean()),
            entropy=episodes.entropy,
            temperature=None if layer.num_states is None else layer.temperature.item(),
            seconds=round(time.perf_counter() - self.began, 3),
        )
        self.curve.append(point)
        if self.folder is not None:
            with self._log.open("ab") as file:
                file.write(_line(point))
        return point

    def update(self, episodes: Episodes) -> None:
        """Make one update on a batch of episodes."""
        settings, policy = self.settings, self.policy
        returns = returns_to_go(episodes.rewards, settings.discount)
        valid = valid_steps(returns, episodes.lengths)
        mean = (returns * valid).sum(0) / valid.sum(0).clamp_min(1)
        reached, span = valid.any(0), returns.shape[1]
        old = torch.where(self.known[:span], self.baseline[:span], mean)
        advantage = (returns - old) * valid
        self.baseline[:span] = torch.where(reached, old + (1 - settings.memory) * (mean - old), old)
        self.known[:span] |= reached
        scale = advantage[valid].std(correction=0) + 1e-3
        scored = log_probabilities(
            policy, episodes.observations, episodes.actions, noise=episodes.noise, choice=settings.choice
        )
        loss = -(advantage / scale * scored)[valid].mean()
        penalty = policy.penalty(settings.episodes * self.task.horizon)
        self.optimizer.zero_grad()
        (loss if penalty is None else loss + penalty).backward()
        nn.utils.clip_grad_norm_(policy.parameters(), settings.clip)
        self.optimizer.step()
        self.number += 1

    # -- checkpoints -------------------------------------------------------------------------------------------------

    @property
    def _log(self) -> Path:
        assert self.folder is not None
        return self.folder / "log.jsonl"

    def save(self) -> None:
        """Write a checkpoint, where there is a folder."""
        if self.folder is None:
            return
        state = {
            "settings": self.description,
            "number": self.number,
            "model": dict(self.policy.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "baseline": self.baseline,
            "known": self.known,
            "curve": [tuple(point) for point in self.curve],
        }
        write_checkpoint(checkpoint_path(self.folder, self.number), state)

    def resume(self) -> None:
        """Resume from the newest checkpoint of the folder, if there is one, with the learning curve up to it."""
        if self.folder is None:
            return
        state = newest_checkpoint(self.folder)
        if state is not None:
            check_same_settings(self.folder, "run", state["settings"], self.description)
            self.number = state["number"]
            self.policy.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.baseline, self.known = state["baseline"], state["known"]
            self.curve = [Point(*values) for values in state["curve"]]
            self.began -= self.curve[-1].seconds
            _logger.info("training resumes from %s", checkpoint_path(self.folder, self.number))
        write_atomically(self._log, b"".join(map(_line, self.curve)))

    def interruption(self) -> str:
        """Return what an interruption after this update says."""
        done = f"training was interrupted after update {self.number} of {self.updates}."
        if self.folder is None:
            return f"{done} There is no checkpoint: pass folder= to have one."
        checkpoint = checkpoint_path(self.folder, self.number)
        return f"{done} The last checkpoint is {checkpoint}. The same call resumes from it."


def _line(point: Point) -> bytes:
    return json.dumps(point._asdict()).encode() + b"\n"


def returns_to_go(rewards: Tensor, discount: float) -> Tensor:
    """Return G_t = Σ_{s ≥ t} γ^{s-t} r_s along the last dimension.

    Example:
        >>> returns_to_go(torch.tensor([1.0, 1.0, 1.0]), 0.5).tolist()
        [1.75, 1.5, 1.0]
    """
    later = torch.zeros_like(rewards[..., 0])
    returns = torch.empty_like(rewards)
    for t in range(rewards.shape[-1] - 1, -1, -1):
        later = rewards[..., t] + discount * later
        returns[..., t] = later
    return returns
