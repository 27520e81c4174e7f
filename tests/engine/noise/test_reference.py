"""The noise is Philox-4x32-10, Gumbel(0, 1), and a pure function of what it is named by."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]
from torch import Tensor

from sttau.engine import Noise, fingerprint
from sttau.engine.noise.reference import philox, uniform

WORD = st.integers(0, 2**32 - 1)
ONES = 0xFFFFFFFF
Four = tuple[int, int, int, int]
Two = tuple[int, int]


def philox_of_integers(counter: Four, key: Two) -> Four:
    """Philox-4x32-10 as Salmon et al. (2011) print it, in Python's unbounded integers."""
    (a, b, c, d), (k, m) = counter, key
    for number in range(10):
        high_a, low_a = divmod(0xD2511F53 * a, 2**32)
        high_c, low_c = divmod(0xCD9E8D57 * c, 2**32)
        k_now, m_now = (k + number * 0x9E3779B9) % 2**32, (m + number * 0xBB67AE85) % 2**32
        a, b, c, d = high_c ^ b ^ k_now, low_c, high_a ^ d ^ m_now, low_a
    return a, b, c, d


def philox_of_tensors(counter: Four, key: Two) -> Four:
    a, b, c, d = (torch.tensor(word) for word in counter)
    words = philox((a, b, c, d), (torch.tensor(key[0]), torch.tensor(key[1])))
    w0, w1, w2, w3 = (int(word) for word in words)
    return w0, w1, w2, w3


def gumbel_of_integers(seed: int, layer: int, sequence: int, sample: int, step: int, state: int) -> float:
    """One draw, computed from the documented assignment of counter and key."""
    key = (seed % 2**32, (seed >> 32) % 2**32)
    bits = philox_of_integers((layer * 2**16 + state // 4, step, sample, sequence), key)[state % 4]
    return -math.log(-math.log(((bits >> 9) + 0.5) / 2**23))


# -- Philox --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
    ids=["zeros", "ones", "digits of pi"],
)
def test_philox_gives_the_known_answers_of_random123(counter: Four, key: Two, answer: Four) -> None:
    assert philox_of_tensors(counter, key) == answer
    assert philox_of_integers(counter, key) == answer


@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_philox_in_int64_equals_philox_in_unbounded_integers(counter: Four, key: Two) -> None:
    assert philox_of_tensors(counter, key) == philox_of_integers(counter, key)


def test_philox_broadcasts_its_words() -> None:
    step, row = torch.arange(3)[None, :], torch.arange(2)[:, None]
    zero = torch.tensor(0)
    words = [word.expand(2, 3) for word in philox((zero, step, zero, row), (zero, zero))]
    for i, t in ((0, 0), (0, 2), (1, 1)):
        assert tuple(int(word[i, t]) for word in words) == philox_of_integers((0, t, 0, i), (0, 0))


# -- from bits to Gumbel -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("bits", "value"),
    [(0, 2**-24), (511, 2**-24), (512, 3 * 2**-24), (2**31, 0.5 + 2**-24), (ONES, 1 - 2**-24)],
)
def test_uniform_stays_strictly_inside_the_unit_interval(bits: int, value: float, dtype: torch.dtype) -> None:
    drawn = uniform(torch.tensor(bits), dtype)
    assert drawn.dtype == dtype
    assert 0 < drawn.item() < 1
    assert drawn.item() == value


@given(WORD)
def test_uniform_is_exact_in_float32(bits: int) -> None:
    assert uniform(torch.tensor(bits), torch.float32).item() == uniform(torch.tensor(bits), torch.float64).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gumbel_has_the_distribution_it_is_named_after(dtype: torch.dtype) -> None:
    draws = Noise.of(torch.arange(50), samples=4, seed=11).gumbel(0, 100, 5, dtype)
    assert draws.shape == (200, 100, 5)
    assert draws.dtype == dtype
    flat = draws.double().flatten()
    error = 1 / math.sqrt(len(flat))
    assert stats.kstest(flat.numpy(), stats.gumbel_r.cdf).pvalue > 0.01
    assert abs(flat.mean().item() - 0.5772156649) < 3 * math.pi / math.sqrt(6) * error
    assert abs(flat.var().item() - math.pi**2 / 6) < 3 * 3.5 * error  # the sd of (γ - mean)² is 3.45


