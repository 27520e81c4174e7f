"""Tasks: an environment of Gymnasium, the length of an episode, and the part of the state that a policy observes.

A new task is one new entry of :data:`TASKS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv


@dataclass(frozen=True)
class Task:
    """A reinforcement learning task.

    Attributes:
        name: Name in tables and on the command line.
        environment: Name of the environment in Gymnasium.
        horizon: Largest number of steps of an episode.
        observations: Names of the observations.
        seen: Positions of the observations in the environment's own observation.
        scale: Factor of each observation, to bring it to order one.
        actions: Names of the actions.
        failing: Whether an episode that ends before the horizon has failed, and its last step has reward 0. This is
            the paper's reward for CartPole; otherwise the environment's own reward is used.
    """

    name: str
    environment: str
    horizon: int
    observations: tuple[str, ...]
    seen: tuple[int, ...]
    scale: tuple[float, ...]
    actions: tuple[str, ...]
    failing: bool = False

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise ValueError(f"horizon must be at least 1 step, got {self.horizon}")
        if not len(self.observations) == len(self.seen) == len(self.scale) > 0:
            raise ValueError("observations, seen and scale must have the same number of entries, at least one")
        if len(self.actions) < 2:
            raise ValueError(f"there must be at least 2 actions, got {len(self.actions)}")


_CARTPOLE = ("position", "velocity", "angle", "angular velocity")
_CARTPOLE_SCALE = (1 / 2.4, 0.5, 1 / 0.2095, 0.5)  # an episode ends at 2.4 and at 0.2095 rad (12°)
_ACROBOT = ("cos θ₁", "sin θ₁", "cos θ₂", "sin θ₂", "velocity θ₁", "velocity θ₂")


def _cartpole(name: str, horizon: int, seen: Sequence[int]) -> Task:
    names, scale = (tuple(values[i] for i in seen) for values in (_CARTPOLE, _CARTPOLE_SCALE))
    return Task(name, "CartPole-v1", horizon, names, tuple(seen), scale, ("left", "right"), failing=True)  # type: ignore[arg-type]


def _acrobot(name: str, seen: Sequence[int]) -> Task:
    scale = (1.0, 1.0, 1.0, 1.0, 0.1, 0.1)
    actions = ("-1", "0", "+1")
    chosen = tuple(_ACROBOT[i] for i in seen), tuple(seen), tuple(scale[i] for i in seen)
    return Task(name, "Acrobot-v1", 500, *chosen, actions)


#: All tasks by name. ``cartpole`` has the paper's 50 steps, ``cartpole500`` the 500 of CartPole-v1; ``pomdp`` hides all
#: velocities.
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        _cartpole("cartpole-mdp", 50, (0, 1, 2, 3)),
        _cartpole("cartpole-pomdp", 50, (0, 2)),
        _cartpole("cartpole500-mdp", 500, (0, 1, 2, 3)),
        _cartpole("cartpole500-pomdp", 500, (0, 2)),
        _acrobot("acrobot-mdp", (0, 1, 2, 3, 4, 5)),
        _acrobot("acrobot-pomdp", (0, 1, 2, 3)),
    )
}


def find_task(name: str, horizon: int | None = None) -> Task:
    """Return a task by name, with another horizon if one is given.

    Example:
        >>> find_task("cartpole-pomdp").observations
        ('position', 'angle')
        >>> find_task("cartpole-mdp", horizon=200).horizon
        200
    """
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}; choose one of {', '.join(TASKS)}")
    return TASKS[name] if horizon is None else replace(TASKS[name], horizon=horizon)


class Step(NamedTuple):
    """Result of one action in each copy of an environment."""

    observations: Tensor  # (copies, observations)
    rewards: Tensor  # (copies,)
    ended: Tensor  # (copies,) bool


class Environments:
    """Parallel copies of a task's environment, on Gymnasium's vectorized implementation if there is one.

    A copy whose episode has ended is reset by its next step; the caller must ignore its later results.

    Args:
        task: Task.
        copies: Number of copies.
        frames: Whether :meth:`frame` will be called.

    Example:
        >>> with Environments(find_task("cartpole-pomdp"), copies=3) as environments:
        ...     first = environments.reset(seed=0)
        ...     step = environments.step(torch.tensor([0, 1, 1]))
        >>> first.shape, step.rewards.tolist()
        (torch.Size([3, 2]), [1.0, 1.0, 1.0])
    """

    def __init__(self, task: Task, copies: int = 1, *, frames: bool = False) -> None:
        try:
            import gymnasium
            from gymnasium.wrappers.vector import TransformObservation
        except ImportError as error:
            raise ImportError('reinforcement learning needs Gymnasium: pip install "sttau[rl]"') from error
        if copies < 1:
            raise ValueError(f"copies must be at least 1, got {copies}")
        try:
            known = gymnasium.spec(task.environment)
        except gymnasium.error.Error as error:
            raise ValueError(f"Gymnasium has no environment {task.environment!r}: {error}") from error
        kind = "sync" if known.vector_entry_point is None else "vector_entry_point"
        options: dict[str, Any] = {"render_mode": "rgb_array"} if frames else {}
        whole: VectorEnv[Any, Any, Any] = gymnasium.make_vec(
            task.environment, copies, kind, max_episode_steps=task.horizon, **options
        )
        space = whole.single_observation_space
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1 or max(task.seen) >= space.shape[0]:
            raise ValueError(
                f"{task.name} uses the entries {task.seen} of an observation, "
                f"but observations of {task.environment} are {space}"
            )
        count = getattr(whole.single_action_space, "n", None)
        if count != len(task.actions):
            raise ValueError(
                f"{task.name} has {len(task.actions)} actions, but {task.environment} has {whole.single_action_space}"
            )
        seen, scale = list(task.seen), np.array(task.scale, dtype=np.float32)
        low, high = np.sort(np.stack([end[seen] * scale for end in (space.low, space.high)]), axis=0)
        self.task = task
        self.copies = copies
        self._environments = TransformObservation(
            whole,
            func=lambda observations: observations[:, seen] * scale,
            single_observation_space=gymnasium.spaces.Box(low, high, dtype=np.float32),
        )

    def __enter__(self) -> Environments:
        return self

    def __exit__(self, *_: object) -> None:
        self._environments.close()

    def reset(self, seed: int) -> Tensor:
        """Start an episode in every copy and return the observations, (copies, observations)."""
        return torch.from_numpy(self._environments.reset(seed=seed)[0])

    def step(self, actions: Tensor) -> Step:
        """Take an action, (copies,), in every copy."""
        observations, rewards, failed, late, _ = self._environments.step(actions.numpy())
        if self.task.failing:
            rewards = 1.0 - failed
        return Step(
            torch.from_numpy(observations),
            torch.from_numpy(np.asarray(rewards, dtype=np.float32)),
            torch.from_numpy(failed | late),
        )

    def frame(self) -> NDArray[np.uint8]:
        """Return an image of the first copy, (height, width, 3)."""
        frames = self._environments.render()
        assert frames is not None
        return np.asarray(frames[0], dtype=np.uint8)
