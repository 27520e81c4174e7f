from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import DeepEnsemble, SequenceClassifier, STTauGRU, STTauLSTM, predict
from sttau.automata import CompiledModel, compile
from sttau.automata import compiled as compiled_module
from sttau.automata.compiled import COMPILED_FORMAT
from sttau.data import load
from sttau.errors import ModelFileError

VOCABULARY = ("^", "0", "1")


def _model(k: int = 6, tokens: int = 3, classes: int = 2, scale: float = 3.0, **options: Any) -> SequenceClassifier:
    """A network whose weights are large enough for sharp and for flat rows."""
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(5, 16, k, **options), classes, nn.Embedding(tokens, 5))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
    return model.eval()


def _symbols(count: int) -> tuple[str, ...]:
    return tuple(chr(ord("a") + number) for number in range(count))


def _batch(tokens: int, batch: int = 40, longest: int = 60) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randint(tokens, (batch, longest), generator=generator)
    lengths = torch.randint(1, longest + 1, (batch,), generator=generator)
    lengths[:3] = torch.tensor([1, 2, longest])
    return inputs, lengths


@pytest.mark.parametrize("k", [2, 3, 8, 10, 17, 40])
@pytest.mark.parametrize("tokens", [2, 3, 30])
@pytest.mark.parametrize("initial", ["zeros", "first"])
def test_predictions_are_those_of_the_network(k: int, tokens: int, initial: str) -> None:
    model = _model(k, tokens, 3, initial=initial)
    inputs, lengths = _batch(tokens)
    expected = predict(model, inputs, lengths, mode="exact").mean
    found = compile(model, _symbols(tokens), start=None).probabilities(inputs, lengths)
    assert float((found - expected).abs().max()) < 1e-6


def test_strings_of_a_thousand_symbols_keep_the_precision() -> None:
    model = _model(10, scale=6.0)
    inputs, _ = _batch(3, 8, 1000)
    expected = predict(model, inputs, mode="exact").mean
    assert float((compile(model, VOCABULARY).probabilities(inputs) - expected).abs().max()) < 1e-6


def test_an_ensemble_becomes_one_automaton_with_the_states_of_all_members() -> None:
    ensemble = DeepEnsemble.of(
        lambda: SequenceClassifier(STTauGRU(4, 16, 5, mode="exact"), 3, nn.Embedding(4, 4)).double(), 3
    )
    inputs, lengths = torch.randint(4, (20, 30)), torch.randint(1, 31, (20,))
    compiled = compile(ensemble, ("^", "a", "b", "c"))
    assert compiled.num_states == 15
    expected = predict(ensemble, inputs, lengths).mean
    torch.testing.assert_close(compiled.probabilities(inputs, lengths), expected, rtol=0, atol=1e-12)


def test_in_float64_predictions_differ_only_by_rounding() -> None:
    model = _model(10, scale=6.0).double()
    inputs, lengths = _batch(3, 8, 300)
    expected = predict(model, inputs, lengths, mode="exact").mean
    assert float((compile(model, VOCABULARY).probabilities(inputs, lengths) - expected).abs().max()) < 1e-13


def test_uncertainty_is_that_of_the_network() -> None:
    model = _model()
    inputs, lengths = _batch(3)
    expected = predict(model, inputs, lengths, mode="exact")
    found = compile(model, VOCABULARY).predict(inputs, lengths)
    for name in ("mean", "variance", "total", "aleatoric", "epistemic"):
        assert torch.allclose(getattr(found, name), getattr(expected, name).double(), atol=2e-6), name
    assert found.mode == expected.mode


