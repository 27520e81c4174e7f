from __future__ import annotations

import math

import pytest
import torch

from sttau import SequenceClassifier, STTauGRU, STTauLSTM
from sttau.data import SequenceDataset
from sttau.inference import predict
from sttau.layers import StateRegularizedLSTM
from sttau.models import DeepEnsemble
from sttau_reproduction.classification.diagnostics.finiteness import compare, measure_finiteness, state_use


def _data(count: int = 12) -> SequenceDataset:
    generator = torch.Generator().manual_seed(0)
    lengths = 1 + torch.arange(count) % 6
    inputs = torch.randn(count, 6, 3, generator=generator)
    inputs[torch.arange(6) >= lengths[:, None]] = 0
    labels = torch.arange(count) % 2
    return SequenceDataset("made", "test", inputs, lengths, labels, ("a", "b"), "made")


def test_the_use_of_states_is_that_of_single_steps() -> None:
    """An oracle that reads each sequence alone, without padding."""
    torch.manual_seed(1)
    data = _data()
    model = SequenceClassifier(STTauGRU(3, 8, num_states=4, mode="exact"), num_classes=2)
    use = state_use(model, data)
    steps = [
        pi.double()
        for x, end in zip(data.inputs, data.lengths.tolist(), strict=True)
        for pi in model.state_distributions(x[None, :end])[0].detach()
    ]
    assert len(steps) == int(data.lengths.sum())
    perplexity = [math.exp(-sum(p * math.log(p) for p in pi.tolist())) for pi in steps]
    assert use.per_step == pytest.approx(sum(perplexity) / len(steps), rel=1e-5)
    mean = torch.stack(steps).mean(0)
    assert use.in_all == pytest.approx(math.exp(-float((mean * mean.log()).sum())), rel=1e-5)
    assert use.largest == pytest.approx(float(torch.stack(steps).amax(1).mean()), rel=1e-5)


@pytest.mark.parametrize(("temperature", "states"), [(1e-3, 1.0), (1e5, 5.0)])
def test_a_cold_network_is_in_one_state_and_a_hot_one_in_all(temperature: float, states: float) -> None:
    model = SequenceClassifier(STTauLSTM(3, 8, num_states=5, temperature=temperature), num_classes=2)
    use = state_use(model, _data(200))
    assert use.per_step == pytest.approx(states, abs=0.05)
    assert use.largest == pytest.approx(1 / states, abs=0.02)
    assert use.in_all > 2  # a cold one too is in different states at different steps


def test_every_possible_reading_is_compared_and_its_own_agrees() -> None:
    data = _data()
    automaton = SequenceClassifier(STTauGRU(3, 8, num_states=4, mode="exact"), num_classes=2)
    own = predict(automaton, data.inputs, data.lengths).mean
    found = measure_finiteness(automaton, data, own, samples=400)
    assert (found["exact_agreement"], found["exact_distance"]) == (100, 0)
    assert 0 < found["hard_distance"] < 0.02  # the mean over 400 paths of what is summed over all
    assert found["states"] == 4

    cell = SequenceClassifier(STTauLSTM(3, 8, num_states=4, readout="cell"), num_classes=2)
    drawn = predict(cell, data.inputs, data.lengths).mean
    found = measure_finiteness(cell, data, drawn, samples=10)
    assert found["soft_distance"] == 0
    assert "exact_pe" not in found
    assert {"hard_pe", "hard_agreement", "tau"} <= set(found)

    plain = SequenceClassifier(torch.nn.LSTM(3, 8, batch_first=True), num_classes=2)
    assert measure_finiteness(plain, data, drawn, samples=10) == {}


def test_states_of_networks_that_are_read_together_are_added() -> None:
    data = _data()
    mixture = DeepEnsemble.of(
        lambda: SequenceClassifier(STTauGRU(3, 8, num_states=4, mode="exact"), num_classes=2), size=3
    )
    own = predict(mixture, data.inputs, data.lengths).mean
    found = measure_finiteness(mixture, data, own, samples=10)
    assert found["states"] == 12
    assert 1 <= found["states_per_step"] <= 4
    assert found["exact_agreement"] == 100


def test_a_network_without_noise_is_its_own_reading() -> None:
    data = _data()
    model = SequenceClassifier(StateRegularizedLSTM(3, 8, num_states=4), num_classes=2)
    found = measure_finiteness(model, data, predict(model, data.inputs, data.lengths).mean, samples=10)
    assert found["tau"] == 1
    assert 1 <= found["states_per_step"] <= 4


def test_distance_is_total_variation() -> None:
    p, q = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.1, 0.2, 0.7]])
    assert compare(p, q, torch.tensor([0]))["distance"] == pytest.approx(0.6, abs=1e-6)
