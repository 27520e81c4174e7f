"""The bits are Philox-4x32-10, and a draw is Gumbel(0, 1) from the documented counter and key."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sttau.engine import Noise
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
def test_draws_follow_the_gumbel_distribution(dtype: torch.dtype) -> None:
    draws = Noise.of(torch.arange(50), samples=4, seed=11).gumbel(0, 100, 5, dtype)
    assert draws.shape == (200, 100, 5)
    assert draws.dtype == dtype
    flat = draws.double().flatten()
    error = 1 / math.sqrt(len(flat))
    assert stats.kstest(flat.numpy(), stats.gumbel_r.cdf).pvalue > 0.01
    assert abs(flat.mean().item() - 0.5772156649) < 3 * math.pi / math.sqrt(6) * error
    assert abs(flat.var().item() - math.pi**2 / 6) < 3 * 3.5 * error  # the sd of (γ - mean)² is 3.45


@pytest.mark.parametrize("axis", ["sequence", "sample", "step", "state"])
def test_neighboring_draws_are_uncorrelated(axis: str) -> None:
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
