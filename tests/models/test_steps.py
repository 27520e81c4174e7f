from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import sttau
from sttau import BayesLSTM, SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM, VariationalDropoutLSTM
from sttau.models import Preprocessing
from sttau.models.steps import partial_patches

TIME, SIZE = 8, 3
LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "st-tau lstm": lambda width: STTauLSTM(width, 6, num_states=4),
    "st-tau lstm, cell": lambda width: STTauLSTM(width, 6, num_states=4, readout="cell"),
    "st-tau gru, two layers": lambda width: STTauGRU(width, 6, num_states=4, num_layers=2),
    "bayes": lambda width: BayesLSTM(width, 6),
    "dropout": lambda width: VariationalDropoutLSTM(width, 6, dropout=0.3),
    "lstm": lambda width: nn.LSTM(width, 6),
    "gru": lambda width: nn.GRU(width, 6, batch_first=True),
}


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(5, TIME, 2, generator=torch.Generator().manual_seed(0))
    x[2, 4, 0] = torch.nan
    return x, torch.tensor([8, 7, 6, 4, 1])


def make(name: str) -> SequenceClassifier:
    torch.manual_seed(2)
    preprocessing = Preprocessing.fitted(*data(), patch_size=SIZE)
    return SequenceClassifier(LAYERS[name](preprocessing.output_size), 3, preprocessing=preprocessing)


@pytest.mark.parametrize("name", LAYERS)
def test_the_prediction_after_a_step_is_that_of_the_steps_so_far(name: str) -> None:
    model, (x, lengths), ids = make(name), data(), torch.arange(5)
    every = sttau.predict(model, x, lengths, 4, ids=ids, per_step=True)
    assert every.mean.shape == (5, TIME, 3)
    for time in range(1, TIME + 1):
        now = torch.minimum(lengths, torch.tensor(time))
        expected = sttau.predict(model, x[:, :time], now, 4, ids=ids)
        torch.testing.assert_close(every.mean[:, time - 1], expected.mean, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(every.aleatoric[:, time - 1], expected.aleatoric, atol=1e-6, rtol=1e-5)


def test_the_exact_prediction_after_a_step_is_that_of_the_steps_so_far() -> None:
    x, lengths = data()
    preprocessing = Preprocessing.fitted(x, lengths, patch_size=SIZE)
    for kind in (SequenceClassifier, SequenceRegressor):
        model = kind(STTauGRU(preprocessing.output_size, 6, num_states=4), 3, preprocessing=preprocessing)
        every = sttau.predict(model, x, lengths, mode="exact", per_step=True)
        for time in range(1, TIME + 1):
            now = torch.minimum(lengths, torch.tensor(time))
            expected = sttau.predict(model, x[:, :time], now, mode="exact")
            torch.testing.assert_close(every.mean[:, time - 1], expected.mean, atol=1e-6, rtol=1e-5)


def test_exact_attribution_stands_at_the_last_step_of_each_patch() -> None:
    x, lengths = data()
    preprocessing = Preprocessing.fitted(x, lengths, patch_size=SIZE)
    model = SequenceClassifier(STTauGRU(preprocessing.output_size, 6, num_states=4), 3, preprocessing=preprocessing)
    found = sttau.predict(model, x, lengths, mode="exact")
    assert found.attribution is not None
    assert found.attribution.shape == (5, TIME)
    torch.testing.assert_close(found.attribution.sum(1), found.epistemic, atol=1e-6, rtol=1e-4)
    assert found.attribution[0].nonzero().flatten().tolist() == [2, 5, 7]
    assert found.attribution[3].nonzero().flatten().tolist() == [2, 3]


def test_partial_patches_end_with_the_whole_patch() -> None:
    x = torch.randn(2, 6, 3)
    parts = partial_patches(x, 3)
    assert torch.equal(parts[:, :, 2], x.unflatten(1, (2, 3)).flatten(2))
    assert torch.equal(parts[:, 1, 0, :3], x[:, 3])
    assert not parts[:, 1, 0, 3:].any()
