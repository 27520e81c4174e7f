from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import sttau
from sttau import SequenceClassifier
from sttau.models import Preprocessing
from sttau.training.scales import warn_odd_scales


def data(offset: float = 0.0, factor: float = 1.0) -> torch.Tensor:
    x = torch.randn(20, 5, 2, generator=torch.Generator().manual_seed(0))
    x[:, :, 1] = offset + factor * x[:, :, 1]
    return x


@pytest.mark.parametrize(("offset", "factor"), [(101_325, 100), (0, 500), (50, 0.1)])
def test_unusual_units_give_a_warning_that_names_the_feature(offset: float, factor: float) -> None:
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    with pytest.warns(UserWarning, match="feature 1 has mean"):
        sttau.fit(model, data(offset, factor), torch.arange(20) % 2, updates=1)


def test_features_that_are_all_tiny_give_a_warning() -> None:
    with pytest.warns(UserWarning, match="feature 0 has mean"):
        warn_odd_scales(SequenceClassifier(nn.LSTM(2, 4), 2), 1e-4 * data())


def test_usual_units_tokens_and_scaled_features_do_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_odd_scales(SequenceClassifier(nn.LSTM(2, 4), 2), data(3, 20))
        warn_odd_scales(SequenceClassifier(nn.LSTM(2, 4), 2), data(0, 1e-4))  # beside a feature of scale 1
        x = data(101_325, 100)
        warn_odd_scales(SequenceClassifier(nn.LSTM(2, 4), 2, preprocessing=Preprocessing.fitted(x)), x)
        warn_odd_scales(SequenceClassifier(nn.LSTM(2, 4), 2, nn.Embedding(900, 2)), torch.full((2, 3), 800))
        padded = data()
        padded[:, 3:] = 1e9
        warn_odd_scales(SequenceClassifier(nn.LSTM(2, 4), 2), padded, torch.full((20,), 3))
