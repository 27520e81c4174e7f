"""The path sum of the paper's Eq. (3) equals the enumeration of all k^T paths and the limit of sampling."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sttau.engine import Noise, Weights, path_sum, run
from sttau.engine.backend import Engine, using
from sttau.engine.path_sum import reference
from sttau.engine.path_sum.operator import occurring
from sttau.engine.recurrence.reference import gru_update, transition

FEATURES, HIDDEN = 2, 3
Start = Literal["zeros", "first", "given"]


@pytest.fixture(autouse=True, params=["reference", "cpu"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Every test here holds for both engines that run on a CPU."""
    with using(request.param):
        yield request.param


def some_weights(states: int, *, bias: bool = True, dtype: torch.dtype = torch.float64) -> Weights:
    width = 3 * HIDDEN
    return Weights(
        input=torch.randn(width, FEATURES, dtype=dtype),
        recurrent=torch.randn(width, HIDDEN, dtype=dtype),
        input_bias=torch.randn(width, dtype=dtype) if bias else None,
        recurrent_bias=torch.randn(width, dtype=dtype) if bias else None,
        states=torch.randn(states, HIDDEN, dtype=dtype),
        temperature=torch.tensor(0.7, dtype=dtype),
    )


def some_inputs(batch: int, time: int) -> Tensor:
    return torch.randn(batch, time, FEATURES, dtype=torch.float64)


def some_start(start: Start, weights: Weights, batch: int) -> Tensor:
    if start == "zeros":
        return torch.zeros(batch, HIDDEN, dtype=torch.float64)
    if start == "first":
        return weights.states[0].expand(batch, -1)
    return torch.randn(batch, HIDDEN, dtype=torch.float64)


def some_matrices(batch: int, time: int, k: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, time, k, k, dtype=torch.float64).softmax(-1).to(dtype)


def chain(x: Tensor, hidden: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """π_1 and A_2 … A_T, as a layer makes them."""
    first = path_sum.transition_rows(x[:, 0], hidden[:, None], weights)[:, 0]
    return first, path_sum.transition_matrices(x[:, 1:], weights)


def step_distribution(x: Tensor, h: Tensor, weights: Weights) -> Tensor:
    """Distribution of the next state for one input and one hidden state, by PyTorch's own cell: (k,)."""
    w = weights
    u = torch.gru_cell(x[None], h[None], w.input, w.recurrent, w.input_bias, w.recurrent_bias)[0]
    scores = torch.exp(w.states @ u)
    return scores / scores.sum()


def distributions_by_enumeration(x: Tensor, h: Tensor, weights: Weights) -> Tensor:
    """Sum the probability of every path of one sequence (time, features): (time, k)."""
    time, k = len(x), len(weights.states)
    distributions = torch.zeros(time, k, dtype=torch.float64)
    first = step_distribution(x[0], h, weights)
    later = [[step_distribution(x[t], weights.states[i], weights) for i in range(k)] for t in range(1, time)]
    for path in product(range(k), repeat=time):
        chance = first[path[0]]
        for t in range(1, time):
            chance = chance * later[t - 1][path[t - 1]][path[t]]
        for t in range(time):
            distributions[t, path[t]] += chance
    return distributions


def running_products(matrices: Tensor, reverse: bool) -> Tensor:
    """A plain loop over (time, k, k), without normalization."""
    done: list[Tensor] = []
    for matrix in reversed(matrices) if reverse else matrices:
        done.append(matrix if not done else matrix @ done[-1] if reverse else done[-1] @ matrix)
    return torch.stack(done[::-1] if reverse else done)


def learnable(*tensors: Tensor | None) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors if tensor is not None]


# -- transition matrices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_row_i_of_a_matrix_is_the_distribution_of_the_next_state_from_state_i(bias: bool) -> None:
    weights, x = some_weights(4, bias=bias), some_inputs(2, 3)
    matrices = path_sum.transition_matrices(x, weights)
    assert matrices.shape == (2, 3, 4, 4)
    for b, t, i in product(range(2), range(3), range(4)):
        torch.testing.assert_close(matrices[b, t, i], step_distribution(x[b, t], weights.states[i], weights))


