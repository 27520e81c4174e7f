"""Episodes and training: reproducible, consistent with the episodes, and policies improve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sttau.padding import valid_steps
from sttau.rl import Choice, Environments, Settings, find_task, make_policy, play, train
from sttau.rl.policies import log_probabilities
from sttau.rl.training import returns_to_go

TASK = find_task("cartpole-mdp")

METHODS = ("lstm", "bayes", "dropout", "st-tau", "st-tau-gru")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("choice", ["sampling", "greedy"])
def test_log_probabilities_are_those_of_the_episodes(method: str, choice: Choice) -> None:
    policy = make_policy(method, TASK, hidden_size=16)
    with Environments(TASK, 5) as environments:
        episodes = play(policy, environments, choice=choice, seed=4)
    scored = log_probabilities(policy, episodes.observations, episodes.actions, noise=episodes.noise, choice=choice)
    assert scored.requires_grad
    by_state = choice == "greedy" and method.startswith("st-tau")
    given = episodes.action_distribution if by_state else episodes.probabilities
    expected = given.gather(-1, episodes.actions[..., None]).squeeze(-1)
    valid = valid_steps(expected, episodes.lengths)
    torch.testing.assert_close(scored.exp()[valid], expected[valid], atol=1e-4, rtol=1e-4)


def test_scores_and_lengths_are_those_of_the_first_episode_of_each_copy() -> None:
    with Environments(TASK, 20) as environments:
        episodes = play(make_policy("lstm", TASK, hidden_size=8), environments, seed=1)
    full = episodes.lengths == TASK.horizon
    assert not full.all()
    torch.testing.assert_close(episodes.scores[~full], episodes.lengths[~full] - 1.0)
    assert (episodes.rewards[~valid_steps(episodes.rewards, episodes.lengths)] == 0).all()


def test_sampled_actions_follow_their_probabilities() -> None:
    with Environments(TASK, 400) as environments:
        episodes = play(make_policy("lstm", TASK, hidden_size=8, seed=2), environments)
    drawn, p = episodes.actions[:, 0].float(), episodes.probabilities[:, 0, 1]
    assert abs(drawn.mean() - p.mean()) < 4 * 0.5 / 20  # four standard errors


@pytest.mark.parametrize("method", ["lstm", "st-tau"])
def test_a_policy_learns_to_balance_for_longer(method: str) -> None:
    policy = make_policy(method, TASK, hidden_size=32)
    curve = train(policy, TASK, Settings(episodes=400, batch=20, learning_rate=0.01))
    first, last = (sum(point.reward for point in part) / 3 for part in (curve[:3], curve[-3:]))
    assert last > first + 10


def test_the_same_seed_gives_the_same_curve_and_the_log_contains_it(tmp_path: Path) -> None:
    def curve(seed: int) -> list[tuple[float, ...]]:
        policy = make_policy("st-tau", TASK, hidden_size=8)
        points = train(policy, TASK, Settings(episodes=60, batch=10), seed=seed, log=tmp_path / f"{seed}.jsonl")
        return [(point.reward, point.entropy, point.temperature or 0.0) for point in points]

    first = curve(0)
    assert first == curve(0)
    assert first != curve(1)
    lines = [json.loads(line) for line in (tmp_path / "0.jsonl").read_text().splitlines()]
    assert [(line["reward"], line["entropy"], line["temperature"]) for line in lines] == first


def test_an_interrupted_training_leaves_its_log(tmp_path: Path) -> None:
    def stop(point: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(make_policy("lstm", TASK, hidden_size=8), TASK, log=tmp_path / "log.jsonl", callbacks=[stop])
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1


def test_returns_are_sums_of_what_follows() -> None:
    rewards = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    assert returns_to_go(rewards, 1.0).tolist() == [[6.0, 5.0, 3.0], [1.0, 1.0, 1.0]]
    assert returns_to_go(rewards, 0.0).tolist() == rewards.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1, got 0"),
        ({"discount": 1.5}, r"discount must be in \[0, 1\], got 1.5"),
        ({"choice": "random"}, "choice must be one of 'sampling', 'greedy', got 'random'"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**settings)  # type: ignore[arg-type]
