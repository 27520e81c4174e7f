"""Episodes and training: reproducible, consistent with the episodes, and policies improve."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from sttau import SequenceClassifier, load
from sttau.padding import valid_steps
from sttau.rl import Choice, Environments, Point, Settings, find_task, make_policy, play, recall, train
from sttau.rl.policies import log_probabilities
from sttau.rl.training import returns_to_go
from sttau.training import Interrupted

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
        points = train(
            policy,
            TASK,
            Settings(episodes=60, batch=10),
            seed=seed,
            folder=tmp_path / f"{seed}-{len(list(tmp_path.iterdir()))}",
        )
        return [(point.reward, point.entropy, point.temperature or 0.0) for point in points]

    first = curve(0)
    assert first == curve(0)
    assert first != curve(1)
    lines = [json.loads(line) for line in (tmp_path / "0-0" / "log.jsonl").read_text().splitlines()]
    assert [(line["reward"], line["entropy"], line["temperature"]) for line in lines] == first


SETTINGS = Settings(episodes=120, batch=10, learning_rate=0.01)


def _interrupt_after(episodes: int) -> Callable[[Point], None]:
    def interrupt(point: Point) -> None:
        if point.episodes == episodes:
            signal.raise_signal(signal.SIGINT)

    return interrupt


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_training_resumes_and_ends_with_the_same_bits(method: str, tmp_path: Path) -> None:
    def policy() -> SequenceClassifier:
        return make_policy(method, TASK, hidden_size=8)

    whole = policy()
    curve = train(whole, TASK, SETTINGS, folder=tmp_path / "whole")
    left = policy()
    with pytest.raises(
        Interrupted, match=r"interrupted after update 7 of 12\. The last checkpoint is .*00000007.*resumes"
    ):
        train(left, TASK, SETTINGS, folder=tmp_path / "left", callbacks=_interrupt_after(70))
    assert not left.training
    again = policy()
    seen: list[Point] = []
    resumed = train(again, TASK, SETTINGS, folder=tmp_path / "left", callbacks=seen.append)
    assert len(seen) == 5
    for name, value in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    assert [point[:5] for point in resumed] == [point[:5] for point in curve]
    lines = [json.loads(line) for line in (tmp_path / "left/log.jsonl").read_text().splitlines()]
    assert [tuple(line.values()) for line in lines] == [tuple(point) for point in resumed]
    assert all(later.seconds >= before.seconds for before, later in pairwise(resumed))


def test_a_killed_training_makes_the_updates_after_its_checkpoint_again(tmp_path: Path) -> None:
    def stop(point: Point) -> None:
        if point.episodes == 80:
            raise RuntimeError("killed")

    policy = make_policy("lstm", TASK, hidden_size=8)
    with pytest.raises(RuntimeError):
        train(policy, TASK, SETTINGS, folder=tmp_path, checkpoint_every=5, callbacks=stop)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 8
    seen: list[Point] = []
    train(make_policy("lstm", TASK, hidden_size=8), TASK, SETTINGS, folder=tmp_path, callbacks=seen.append)
    assert [point.episodes for point in seen] == list(range(60, 130, 10))
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 12
    assert (
        train(make_policy("lstm", TASK, hidden_size=8), TASK, SETTINGS, folder=tmp_path, callbacks=stop)[-1] == seen[-1]
    )


def test_other_settings_do_not_resume(tmp_path: Path) -> None:
    settings = Settings(episodes=10)
    train(make_policy("lstm", TASK, hidden_size=8), TASK, settings, folder=tmp_path)
    with pytest.raises(ValueError, match=r"holds a run with other settings: .*seed was 0, is 1"):
        train(make_policy("lstm", TASK, hidden_size=8), TASK, settings, seed=1, folder=tmp_path)
    with pytest.raises(ValueError, match=r"other settings: model.layer was"):
        train(make_policy("lstm", TASK, hidden_size=9), TASK, settings, folder=tmp_path)


def test_without_a_folder_an_interruption_says_how_to_have_a_checkpoint() -> None:
    with pytest.raises(Interrupted, match=r"after update 1 of 12\. There is no checkpoint: pass folder="):
        train(make_policy("lstm", TASK, hidden_size=8), TASK, SETTINGS, callbacks=_interrupt_after(10))


def test_a_policy_remembers_its_task_and_how_it_chooses(tmp_path: Path) -> None:
    task = find_task("cartpole500-pomdp", horizon=60)
    policy = make_policy("lstm", task, hidden_size=8)
    train(policy, task, Settings(episodes=10, choice="greedy"))
    again = load(policy.save(tmp_path / "policy.safetensors"))
    assert recall(again) == ("cartpole500-pomdp", 60, "greedy")
    with Environments(task, 5) as environments:
        own, greedy = play(again, environments), play(again, environments, choice="greedy")
    assert torch.equal(own.actions, greedy.actions)
    assert own.entropy < 1e-6
    again.set_note("policy", {"task": 3})
    with pytest.raises(ValueError, match="note of its task is damaged"):
        recall(again)


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