@pytest.mark.parametrize("axis", ["sequence", "sample", "step", "state"])
def test_neighbouring_draws_are_uncorrelated(axis: str) -> None:
    draws = Noise.of(torch.arange(20), samples=20, seed=5).gumbel(0, 20, 20, torch.float64)
    grid = draws.reshape(20, 20, 20, 20).movedim(("sample", "sequence", "step", "state").index(axis), 0)
    pairs = torch.stack([grid[:-1].flatten(), grid[1:].flatten()])
    assert abs(torch.corrcoef(pairs)[0, 1].item()) < 4 / math.sqrt(pairs.shape[1])


@given(
    seed=st.integers(-(2**63), 2**63 - 1),
    layer=st.integers(0, 40),
    sequence=WORD,
    sample=st.integers(0, 10**6),
    step=st.integers(0, 10**6),
    state=st.integers(0, 99),
)
def test_a_draw_follows_the_documented_assignment(
    seed: int, layer: int, sequence: int, sample: int, step: int, state: int
) -> None:
    noise = Noise.of(torch.tensor([sequence]), seed=seed, first_sample=sample).for_layer(layer)
    drawn = noise.gumbel(step, 1, state + 1, torch.float64)[0, 0, state].item()
    assert drawn == pytest.approx(gumbel_of_integers(seed, layer, sequence, sample, step, state), rel=1e-12, abs=1e-12)


# -- what a draw depends on ----------------------------------------------------------------------------------


def different(numbers: Tensor) -> int:
    """How many different numbers a tensor holds."""
    return len(set(numbers.flatten().tolist()))


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
def test_a_draw_does_not_depend_on_how_many_are_asked_for(steps: int, states: int, samples: int) -> None:
    part = draws([7, 8], samples=samples, steps=steps, states=states)
    assert torch.equal(part, draws([7, 8], samples=4)[:samples, :, :steps, :states])


@given(st.integers(0, 50), st.integers(1, 20), st.integers(0, 50))
def test_a_draw_belongs_to_its_time_wherever_reading_starts(start: int, steps: int, first_step: int) -> None:
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


def test_different_names_give_different_draws() -> None:
    every = all_draws()  # 10,800 draws of 2²³ values: about 7 pairs agree by chance, a shared counter gives thousands
    assert every.numel() - different(every) < 25


@pytest.mark.parametrize(
    ("one", "other"),
    [(0, 1), (5, 5 + 2**32), (-1, 1), (-1, 2**32 - 1), (0, 2**62), (-(2**63), 0), (2**63 - 1, -1)],
)
def test_all_64_bits_and_the_sign_of_a_seed_count(one: int, other: int) -> None:
    a, b = draws([1, 2], seed=one), draws([1, 2], seed=other)
    assert a.isfinite().all()
    assert (a != b).float().mean() > 0.99


@pytest.mark.parametrize("change", [{"layer": 1}, {"first_step": 100}])
def test_layers_and_times_draw_apart(change: dict[str, int]) -> None:
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


# -- fingerprints --------------------------------------------------------------------------------------------