def test_reading_word_by_word_in_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, lengths = _batch(3, 50, 70)
    whole = compile(_model(), VOCABULARY).state_distribution(inputs, lengths)
    monkeypatch.setattr(compiled_module, "_TABLE_BYTES", 0)
    single = compile(_model(), VOCABULARY)
    assert len(single._tables[2]) == 3
    assert torch.allclose(single.state_distribution(inputs, lengths), whole, atol=1e-14)
    monkeypatch.setattr(compiled_module, "_SMALL", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(
        single.state_distribution(inputs, lengths), compile(_model(), VOCABULARY).state_distribution(inputs, lengths)
    )


def test_the_pa_accepts_with_the_same_probabilities() -> None:
    model = _model()
    model.set_metadata(load("tomita1", "train"))
    compiled = compile(model)
    strings = ["".join(s) for n in range(6) for s in product("01", repeat=n)]
    assert torch.allclose(compiled.pa().probability(strings), compiled.probabilities(strings)[:, 1], atol=1e-14)
    assert compiled.pa("reject").probability(["01"]) + compiled.pa("accept").probability(["01"]) == pytest.approx(1)


def test_without_a_start_token_the_pa_has_an_additional_initial_state() -> None:
    compiled = compile(_model(classes=3), _symbols(3), start=None)
    pa = compiled.pa(2)
    assert pa.num_states == compiled.num_states + 1
    strings = ["".join(s) for n in range(1, 5) for s in product("abc", repeat=n)]
    assert torch.allclose(pa.probability(strings), compiled.probabilities(strings)[:, 2], atol=1e-14)
    assert pa.probability([""]).tolist() == pytest.approx([1 / 3])


def test_a_saved_model_is_loaded(tmp_path: Path) -> None:
    compiled = compile(_model(), VOCABULARY)
    again = CompiledModel.load(compiled.save(tmp_path / "deep/model.compiled.safetensors"))
    inputs, lengths = _batch(3)
    assert torch.equal(again.state_distribution(inputs, lengths), compiled.state_distribution(inputs, lengths))
    assert (again.vocabulary, again.start, again.class_names) == (VOCABULARY, "^", ())


def test_other_files_are_rejected(tmp_path: Path) -> None:
    path = _model().save(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"is not a compiled model: it is a model; read it with sttau\.load"):
        CompiledModel.load(path)
    (tmp_path / "noise").write_bytes(b"noise")
    with pytest.raises(ValueError, match="damaged or not a safetensors file"):
        CompiledModel.load(tmp_path / "noise")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        CompiledModel.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("header", "tensors", "message"),
    [
        ({"vocabulary": ["^", "0"]}, {}, r"first must be finite floats \(float64\) of shape \(2, 6\)"),
        ({"start": "?"}, {}, "start '\\?' is not in the vocabulary"),
        ({"class_names": ["only"]}, {}, "1 class_names for 2 classes"),
        ({"vocabulary": [0, 1, 2]}, {}, "must be strings"),
        ({"vocabulary": 3}, {}, "TypeError"),
        ({}, {"outcome": torch.zeros(6)}, "ValueError"),
        ({}, {"outcome": torch.full((6, 2), torch.nan).double()}, "outcome must be finite"),
        ({}, {"extra": torch.zeros(6)}, "extra"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_rejected(
    tmp_path: Path, header: dict[str, Any], tensors: dict[str, Any], message: str
) -> None:
    saved = COMPILED_FORMAT.read(compile(_model(), VOCABULARY).save(tmp_path / "model"))
    path = COMPILED_FORMAT.write(tmp_path / "changed", saved.header | header, saved.tensors | tensors)
    with pytest.raises(ModelFileError, match=f"changed is not valid: .*{message}"):
        CompiledModel.load(path)


def test_models_without_exact_inference_are_rejected_with_the_reason() -> None:
    embedding = nn.Embedding(3, 2)
    for layer, message in (
        (STTauLSTM(2, 4, 3), "depends on the whole path"),
        (STTauGRU(2, 4, 3, readout="cell"), "reads u_t"),
        (STTauGRU(2, 4, 3, num_layers=2), "upper layer"),
        (nn.GRU(2, 4), "has no states"),
    ):
        with pytest.raises(ValueError, match=message):
            compile(SequenceClassifier(layer, 2, embedding), VOCABULARY)


@pytest.mark.parametrize(
    ("tokens", "vocabulary", "start", "message"),
    [
        (None, VOCABULARY, "^", "must have an embedding"),
        (3, None, "^", "vocabulary is missing"),
        (3, ("^", "0"), "^", "vocabulary has 2 symbols, but the model's embedding is one of 3 tokens"),
        (2, ("0", "1"), "^", "start must be in the vocabulary .* pass None"),
        (1, ("^",), "^", "alphabet is empty"),
    ],
)
def test_a_wrong_alphabet_is_rejected(tokens: int | None, vocabulary: Any, start: str, message: str) -> None:
    embedding = None if tokens is None else nn.Embedding(tokens, 2)
    with pytest.raises(ValueError, match=message):
        compile(SequenceClassifier(STTauGRU(2, 4, 3), 2, embedding), vocabulary, start=start)


def test_unknown_symbols_tokens_and_classes_are_rejected() -> None:
    compiled = compile(_model(), VOCABULARY)
    with pytest.raises(ValueError, match="the symbol '2'"):
        compiled.probabilities(["012"])
    for place in (0, 1, 6, 19):
        for wrong in (3, -1):
            inputs = torch.zeros(4, 20, dtype=torch.int64)
            inputs[2, place] = wrong
            with pytest.raises(ValueError, match=r"outside the vocabulary, 0 … 2, in sequence 2"):
                compiled.probabilities(inputs)
    inputs[2, 19] = 99
    assert compiled.probabilities(inputs, torch.full((4,), 19)).shape == (4, 2)
    with pytest.raises(ValueError, match="token ids"):
        compiled.probabilities(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="lengths must be at least 1"):
        compiled.probabilities(torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match="accept must be a class, 0 … 1"):
        compiled.pa(2)
    with pytest.raises(ValueError, match="accept must be one of the classes"):
        compiled.pa("yes")


@pytest.mark.parametrize("start", ["^", None])
def test_strings_of_bytes_are_read_as_their_token_ids(start: str | None) -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, 3), 2, nn.Embedding(4, 4))
    compiled = compile(model, ("^", "0", "1", "é"), start=start)
    for strings in (["01é", "1"], ["0", "1"], ["11"], *([["", "0"]] if start else [])):
        rows = compiled._encode_bytes(strings)
        assert rows is not None
        ids, lengths = compiled.encode(strings)
        assert torch.equal(torch.from_numpy(rows[0]).long(), ids)
        assert torch.equal(torch.from_numpy(rows[1]), lengths)
        assert torch.equal(compiled.probabilities(strings), compiled.probabilities(ids, lengths))
        assert torch.equal(compiled.predict(strings).mean, compiled.predict(ids, lengths).mean)
    for odd in ("2", "τ", "\ud800"):
        with pytest.raises(ValueError, match="which is not in the alphabet"):
            compiled.probabilities(["0", odd])
    wide = compile(model, ("^", "0", "1", "τ"), start=start)  # a symbol of more than one byte
    torch.testing.assert_close(wide.probabilities(["0τ"]), compiled.probabilities(["0é"]))


def test_a_model_in_training_mode_is_compiled_as_it_predicts() -> None:
    """Regression: dropout had a part in it, and the temperature had none."""
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 16, num_states=6, mode="exact"), 2, nn.Embedding(3, 4), dropout=0.5)
    model.logit_temperature = 2.5
    inputs = torch.randint(3, (5, 20))
    compiled = compile(model.train(), ("^", "0", "1"))
    assert torch.allclose(compiled.probabilities(inputs).float(), predict(model, inputs).mean, atol=1e-6)


def test_a_compiled_mixture_has_the_uncertainty_of_the_ensemble() -> None:
    torch.manual_seed(0)
    model = DeepEnsemble.of(
        lambda: SequenceClassifier(STTauGRU(4, 16, num_states=6, mode="exact"), 2, nn.Embedding(3, 4)), 3
    )
    for member in model.members:
        with torch.no_grad():
            member.head.weight.mul_(20)
    inputs = torch.randint(3, (5, 20))
    found, wanted = compile(model, ("^", "0", "1")).predict(inputs), predict(model, inputs)
    for name in ("mean", "total", "aleatoric", "epistemic"):
        assert torch.allclose(getattr(found, name).float(), getattr(wanted, name), atol=1e-5), name
