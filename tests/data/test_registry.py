from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, predict
from sttau.data import DATASETS, SPLITS, SequenceDataset, load
from sttau.padding import clear_padding
from sttau.training import fit

#: sizes as the paper gives them, or as their publishers do
SIZES = {
    "bih": (78_799, 8_755, 21_892),
    "imdb": (23_000, 2_000, 25_000),
    "customer_reviews": (None, None, 500),
    "movie_reviews": (None, None, 1_000),
    "household_power": (25_000, 2_000, 7_588),
    "stochastic1": (10_170, 1_000, 4_000),
    "stochastic2": (20_460, 1_000, 4_000),
}
GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text("utf-8"))
PARTS = [(name, split) for name, entry in DATASETS.items() for split in SPLITS if split in entry.source.sizes]


@pytest.fixture(scope="module", params=PARTS, ids=lambda part: "-".join(part))
def part(request: pytest.FixtureRequest, files: object) -> SequenceDataset:
    name, split = request.param
    if name == "imdb" or DATASETS[name].needs:
        request.getfixturevalue("imdb_ready")
    return load(name, split)


def digest(data: SequenceDataset) -> str:
    seen = hashlib.sha256()
    for tensor in (data.inputs, data.lengths, data.labels):
        seen.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        seen.update(tensor.contiguous().numpy().data)
    return seen.hexdigest()


def row(data: SequenceDataset, place: int) -> list[float]:
    """The first five numbers or token ids of a sequence, its length and its label."""
    numbers = data.inputs[place].flatten()[:5].tolist()
    return [round(number, 6) for number in (*numbers, data.lengths[place].item(), data.labels[place].item())]


def test_every_part_has_the_size_it_says_and_the_form_that_all_have(part: SequenceDataset) -> None:
    source = DATASETS[part.name].source
    count = len(part)
    if not (part.name == "bih_inter_patient" and source.content != GOLDEN["bih_inter_patient"]["content"]):
        assert count == source.sizes[part.split]  # stand-ins of the records are shorter
    assert part.inputs.dim() == (2 if part.vocabulary else 3)
    assert part.lengths.shape == part.labels.shape == (count,)
    assert int(part.lengths.min()) >= 1
    assert int(part.lengths.max()) == part.inputs.shape[1]
    assert torch.equal(clear_padding(part.inputs, part.lengths), part.inputs)
    if part.vocabulary is not None:
        assert 0 <= int(part.inputs.min()) <= int(part.inputs.max()) < len(part.vocabulary)
    else:
        assert part.inputs.dtype == torch.float32
        assert bool(part.inputs.isfinite().all())
    if part.class_names:
        assert sorted(set(part.labels.tolist())) == list(range(len(part.class_names)))
    else:
        assert part.labels.dtype == torch.float32
    assert part.ids is None or len(set(part.ids)) == count
    for word in (source.title, source.license, source.citation):
        assert word
        assert word in part.provenance


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_the_papers(name: str) -> None:
    assert tuple(DATASETS[name].source.sizes.get(split) for split in SPLITS) == SIZES[name]


def test_every_part_is_what_it_was(part: SequenceDataset) -> None:
    """Splits are recorded: the checksum of each, and its first and last row."""
    source = DATASETS[part.name].source
    if source.forms and source.content != GOLDEN[part.name]["content"]:
        pytest.skip("golden rows are those of the real files; this is a generated stand-in")
    golden = GOLDEN[part.name][part.split]
    assert row(part, 0) == golden["first"]
    assert row(part, -1) == golden["last"]
    assert digest(part) == golden["sha256"]


def test_loading_leaves_the_global_generators_alone() -> None:
    state = torch.get_rng_state()
    load("stochastic1", "train")
    assert torch.equal(state, torch.get_rng_state())


def test_a_part_can_be_selected_with_its_names(files: object) -> None:
    data = load("bih_inter_patient", "test")
    few = data.select(data.labels == 4)
    assert data.ids is not None
    assert few.ids == tuple(name for name, label in zip(data.ids, data.labels.tolist(), strict=True) if label == 4)


def test_a_part_tells_what_it_is_in_one_line(part: SequenceDataset) -> None:
    told = repr(part)
    assert f"{part.name}, {part.split}: {len(part):,} sequences" in told
    assert f"{int(part.lengths.max()):,} {'tokens' if part.vocabulary else 'steps'}" in told
    assert len(told) < 120
    assert ": 0 sequences" in repr(part.select(part.lengths < 0))


@pytest.mark.parametrize("name", ["customer_reviews", "movie_reviews", "movie_review_documents", "product_reviews"])
def test_sets_that_only_test_say_so(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is a test set for models trained on imdb: split must be 'test'"):
        load(name, "train")


def test_options_a_set_does_not_know_are_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match="digits does not take these options: history"):
        load("digits", "train", history=3)


def test_numbers_are_learned_by_a_regressor_and_lead_back_to_their_unit(files: object) -> None:
    data = load("household_power", "validation", history=3)
    model = SequenceRegressor(STTauGRU(7, 8, num_states=4))
    fit(model, data.inputs, data.labels, data.lengths, updates=3)
    mean = predict(model, data.inputs[:5], data.lengths[:5]).mean
    assert data.label_scale is not None
    offset, factor = data.label_scale
    assert mean.shape == (5, 1)
    assert 0 <= offset < offset + factor < 12  # kW of a household


@pytest.mark.usefixtures("imdb_ready")
def test_token_ids_as_they_are_loaded_can_be_trained_on() -> None:
    data = load("customer_reviews", "test")
    assert data.vocabulary is not None
    embedding = torch.nn.Embedding(len(data.vocabulary), 4)
    model = SequenceClassifier(STTauGRU(4, 8, num_states=2), 2, embedding)
    fit(model, data.inputs[:32], data.labels[:32], data.lengths[:32], updates=2, batch_size=8)
    as_int64 = predict(model, data.inputs[:4].long(), data.lengths[:4])
    assert torch.equal(predict(model, data.inputs[:4], data.lengths[:4]).mean, as_int64.mean)