def some_batch(kind: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if kind == "tokens":
        return torch.randint(0, 50, (6, 7), generator=generator)
    return torch.randn(6, 7, 3, generator=generator)


KINDS = pytest.mark.parametrize("kind", ["tokens", "features"])
LENGTHS = torch.tensor([7, 1, 4, 3, 7, 2])


@KINDS
def test_a_fingerprint_is_32_bits_and_tells_sequences_apart(kind: str) -> None:
    marks = fingerprint(some_batch(kind), LENGTHS)
    assert marks.dtype == torch.int64
    assert marks.min() >= 0
    assert marks.max() < 2**32
    assert different(marks) == 6


@KINDS
@given(st.permutations(range(6)))
def test_a_fingerprint_moves_with_its_sequence(kind: str, order: list[int]) -> None:
    x = some_batch(kind)
    assert torch.equal(fingerprint(x[order], LENGTHS[order]), fingerprint(x, LENGTHS)[order])
    assert torch.equal(fingerprint(x[order[:1]], LENGTHS[order[:1]])[0], fingerprint(x, LENGTHS)[order[0]])


@KINDS
@given(more=st.integers(0, 5))
def test_what_stands_in_the_padding_and_how_much_of_it_does_not_matter(kind: str, more: int) -> None:
    x = some_batch(kind)
    longer = torch.cat([x, torch.ones_like(x[:, :1]).expand(-1, more, *x.shape[2:])], dim=1)
    padding = torch.arange(7 + more) >= LENGTHS[:, None]
    longer[padding] = 13 if kind == "tokens" else torch.nan
    assert torch.equal(fingerprint(longer, LENGTHS), fingerprint(x, LENGTHS))


@KINDS
def test_full_lengths_equal_no_lengths(kind: str) -> None:
    x = some_batch(kind)
    assert torch.equal(fingerprint(x), fingerprint(x, torch.full((6,), 7)))


@KINDS
def test_the_length_itself_counts(kind: str) -> None:
    x = torch.zeros_like(some_batch(kind))  # the same content, one step more each
    assert different(fingerprint(x, torch.arange(1, 7))) == 6


@KINDS
def test_changing_any_one_valid_value_changes_the_fingerprint_of_that_sequence_only(kind: str) -> None:
    x = some_batch(kind)
    before = fingerprint(x, LENGTHS)
    for place in torch.ones_like(x).nonzero().tolist():
        changed = x.clone()
        changed[tuple(place)] += 1
        row, step = place[:2]
        expected = torch.zeros(6, dtype=torch.bool)
        expected[row] = step < int(LENGTHS[row])
        assert torch.equal(fingerprint(changed, LENGTHS) != before, expected)


def test_the_smallest_change_of_a_float_changes_the_fingerprint() -> None:
    x = some_batch("features")
    changed = x.clone()
    changed[0, 2, 1] = torch.nextafter(x[0, 2, 1], torch.tensor(torch.inf))
    assert (fingerprint(changed) != fingerprint(x)).tolist() == [True] + [False] * 5


@KINDS
@given(st.integers(0, 6), st.integers(0, 6))
def test_swapping_two_different_steps_changes_the_fingerprint(kind: str, one: int, other: int) -> None:
    x = torch.arange(7)[None] if kind == "tokens" else some_batch("features")[:1]
    order = list(range(7))
    order[one], order[other] = other, one
    assert bool(fingerprint(x[:, order]) == fingerprint(x)) == (one == other)


def test_swapping_two_features_of_a_step_changes_the_fingerprint() -> None:
    x = torch.randn(4, 5, 2)
    assert (fingerprint(x.flip(-1)) != fingerprint(x)).all()


def test_minus_zero_equals_zero() -> None:
    zero = torch.zeros(2, 3, 2)
    assert torch.equal(fingerprint(-zero), fingerprint(zero))


def test_the_integer_type_of_tokens_does_not_matter() -> None:
    tokens = some_batch("tokens")
    for dtype in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(fingerprint(tokens.to(dtype), LENGTHS), fingerprint(tokens, LENGTHS))


def test_the_float_type_of_features_does_not_matter_where_the_value_is_the_same() -> None:
    x = some_batch("features").bfloat16()
    for dtype in (torch.float32, torch.float64):
        assert torch.equal(fingerprint(x.to(dtype), LENGTHS), fingerprint(x, LENGTHS))


def test_fingerprints_of_many_short_sequences_rarely_collide() -> None:
    every = torch.cartesian_prod(*[torch.arange(8)] * 5)  # 32,768 sequences: 0.12 collisions expected
    assert len(every) - different(fingerprint(every)) <= 2


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


# -- in one kernel -------------------------------------------------------------------------------------------


def test_one_kernel_draws_the_same_numbers() -> None:
    if torch.cuda.is_available():
        pytest.skip("on a GPU the kernel is compiled: see tests/gpu")
    triton = pytest.importorskip("sttau.engine.noise.triton", reason="needs Triton")
    noise = Noise.of(torch.tensor([7, 2**40 + 8, -3]), samples=2, seed=2**33 + 5, first_sample=3).for_layer(2)
    for start, steps, size in ((0, 1, 1), (3, 5, 7), (2, 2, 300)):
        drawn = triton.uniform(noise.seed, noise.sample, noise.sequence, 2 << 16, start, steps, size)
        assert torch.equal(drawn, noise.uniform(start, steps, size))
    drawn = triton.uniform(noise.seed, noise.sample[4:5], None, 0, 2, 1, 4 * 100).view(-1, 4)
    assert torch.equal(drawn, noise._uniform_of_sample(4, 100, torch.float32))
    assert triton.uniform(noise.seed, noise.sample, noise.sequence, 0, 0, 0, 5).shape == (6, 0, 5)
