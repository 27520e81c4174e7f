from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sttau.training.batches import Data, Order, round_up

numbers = st.integers(1, 30)


@given(sequences=numbers, batch_size=numbers, bucket_batches=st.integers(1, 4), seed=st.integers(0, 9))
def test_each_time_round_is_a_permutation_in_batches_of_equal_size(
    sequences: int, batch_size: int, bucket_batches: int, seed: int
) -> None:
    lengths = torch.arange(sequences) % 7 + 1
    order = Order(sequences, batch_size, seed, lengths, bucket_batches)
    count = -(-sequences // batch_size)
    for number in range(3):
        batches = [order.rows(update) for update in range(number * count + 1, (number + 1) * count + 1)]
        assert sorted(torch.cat(batches).tolist()) == list(range(sequences))
        sizes = sorted(map(len, batches), reverse=True)
        full, rest = divmod(sequences, batch_size)
        assert sizes == [batch_size] * full + [rest] * (rest > 0)


def _rows(order: Order, updates: range) -> list[list[int]]:
    return [order.rows(update).tolist() for update in updates]


def test_the_order_can_be_entered_anywhere_and_follows_from_the_seed() -> None:
    lengths = torch.randint(1, 50, (100,))
    whole = _rows(Order(100, 8, 3, lengths, 4), range(1, 40))
    assert _rows(Order(100, 8, 3, lengths, 4), range(20, 40)) == whole[19:]
    assert _rows(Order(100, 8, 4, lengths, 4), range(1, 40)) != whole
    assert whole[:13] != whole[13:26]  # another order the second time round


def test_sorting_by_length_leaves_less_padding_and_mixes_short_batches_with_long() -> None:
    lengths = torch.randint(1, 200, (1000,))

    def padding(bucket_batches: int) -> float:
        order = Order(1000, 10, 0, lengths, bucket_batches)
        batches = [lengths[order.rows(update)] for update in range(1, 101)]
        return sum(float((batch.max() - batch).sum()) for batch in batches) / float(lengths.sum())

    assert padding(10) < 0.25 * padding(1)
    order = Order(1000, 10, 0, lengths, 10)
    longest = torch.stack([lengths[order.rows(update)].max() for update in range(1, 101)])
    assert not torch.equal(longest.sort().values, longest)


def test_long_batches_come_at_the_same_places_under_every_seed() -> None:
    lengths = torch.arange(100)
    one, other = (Order(100, 5, seed, lengths, bucket_batches=20) for seed in (0, 1))
    assert all(torch.equal(one.rows(update), other.rows(update)) for update in range(1, 21))  # all in one pool
    one, other = (Order(100, 5, seed, lengths, bucket_batches=5) for seed in (0, 1))
    ends = torch.tensor([[int(lengths[order.rows(n)].max()) for n in range(1, 21)] for order in (one, other)])
    assert not torch.equal(*ends)
    assert float(torch.corrcoef(ends.double())[0, 1]) > 0.8


def _data(lengths: Tensor | None) -> Data:
    return Data.on(torch.device("cpu"), torch.randn(6, 20, 2), torch.arange(6), lengths, seed=3)


def test_a_batch_is_cut_to_its_longest_row() -> None:
    data = _data(torch.tensor([3, 17, 5, 20, 1, 2]))
    rows, places, number = torch.tensor([1, 0]), torch.arange(2), torch.tensor([1])
    assert data.end(rows) == 17
    assert data.end(rows, few_shapes=True) == 18
    assert data.end(torch.tensor([3]), few_shapes=True) == 20
    assert data.batch(rows, places, 1.0, number, 17).inputs.shape == (2, 17, 2)
    assert _data(None).end(rows) is None
    assert _data(None).batch(rows, places, 1.0, number, None).inputs.shape == (2, 20, 2)


def test_noise_follows_from_seed_update_and_place_alone() -> None:
    data, rows = _data(None), torch.tensor([4, 2, 5])
    seventh, eighth = torch.tensor([7]), torch.tensor([8])
    whole = data.batch(rows, torch.arange(3), 1.0, seventh, None).noise.gumbel(0, 4, 3)
    part = data.batch(rows[1:], torch.tensor([1, 2]), 2 / 3, seventh, None).noise.gumbel(0, 4, 3)
    assert torch.equal(part, whole[1:])
    assert not torch.equal(data.batch(rows, torch.arange(3), 1.0, eighth, None).noise.gumbel(0, 4, 3), whole)


@given(length=st.integers(1, 100_000))
def test_lengths_are_rounded_up_by_an_eighth_at_most_to_few_values(length: int) -> None:
    assert length <= round_up(length) <= length * 1.125
    assert len({round_up(n) for n in range(1, 1025)}) <= 16 + 8 * 6
