from __future__ import annotations

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.automata import PA, extract_dfa, extract_pa, measure_fidelity, tomita
from sttau.data import load


def _model(scale: float) -> SequenceClassifier:
    torch.manual_seed(1)
    model = SequenceClassifier(STTauGRU(4, 8, 4, temperature=2.0), 2, nn.Embedding(3, 4))
    with torch.no_grad():
        model.finite_state_layer.states.mul_(scale)
        model.head.weight *= 4
    model.set_metadata(load("tomita3", "train"))
    return model


def test_hard_samples_have_the_exact_distribution_and_soft_ones_do_not() -> None:
    data = load("tomita3", "validation").select(torch.arange(0, 512, 16))
    model = _model(2.0)
    report = measure_fidelity(model, extract_pa(model), data, samples=4000)
    # 4,000 samples of 0 or 1: a standard error below 0.008 per string, the largest of 32 below four of them
    assert report.hard_exact.largest < 0.032
    assert report.soft_exact.mean > 3 * report.hard_exact.mean
    assert report.soft_hard.largest <= report.soft_exact.largest + report.hard_exact.largest + 1e-9
    assert report.agreement == 1.0  # a categorical PA is the exact network
    assert 0.1 < report.mixing < 0.75


def test_another_automaton_does_not_agree() -> None:
    data = load("tomita3", "validation")
    model = _model(2.0)
    truth = extract_dfa(model).dfa
    never = measure_fidelity(model, truth.complement(), data, samples=1)
    always = measure_fidelity(model, truth, data, samples=1)
    assert never.agreement == pytest.approx(1 - always.agreement)
    assert measure_fidelity(model, PA.from_dfa(truth), data, samples=1).agreement == always.agreement


def test_the_report_reads_well() -> None:
    data = load("tomita3", "validation")
    text = str(measure_fidelity(_model(1.0), tomita(3), data, samples=2))
    assert "512 of up to 24 symbols (tomita3, validation)" in text
    assert text.count("\n") == 5
    assert "E[1 − max α]" in text
