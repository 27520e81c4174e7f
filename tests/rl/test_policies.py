"""Policies: step by step as over whole episodes, for every method; and the distributions of their actions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sttau.engine import Noise
from sttau.layers import STTauLSTM
from sttau.models import SequenceClassifier, load
from sttau.rl import Player, find_task, make_policy
from sttau.rl.policies import Choice, check_policy, log_probabilities

TASK = find_task("cartpole-mdp")

METHODS = ("lstm", "bayes", "dropout", "st-tau", "st-tau-gru")


def _steps(policy: SequenceClassifier, x: Tensor, noise: Noise) -> tuple[Tensor, Player]:
    player = Player(policy, noise, x.shape[1])
    return torch.stack([player.step(x[:, t]) for t in range(x.shape[1])], dim=1), player


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        *((method, {}) for method in METHODS),
        ("st-tau", {"num_states": 5}),
        ("st-tau", {"mode": "deterministic"}),
        ("st-tau", {"initial": "first", "peephole": True}),
        ("dropout", {"dropout": 0.4}),
    ],
)
def test_a_policy_gives_the_same_step_by_step_as_over_whole_episodes(method: str, settings: dict[str, Any]) -> None:
    policy = make_policy(method, TASK, hidden_size=12, settings=settings)
    x, noise = torch.randn(6, 9, 4), Noise.of(torch.arange(6), seed=5)
    steps, _ = _steps(policy, x, noise)
    whole = policy(x, noise=noise, per_step=True).softmax(-1)
    torch.testing.assert_close(steps, whole, atol=1e-5, rtol=1e-4)  # float32, other orders of summation
    assert steps.std() > 1e-3


@pytest.mark.parametrize("method", ["st-tau", "st-tau-gru"])
def test_a_greedy_state_is_a_draw_from_the_softmax_by_gumbel_max(method: str) -> None:
    policy = make_policy(method, TASK, hidden_size=12, seed=3)
    x = torch.randn(1, 1, 4).expand(20_000, 1, 4)
    noise = Noise.of(torch.arange(20_000), seed=1)
    steps, player = _steps(policy, x, noise)
    distribution = player.action_distribution("greedy")[0, 0]
    drawn = (steps[:, 0].argmax(-1) == 1).float().mean()
    assert abs(drawn - distribution[1]) < 4 * (0.25 / 20_000) ** 0.5  # four standard errors
    actions = torch.ones(20_000, 1, dtype=torch.int64)
    scored = log_probabilities(policy, x, actions, noise=noise, choice="greedy")
    torch.testing.assert_close(scored.exp(), distribution[1].expand(20_000, 1), atol=1e-3, rtol=0)


def test_the_distribution_of_a_sampled_action_of_st_tau_is_the_mean_of_alpha_over_the_noise() -> None:
    policy = make_policy("st-tau", TASK, hidden_size=12, seed=3, settings={"temperature": 0.5})
    x = torch.randn(1, 1, 4).expand(5000, 1, 4)
    steps, player = _steps(policy, x, Noise.of(torch.arange(5000), seed=1))
    gap = (player.action_distribution("sampling")[0, 0] - steps[:, 0].mean(0)).abs().max()
    assert gap < 4 * 0.5 / 64**0.5  # the distribution is a mean over 64 samples


@pytest.mark.parametrize(("choice", "certain"), [("sampling", False), ("greedy", True)])
def test_only_a_greedy_lstm_is_certain_of_its_action(choice: Choice, certain: bool) -> None:
    _, player = _steps(make_policy("lstm", TASK, hidden_size=12), torch.randn(3, 4, 4), Noise.of(torch.arange(3)))
    distribution = player.action_distribution(choice)
    assert bool(((distribution == 0) | (distribution == 1)).all()) == certain
    torch.testing.assert_close(distribution.sum(-1), torch.ones(3, 4))


def test_a_policy_is_saved_with_the_names_of_what_it_sees_and_does(tmp_path: Any) -> None:
    policy = make_policy("st-tau", find_task("cartpole-pomdp"), hidden_size=8)
    again = load(policy.save(tmp_path / "policy.safetensors"))
    assert again.feature_names == ("position", "angle")
    assert again.class_names == ("left", "right")
    noise, x = Noise.of(torch.arange(2)), torch.randn(2, 3, 2)
    assert torch.equal(again(x, noise=noise, per_step=True), policy(x, noise=noise, per_step=True))


def test_two_seeds_make_two_policies_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (make_policy("lstm", TASK, hidden_size=4, seed=s).head.weight for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda: make_policy("lstm", find_task("cartpole-pomdp")), "has 2 features per step, but cartpole-mdp has 4"),
        (lambda: make_policy("lstm", find_task("acrobot-pomdp")), "has 3 actions, but cartpole-mdp has 2"),
        (lambda: make_policy("lstm", TASK, settings={"num_layers": 2}), "one unidirectional layer"),
        (lambda: SequenceClassifier(STTauLSTM(4, 8, 2, mode="hard"), 2, head="halves"), 'mode="soft"'),
        (lambda: make_policy("lstm", TASK).double(), "on the CPU in float32, but this one is torch.float64"),
        (lambda: make_policy("head-dropout", TASK), "HeadDropoutLSTM cannot be evaluated step by step; choose lstm"),
        (lambda: make_policy("min-gru", TASK), "MinGRU cannot be evaluated step by step"),
        (lambda: make_policy("sp-gru", TASK), "SamplingFreeGRU cannot be evaluated step by step"),
        (lambda: make_policy("svm", TASK), "method must be one of lstm, .*, got 'svm'"),
    ],
)
def test_a_policy_that_does_not_fit_is_rejected_with_the_reason(policy: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_policy(policy(), TASK)