def test_a_matrix_does_not_depend_on_tau() -> None:
    weights, x = some_weights(3), some_inputs(1, 1)
    hot = weights._replace(temperature=torch.tensor(50.0))
    assert torch.equal(path_sum.transition_matrices(x, weights), path_sum.transition_matrices(x, hot))


@pytest.mark.parametrize("numbers", [1, 3 * 9 * 4, 10**9], ids=["one row", "four rows", "no chunks"])
@pytest.mark.parametrize("shape", [(5, 4), (11,), ()])
def test_matrices_computed_in_chunks_equal_matrices_computed_at_once(
    numbers: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = some_weights(3)
    x = torch.randn(*shape, FEATURES, dtype=torch.float64)
    weight = torch.randn(*shape, 3, 3, dtype=torch.float64)
    made, slopes = [], []
    for chunk in (reference._CHUNK_VALUES, numbers):
        monkeypatch.setattr(reference, "_CHUNK_VALUES", chunk)
        wanted = [tensor.requires_grad_() for tensor in (*weights[:5], x) if tensor is not None]
        matrices = path_sum.transition_matrices(x, weights)
        assert matrices.shape == (*shape, 3, 3)
        with torch.no_grad():
            torch.testing.assert_close(path_sum.transition_matrices(x, weights), matrices, rtol=1e-14, atol=1e-14)
        made.append(matrices)
        slopes.append(torch.autograd.grad((matrices * weight).sum(), wanted))
    torch.testing.assert_close(made[0], made[1], rtol=1e-14, atol=1e-14)
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_chunks_bound_the_values_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    update = gru_update

    def watched(x: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
        held.append(x[..., 0, 0].numel() * recurrent.numel())
        return update(x, recurrent, hidden)

    monkeypatch.setattr(reference, "gru_update", watched)
    monkeypatch.setattr(reference, "_CHUNK_VALUES", 100)
    path_sum.transition_matrices(some_inputs(5, 4), some_weights(3), engine="reference")
    assert len(held) == 7  # 20 rows of 27 values, three rows at a time
    assert max(held) <= 100


# -- products ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [1, 2, 3, 16, 17, 100])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_the_scan_equals_a_plain_loop(time: int, reverse: bool) -> None:
    matrices = some_matrices(2, time, 3)
    scanned = path_sum.cumulative_products(matrices, reverse=reverse)
    looped = torch.stack([running_products(row, reverse) for row in matrices])
    torch.testing.assert_close(scanned, looped, rtol=1e-12, atol=1e-14)


@given(st.integers(1, 40), st.integers(2, 4))
def test_both_scans_meet_at_the_product_of_all(time: int, k: int) -> None:
    matrices = some_matrices(1, time, k)
    forward, backward = (path_sum.cumulative_products(matrices, reverse=reverse) for reverse in (False, True))
    torch.testing.assert_close(forward[:, -1], backward[:, 0], rtol=1e-12, atol=1e-14)
    if time > 1:
        torch.testing.assert_close(forward[:, 0] @ backward[:, 1], forward[:, -1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_products_of_permutations_are_exact(reverse: bool) -> None:
    """Permutations do not forget: a wrong factor anywhere would be seen at the end."""
    orders = [torch.randperm(4) for _ in range(50)]
    matrices = torch.stack([torch.eye(4, dtype=torch.float64)[order] for order in orders])
    assert torch.equal(
        path_sum.cumulative_products(matrices[None], reverse=reverse)[0], running_products(matrices, reverse)
    )


# -- finite alphabets ----------------------------------------------------------------------------------------


def test_a_table_of_the_tokens_gives_the_values_and_gradients_of_each_token_alone() -> None:
    weights, tokens = some_weights(3), torch.tensor([[4, 1, 4], [1, 1, 0]])
    embedding = learnable(torch.randn(6, FEATURES, dtype=torch.float64))[0]
    one_by_one = path_sum.transition_matrices(embedding[tokens], weights)
    entries, places, _all = path_sum.distinct(tokens, 6)
    assert entries.tolist() == [0, 1, 4]  # the tokens that occur
    table = path_sum.look_up(path_sum.transition_matrices(embedding[entries], weights), places)
    torch.testing.assert_close(table, one_by_one, rtol=1e-12, atol=1e-14)
    weight = torch.randn_like(table)
    here, there = (torch.autograd.grad((A * weight).sum(), embedding)[0] for A in (table, one_by_one))
    torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("bias", [True, False])
def test_a_first_distribution_and_matrices_together_are_those_of_two_calls(bias: bool) -> None:
    weights, first, rest = some_weights(3, bias=bias), some_inputs(2, 1)[:, 0], some_inputs(2, 4)
    start = torch.randn(1, HIDDEN, dtype=torch.float64)
    learned = learnable(first, start, rest, *weights[:5])

    def together(first: Tensor, start: Tensor, rest: Tensor, *parts: Tensor) -> tuple[Tensor, Tensor]:
        of_inputs, of_hidden, *biases, states = parts
        w = weights._replace(input=of_inputs, recurrent=of_hidden, states=states)
        if bias:
            w = w._replace(input_bias=biases[0], recurrent_bias=biases[1])
        return path_sum.first_and_matrices(first, start, rest, w)

    found, matrices = together(*learned)
    torch.testing.assert_close(found, path_sum.transition_rows(first, start, weights)[:, 0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(matrices, path_sum.transition_matrices(rest, weights), rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(together, learned)


@pytest.mark.parametrize(("shape", "vocabulary"), [((1, 1), 1), ((4, 50), 9), ((3, 7), 300), ((2, 5), 1000)])
def test_the_tokens_that_occur_are_found_in_ascending_order(shape: tuple[int, int], vocabulary: int) -> None:
    tokens = torch.randint(vocabulary, shape)
    entries, places, _all = path_sum.distinct(tokens, vocabulary)
    assert entries.tolist() == sorted({*tokens.flatten().tolist()})
    assert torch.equal(entries[places], tokens)


@pytest.mark.parametrize("token", [-1, 4])
def test_a_token_that_is_not_in_the_vocabulary_is_refused(token: int) -> None:
    tokens, embedding = torch.tensor([[0, token]]), torch.nn.Embedding(4, 2)
    with pytest.raises(IndexError):
        embedding(path_sum.distinct(tokens, 4)[0])


@pytest.mark.parametrize(("shape", "vocabulary"), [((2, 3), 100), ((4, 50), 9), ((2, 0), 5), ((1, 1), 1)])
def test_without_waiting_for_their_number_the_same_tokens_are_found(shape: tuple[int, int], vocabulary: int) -> None:
    tokens = torch.randint(vocabulary, shape, dtype=torch.int32)
    expected, expected_places, _all = path_sum.distinct(tokens, vocabulary)
    entries, places, used = occurring(tokens, vocabulary)
    assert used.item() == len(expected)
    assert len(entries) == min(vocabulary, tokens.numel())
    assert torch.equal(entries[: len(expected)], expected)
    assert torch.equal(places, expected_places)
    assert not entries[len(expected) :].any()


# -- the distribution of the state ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "time"), [(2, 1), (2, 2), (2, 6), (3, 5)])
@pytest.mark.parametrize("start", ["zeros", "first", "given"])
@pytest.mark.parametrize("serial", [True, False], ids=["loop", "scan"])
def test_the_distribution_of_the_state_equals_the_sum_over_all_paths(
    k: int, time: int, start: Start, serial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not serial:
        monkeypatch.setattr(reference, "_SERIAL", 0)
    weights, x = some_weights(k), some_inputs(2, time)
    hidden = some_start(start, weights, 2)
    distributions = path_sum.state_distribution(*chain(x, hidden, weights))
    expected = torch.stack([distributions_by_enumeration(x[b], hidden[b], weights) for b in range(2)])
    torch.testing.assert_close(distributions, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("tau", [0.2, 3.0])
def test_hard_samples_have_the_exact_distribution_whatever_tau_is(tau: float) -> None:
    weights, x = some_weights(3), some_inputs(1, 4)
    hidden, samples = some_start("given", weights, 1), 20_000
    distributions = path_sum.state_distribution(*chain(x, hidden, weights))[0]
    weights = weights._replace(temperature=torch.tensor(tau))
    noise = Noise.of(torch.tensor([3]), samples, seed=1)
    sampled = run("gru", x, weights, hidden.expand(samples, -1), None, noise=noise, mode="hard")
    error = (distributions * (1 - distributions) / samples).sqrt()
    assert ((sampled.transitions.mean(0) - distributions).abs() < 4 * error).all()


def test_soft_samples_do_not_have_the_exact_distribution() -> None:
    """The relaxation is another model (mathematics, §5): for k = 2, τ = 1, p = 0.9 its mean α is 0.816."""
    logits, tau = torch.tensor([[math.log(9), 0.0]], dtype=torch.float64), torch.tensor(1.0)
    gumbel = Noise.of(torch.arange(40_000)).gumbel(0, 1, 2, torch.float64)[:, 0]
    soft, hard = (transition(logits, tau, gumbel, mode)[:, 0] for mode in ("soft", "hard"))
    assert soft.mean().item() == pytest.approx(0.816, abs=3e-3)
    assert hard.mean().item() == pytest.approx(0.9, abs=5e-3)


@pytest.mark.parametrize("time", [10, 200], ids=["loop", "scan"])
def test_beyond_its_length_a_sequence_keeps_its_last_distribution(time: int) -> None:
    weights, x, lengths = some_weights(3), some_inputs(4, time), torch.tensor([time, 1, 2, time // 2])
    hidden = some_start("given", weights, 4)
    distributions = path_sum.state_distribution(*chain(x, hidden, weights), lengths)
    for b, length in enumerate(lengths.tolist()):
        alone = path_sum.state_distribution(*chain(x[b : b + 1, :length], hidden[b : b + 1], weights))[0]
        torch.testing.assert_close(distributions[b, :length], alone, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(
            distributions[b, length:], alone[-1].expand(time - length, -1), rtol=1e-12, atol=1e-14
        )


def test_rounding_does_not_accumulate_over_ten_thousand_steps() -> None:
    time, k = 10_000, 5
    slow = torch.eye(k, dtype=torch.float64) * 6  # states that last, so that an early error would be remembered
    matrices = (torch.randn(2, time - 1, k, k, dtype=torch.float64) + slow).softmax(-1)
    first = torch.randn(2, k, dtype=torch.float64).softmax(-1)
    double = path_sum.state_distribution(first, matrices)
    single = path_sum.state_distribution(first.float(), matrices.float())
    assert single.dtype == torch.float32
    assert (single >= 0).all()
    torch.testing.assert_close(single.sum(-1), torch.ones(2, time), rtol=0, atol=1e-6)
    torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-5)


@pytest.mark.parametrize("time", [65, 66, 150])
def test_the_scan_equals_the_loop_at_the_length_where_they_change(time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first, matrices = some_matrices(2, 1, 3)[:, 0, 0], some_matrices(2, time - 1, 3)
    default = path_sum.state_distribution(first, matrices)
    monkeypatch.setattr(reference, "_SERIAL", 10**6)
    torch.testing.assert_close(path_sum.state_distribution(first, matrices), default, rtol=1e-12, atol=1e-14)


# -- backward messages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [1, 2, 5])
def test_the_outcome_given_a_state_equals_the_sum_over_the_paths_that_follow(time: int) -> None:
    k, classes = 3, 2
    matrices, outcome = some_matrices(2, time - 1, k), some_matrices(1, 1, k)[0, 0, :, :classes].clone()
    outcome = outcome / outcome.sum(-1, keepdim=True)
    messages = path_sum.outcome_given_state(matrices, outcome)
    assert messages.shape == (2, time, k, classes)
    for b, t, state in product(range(2), range(time), range(k)):
        expected = torch.zeros(classes, dtype=torch.float64)
        for path in product(range(k), repeat=time - 1 - t):
            places, chance = (state, *path), torch.tensor(1.0, dtype=torch.float64)
            for offset, (i, j) in enumerate(zip(places, path, strict=False)):
                chance = chance * matrices[b, t + offset, i, j]
            expected += chance * outcome[places[-1]]
        torch.testing.assert_close(messages[b, t, state], expected, rtol=1e-12, atol=1e-14)


def test_distributions_and_messages_give_the_same_outcome_at_every_step() -> None:
    first, matrices = some_matrices(3, 1, 4)[:, 0, 0], some_matrices(3, 9, 4)
    outcome, lengths = some_matrices(1, 1, 4)[0, 0], torch.tensor([10, 1, 6])
    distributions = path_sum.state_distribution(first, matrices, lengths)
    messages = path_sum.outcome_given_state(matrices, outcome, lengths)
    at_each_step = torch.einsum("btk,btkc->btc", distributions, messages)
    torch.testing.assert_close(
        at_each_step, (distributions[:, -1:] @ outcome).expand(-1, 10, -1), rtol=1e-12, atol=1e-14
    )


def test_messages_of_a_short_sequence_are_those_of_the_sequence_alone() -> None:
    matrices, outcome = some_matrices(2, 9, 3), some_matrices(1, 1, 3)[0, 0]
    padded = path_sum.outcome_given_state(matrices, outcome, torch.tensor([10, 4]))
    alone = path_sum.outcome_given_state(matrices[1:, :3], outcome)
    torch.testing.assert_close(padded[1:, :4], alone, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(padded[1, 4:], outcome.expand(6, 3, 3), rtol=1e-12, atol=1e-14)


# -- gradients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serial", [True, False], ids=["loop", "scan"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("chunked", [False, True], ids=["at once", "chunks"])
def test_gradients_of_the_distribution_are_those_of_finite_differences(
    serial: bool, padded: bool, chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not serial:
        monkeypatch.setattr(reference, "_SERIAL", 0)
    if chunked:
        monkeypatch.setattr(reference, "_CHUNK_VALUES", 1)
    weights, lengths = some_weights(3), torch.tensor([4, 2]) if padded else None

    def distributions(w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor, S: Tensor, x: Tensor, h: Tensor) -> Tensor:
        first, matrices = chain(x, h, Weights(w_x, w_h, b_x, b_h, S, weights.temperature))
        return path_sum.state_distribution(first, matrices, lengths)

    tensors = learnable(*weights[:5], some_inputs(2, 4), some_start("given", weights, 2))
    assert torch.autograd.gradcheck(distributions, tensors, fast_mode=chunked)


def test_padding_gets_no_gradient() -> None:
    first, matrices = learnable(some_matrices(2, 1, 3)[:, 0, 0], some_matrices(2, 6, 3))
    distributions = path_sum.state_distribution(first, matrices, torch.tensor([7, 3]))
    slope = torch.autograd.grad((distributions * torch.randn(2, 7, 3, dtype=torch.float64)).sum(), matrices)[0]
    assert slope.flatten(2).any(-1).tolist() == [[True] * 6, [True] * 2 + [False] * 4]


def test_gradients_of_the_messages_are_those_of_finite_differences() -> None:
    lengths = torch.tensor([5, 3])

    def messages(scores: Tensor, outcome: Tensor) -> Tensor:
        return path_sum.outcome_given_state(scores.softmax(-1), outcome.softmax(-1), lengths)

    tensors = learnable(some_matrices(2, 4, 3), some_matrices(1, 1, 3)[0, 0])
    assert torch.autograd.gradcheck(messages, tensors)
