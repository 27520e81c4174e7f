from __future__ import annotations

import pytest
import torch

from sttau_reproduction.classification.diagnostics.corruptions import (
    SEVERITIES,
    Corruption,
    add_noise,
    corruptions_of,
    delete_words,
    drop_samples,
    misspell,
    take_lead_off,
)

WORDS = ("<pad>", "<unk>", "on", "no", "film", "a", "good")


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _beats(count: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """Beats of 40 to 60 samples, then zeros."""
    values = 0.1 + 0.9 * torch.rand(count, 80, 1, generator=_generator(7))
    ends = 40 + torch.arange(count) % 21
    values[torch.arange(80) >= ends[:, None]] = 0
    return values, ends


def _texts(count: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = 1 + torch.arange(count) % 30
    ids = torch.randint(1, len(WORDS), (count, 30), generator=_generator(8), dtype=torch.int32)
    ids[torch.arange(30) >= lengths[:, None]] = 0
    return ids, lengths


EVERY = [
    *(pytest.param(corrupt, *_beats(), id=name) for name, corrupt in corruptions_of(None).items()),
    *(pytest.param(corrupt, *_texts(), id=name) for name, corrupt in corruptions_of(WORDS).items()),
]


@pytest.mark.parametrize(("corrupt", "inputs", "lengths"), EVERY)
def test_a_corruption_changes_more_with_severity_and_nothing_without(
    corrupt: Corruption, inputs: torch.Tensor, lengths: torch.Tensor
) -> None:
    before = inputs.clone()
    same, ends = corrupt(inputs, lengths, 0, _generator())
    assert same.equal(inputs)
    assert ends.equal(lengths)
    shares = []
    for severity in SEVERITIES:
        changed, _ = corrupt(inputs, lengths, severity, _generator())
        again, _ = corrupt(inputs, lengths, severity, _generator())
        assert changed.equal(again)
        assert changed.dtype == inputs.dtype
        shares.append(float((changed.double() - inputs.double()).abs().mean()))
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert inputs.equal(before)


def test_noise_has_the_declared_deviation_and_leaves_the_end() -> None:
    beats, ends = _beats()
    noisy, _ = add_noise(beats, ends, 4, _generator())
    inside = torch.arange(80) < ends[:, None]
    assert (noisy - beats)[inside].std().item() == pytest.approx(0.2, rel=0.05)
    assert noisy[~inside].eq(0).all()


def test_as_many_samples_are_dropped_as_declared() -> None:
    beats, ends = _beats()
    inside = torch.arange(80) < ends[:, None]
    dropped, _ = drop_samples(beats, ends, 5, _generator())
    assert dropped[inside].eq(0).double().mean().item() == pytest.approx(0.5, abs=0.02)


def test_a_lead_is_off_for_one_stretch_of_the_beat_at_the_value_before() -> None:
    beats, ends = _beats()
    flat, _ = take_lead_off(beats, ends, 5, _generator())
    for beat, changed, end in zip(beats[:, :, 0], flat[:, :, 0], ends.tolist(), strict=True):
        places = (beat != changed).nonzero().flatten().tolist()
        assert places == list(range(places[0], places[-1] + 1))
        assert len(places) == end // 2 - 1  # the first of the stretch keeps its value
        assert changed[places].eq(beat[places[0] - 1]).all()
        assert places[-1] < end


def test_typos_are_swaps_of_neighbors() -> None:
    ids, lengths = _texts()
    wrong, ends = misspell(ids, lengths, 5, _generator(), WORDS)
    assert ends is lengths
    became = {(int(a), int(b)) for a, b in zip(ids.flatten(), wrong.flatten(), strict=True) if a != b}
    assert became == {(2, 3), (3, 2), (4, 1), (6, 1)}  # "on" is "no"; of "film" and "good" nothing known remains
    changed = (ids != wrong)[ids == 4].double().mean().item()
    assert changed == pytest.approx(0.5, abs=0.05)
    stays = (ids != wrong)[ids == 6].double().mean().item()
    assert stays == pytest.approx(0.5 * 2 / 3, abs=0.05)  # the second swap of "good" changes nothing


def test_what_remains_of_deleted_words_is_in_order_and_never_empty() -> None:
    ids, lengths = _texts()
    ids = torch.where(ids > 0, torch.arange(1, 31, dtype=torch.int32), 0)  # each word is its place
    shorter, ends = delete_words(ids, lengths, 5, _generator())
    assert int(ends.min()) >= 1
    for words, end in zip(shorter.tolist(), ends.tolist(), strict=True):
        assert words[:end] == sorted(set(words[:end]))
        assert words[0] > 0
        assert not any(words[end:])
    assert ends.sum().item() == pytest.approx(0.5 * lengths.sum().item(), rel=0.1)
