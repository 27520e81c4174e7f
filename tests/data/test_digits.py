from __future__ import annotations

import pytest
import torch

from sttau.data import SPLITS, load


def test_every_image_is_in_exactly_one_split_and_every_class_in_each() -> None:
    parts = [load("digits", split) for split in SPLITS]
    assert sum(map(len, parts)) == 1797
    for part in parts:
        assert part.inputs.shape[1:] == (8, 8)
        assert 0 <= float(part.inputs.min()) < float(part.inputs.max()) == 1
        assert sorted(set(part.labels.tolist())) == list(range(10))
    images = [tuple(image.flatten().tolist()) for part in parts for image in part.inputs]
    assert len(set(images)) == 1797


def test_splits_are_the_same_every_time_and_leave_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    assert torch.equal(load("digits", "test").inputs, load("digits", "test").inputs)
    assert torch.equal(state, torch.get_rng_state())


def test_rows_are_read_from_top_to_bottom() -> None:
    from sklearn.datasets import load_digits

    images = torch.as_tensor(load_digits().images / 16, dtype=torch.float32)
    first = load("digits", "train").inputs[0]
    assert bool((images == first).flatten(1).all(1).any())


@pytest.mark.parametrize(("name", "split", "argument"), [("mnist", "train", "name"), ("digits", "dev", "split")])
def test_unknown_names_are_refused_with_the_known_ones(name: str, split: str, argument: str) -> None:
    with pytest.raises(ValueError, match=f"{argument} must be one of .*train.*|{argument} must be one of .*digits"):
        load(name, split)
