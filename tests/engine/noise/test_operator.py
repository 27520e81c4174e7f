"""A draw is a pure function of seed, layer, sequence, sample and step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sttau.engine import Noise

WORD = st.integers(0, 2**32 - 1)


def different(values: Tensor) -> int:
    """Number of different values in a tensor."""
    return len(set(values.flatten().tolist()))


def draws(sequences: list[int], samples: int = 2, seed: int = 3, steps: int = 6, states: int = 9) -> Tensor:
    """(samples, sequences, steps, states)."""
    drawn = Noise.of(torch.tensor(sequences), samples, seed).gumbel(0, steps, states)
    return drawn.reshape(samples, len(sequences), steps, states)


BATCH = st.lists(WORD, min_size=1, max_size=6, unique=True)


@given(BATCH.flatmap(lambda batch: st.tuples(st.just(batch), st.permutations(batch))))
def test_a_draw_does_not_depend_on_batch_size_or_order(batches: tuple[list[int], list[int]]) -> None:
    batch, shuffled = batches
    together, otherwise = draws(batch), draws(shuffled)
    for place, sequence in enumerate(shuffled):
        assert torch.equal(otherwise[:, place], together[:, batch.index(sequence)])
        assert torch.equal(otherwise[:, place], draws([sequence])[:, 0])


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 4))
def test_a_draw_does_not_depend_on_the_number_of_draws(steps: int, states: int, samples: int) -> None:
    part = draws([7, 8], samples=samples, steps=steps, states=states)
    assert torch.equal(part, draws([7, 8], samples=4)[:samples, :, :steps, :states])


@given(st.integers(0, 50), st.integers(1, 20), st.integers(0, 50))
def test_a_draw_depends_on_its_time_not_on_the_first_step_read(start: int, steps: int, first_step: int) -> None:
    noise = Noise.of(torch.arange(2), seed=1)
    whole = noise.gumbel(0, 120, 3)
    piece = replace(noise, first_step=first_step).gumbel(start, steps, 3)
    assert torch.equal(piece, whole[:, first_step + start : first_step + start + steps])


@given(st.integers(0, 20), st.integers(1, 5))
def test_samples_can_be_drawn_in_parts(first_sample: int, samples: int) -> None:
    sequence = torch.tensor([4, 5])
    part = Noise.of(sequence, samples, seed=2, first_sample=first_sample)
    whole = Noise.of(sequence, first_sample + samples, seed=2)
    assert torch.equal(part.gumbel(0, 3, 5), whole.gumbel(0, 3, 5)[2 * first_sample :])


def all_draws() -> Tensor:
    """Every draw of 3 seeds, 2 layers, 5 sequences, 4 samples, 10 steps and 9 states."""
    noises = [Noise.of(torch.arange(5), 4, seed).for_layer(layer) for seed in (0, 1, 2**32) for layer in (0, 1)]
    return torch.stack([noise.gumbel(0, 10, 9, torch.float64) for noise in noises])


def test_different_identities_give_different_draws() -> None:
    every = all_draws()  # 10,800 draws of 2²³ values: about 7 pairs agree by chance, a shared counter gives thousands
    assert every.numel() - different(every) < 25


@pytest.mark.parametrize(
    ("one", "other"),
    [(0, 1), (5, 5 + 2**32), (-1, 1), (-1, 2**32 - 1), (0, 2**62), (-(2**63), 0), (2**63 - 1, -1)],
)
def test_all_64_bits_and_the_sign_of_a_seed_matter(one: int, other: int) -> None:
    a, b = draws([1, 2], seed=one), draws([1, 2], seed=other)
    assert a.isfinite().all()
    assert (a != b).float().mean() > 0.99


@pytest.mark.parametrize("change", [{"layer": 1}, {"first_step": 100}])
def test_layers_and_steps_have_different_draws(change: dict[str, int]) -> None:
    noise = Noise.of(torch.arange(4), seed=9)
    changed = replace(noise, **change)  # type: ignore[arg-type]
    assert (noise.gumbel(0, 20, 5) != changed.gumbel(0, 20, 5)).float().mean() > 0.99


def test_fresh_noise_follows_the_global_generator() -> None:
    first, second = (Noise.fresh(3, torch.device("cpu")) for _ in range(2))
    torch.manual_seed(0)
    again = Noise.fresh(3, torch.device("cpu"))
    assert int(first.seed) == int(again.seed)
    assert int(first.seed) != int(second.seed)
    assert first.sequence.tolist() == [0, 1, 2]
    assert first.sample.tolist() == [0, 0, 0]


# -- normal draws --------------------------------------------------------------------------------------------


def test_normal_draws_are_normal() -> None:
    """Moments of 400,000 draws, and the largest difference to the normal distribution (Kolmogorov-Smirnov)."""
    z = Noise.of(torch.arange(1), seed=11).normal(0, 400_000, torch.float64)
    n = len(z)
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        values = z**power
        assert abs(float(values.mean()) - moment) < 4.5 * float(values.std()) / n**0.5
    cdf = torch.special.ndtr(z.sort().values)
    assert float((cdf - (torch.arange(n) + 0.5) / n).abs().max()) < 2.0 / n**0.5  # passed by chance once in 1500
    neighbors = torch.corrcoef(torch.stack([z[:-1], z[1:]]))[0, 1]
    assert abs(float(neighbors)) < 4.5 / n**0.5


def test_normal_draws_follow_from_seed_sample_and_layer_alone() -> None:
    def draw(seed: int = 1, sample: int = 0, layer: int = 0, names: tuple[int, ...] = (7,)) -> torch.Tensor:
        return Noise.of(torch.tensor(names), 1, seed, sample).for_layer(layer).normal(0, 9)

    assert torch.equal(draw(), draw(names=(1, 2, 3)))
    assert torch.equal(draw(), Noise.of(torch.arange(3), samples=2, seed=1).normal(2, 20)[:9])
    others = [draw(seed=2), draw(sample=1), draw(layer=1), draw(seed=1 + 2**32)]
    assert all(not bool((draw() == other).any()) for other in others)


@pytest.mark.parametrize(("sequence", "sample"), [((4,), (1,)), ((4, 1), (4, 1)), ((), ())])
def test_sequence_and_sample_have_one_number_per_row(sequence: tuple[int, ...], sample: tuple[int, ...]) -> None:
    rows, samples = (torch.zeros(shape, dtype=torch.int64) for shape in (sequence, sample))
    with pytest.raises(ValueError, match=r"sequence and sample must have one number per row"):
        Noise(torch.tensor(0), rows, samples)
