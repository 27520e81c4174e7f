from __future__ import annotations

import math

import torch

from sttau.padding import clear_padding, last_valid_step, repeat_last_step, valid_steps

LENGTHS = torch.tensor([4, 1, 3])


def test_the_mask_has_as_many_steps_as_each_length() -> None:
    mask = valid_steps(torch.zeros(3, 4, 2), LENGTHS)
    assert mask.sum(1).tolist() == LENGTHS.tolist()
    assert not (mask[:, 1:] & ~mask[:, :-1]).any()  # valid steps come first


def test_clearing_removes_nan_beyond_the_length_and_nothing_else() -> None:
    values = torch.randn(3, 4, 2)
    padded = values.masked_fill(~valid_steps(values, LENGTHS)[..., None], math.nan)
    cleared = clear_padding(padded, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(cleared[row, :length], values[row, :length])
        assert not cleared[row, length:].any()
    assert clear_padding(values, None) is values


def test_the_last_step_of_each_direction_is_selected() -> None:
    values = torch.randn(6, 4, 4)  # two samples of three sequences, two directions
    last = last_valid_step(values, LENGTHS, directions=2)
    for row in range(6):
        assert torch.equal(last[row, :2], values[row, int(LENGTHS[row % 3]) - 1, :2])
        assert torch.equal(last[row, 2:], values[row, 0, 2:])
    assert torch.equal(last_valid_step(values, None), values[:, -1])


def test_the_last_valid_step_is_repeated_in_any_dimension() -> None:
    values = torch.randn(3, 4, 2)
    repeated = repeat_last_step(values, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(repeated[row, :length], values[row, :length])
        assert torch.equal(repeated[row, length:], values[row, length - 1].expand(4 - length, -1))
    samples = torch.stack([values, 2 * values], dim=1)  # (batch, samples, time, …)
    assert torch.equal(repeat_last_step(samples, LENGTHS, 2), torch.stack([repeated, 2 * repeated], dim=1))
    assert repeat_last_step(values, None) is values
