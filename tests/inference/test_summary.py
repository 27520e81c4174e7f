from __future__ import annotations

import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.inference.summary import repeat_last_steps, summarize, summarize_states


def test_samples_are_averaged_as_probabilities() -> None:
    model = SequenceClassifier(nn.LSTM(2, 4), 3)
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))  # three samples of two sequences
    part = summarize(model, [logits[:4], logits[4:]], 2, keep=True)
    p = logits.softmax(-1).view(3, 2, 3)
    torch.testing.assert_close(part["mean"], p.mean(0))
    torch.testing.assert_close(part["aleatoric"], -(p * p.log2()).sum(-1).mean(0))
    assert bool((part["total"] >= part["aleatoric"]).all())
    torch.testing.assert_close(part["samples"], p.transpose(0, 1))


def test_a_distribution_over_states_is_a_mixture_of_their_outputs() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, num_states=3), 2)
    pi = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    part = summarize_states(model, pi)
    outcome = model.state_logits().exp()
    torch.testing.assert_close(part["mean"], torch.stack([outcome[0], outcome[:2].mean(0)]))
    torch.testing.assert_close(part["variance"][0], torch.zeros(2), atol=1e-7, rtol=0)


def test_the_last_valid_step_is_repeated() -> None:
    part = {"mean": torch.arange(6.0).view(2, 3, 1)}
    assert repeat_last_steps(part, torch.tensor([1, 3]))["mean"][..., 0].tolist() == [[0, 0, 0], [3, 4, 5]]
