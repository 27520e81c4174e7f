"""How finite a network is: how many states it mixes at a step, and what changes when it is read otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from sttau.data import SequenceDataset
from sttau.engine import fingerprint
from sttau.inference.chunks import chunks, noises
from sttau.layers import LayerMode
from sttau.metrics import prediction_error
from sttau.models import Predictor, SequenceModel
from sttau.padding import valid_steps
from sttau_reproduction.classification.splits import lengths_of, predict_probabilities

#: Ways to read a finite-state network.
READINGS: tuple[LayerMode, ...] = ("soft", "hard", "exact")


class StateUse(NamedTuple):
    """How the states of one network are used over a data set.

    Attributes:
        per_step: Mean over valid steps of the perplexity of α_t, exp H(α_t): the number of equally weighted states that
            would be mixed as much. 1 where a single state is occupied, k where all are mixed alike. For a network that
            is read exactly, α_t is the distribution of the state given what was read.
        in_all: Perplexity of the mean of α_t over all valid steps of all sequences: how many states are in use.
        largest: Mean over valid steps of the largest share, max α_t.
    """

    per_step: float
    in_all: float
    largest: float


def state_use(model: SequenceModel, data: SequenceDataset, seed: int = 0) -> StateUse:
    """Measure how a network uses its states, along one path of each sequence, or exactly where it is read exactly.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> from sttau.data import load
        >>> model = SequenceClassifier(STTauLSTM(8, 16, num_states=4, temperature=1e4), num_classes=10)
        >>> use = state_use(model, load("digits", "test"))
        >>> round(use.per_step, 2), round(use.in_all, 2), round(use.largest, 2)
        (4.0, 4.0, 0.25)
    """
    steps, perplexity, largest, shares = 0, 0.0, 0.0, torch.zeros(())
    for alpha in _distributions(model, data, seed):
        steps += len(alpha)
        perplexity += float(torch.special.entr(alpha).sum(-1).exp().sum())
        largest += float(alpha.amax(-1).sum())
        shares = shares + alpha.sum(0)
    in_all = torch.special.entr(shares / steps).sum().exp()
    return StateUse(perplexity / steps, float(in_all), largest / steps)


def _distributions(model: SequenceModel, data: SequenceDataset, seed: int) -> Iterator[Tensor]:
    """α of all valid steps, (steps, k) in float64 on the CPU, chunk by chunk."""
    mode = model.resolve_mode(None)
    layer = model.finite_state_layer
    floats = 4 * layer.num_states**2 if mode == "exact" else 2 * layer.hidden_size + 2 * layer.num_states
    floats += 0 if model.embedding is None else model.embedding.embedding_dim
    with torch.no_grad():
        for chunk in chunks(data.inputs, lengths_of(data), model.device, floats, 1):
            x, lengths = chunk.inputs, chunk.lengths
            if mode == "exact":
                alpha = model.chain(x, lengths).distributions
                steps = lengths if lengths is None else -(-lengths // model.patch_size)
            else:
                (noise,) = noises(fingerprint(x, lengths), 1, seed, 1, mode)
                x, steps = model.prepare(x, lengths)
                alpha = layer.transitions(model.embed(x), steps, noise=noise, mode=mode)
            valid = alpha.flatten(0, 1) if steps is None else alpha[valid_steps(alpha, steps)]
            yield valid.double().cpu()


def measure_finiteness(model: Predictor, data: SequenceDataset, own: Tensor, samples: int) -> dict[str, float]:
    """All that tells how finite a network is; nothing for a network without states.

    Args:
        model: Trained network. Of several that are trained together, means over them are returned, but the number of
            states is that of all.
        data: Test data.
        own: (sequences, classes) probabilities of the network's own reading.
        samples: Samples of a soft or hard reading.
    """
    layer = model.members[0].layer
    if layer.num_states is None:
        return {}
    uses = [state_use(member, data) for member in model.members]
    found = {f"states_{name}": sum(getattr(use, name) for use in uses) / len(uses) for name in StateUse._fields}
    found["states"] = float(sum(member.finite_state_layer.num_states for member in model.members))
    found["tau"] = float(layer.temperature.detach().flatten()[0])
    for mode in READINGS:
        try:
            resolved = model.resolve_mode(mode)
        except ValueError:  # a head that reads the cell cannot be read exactly
            continue
        other = own if resolved == model.resolve_mode(None) else _read(model, data, samples, resolved)
        found |= {f"{mode}_{name}": value for name, value in compare(own, other, data.labels).items()}
    return found


def compare(own: Tensor, other: Tensor, labels: Tensor) -> dict[str, float]:
    """Error of a reading, share of predictions that agree with the network's own, and the mean distance from them.

    Args:
        own: (sequences, classes) probabilities.
        other: (sequences, classes) probabilities of another reading.
        labels: (sequences,) true classes.

    Returns:
        ``pe`` and ``agreement`` in percent; ``distance``, the total variation, between 0 and 1.

    Example:
        >>> own, other = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([[0.9, 0.1], [0.4, 0.6]])
        >>> {name: round(value, 2) for name, value in compare(own, other, torch.tensor([0, 0])).items()}
        {'pe': 50.0, 'agreement': 50.0, 'distance': 0.1}
    """
    return {
        "pe": 100 * prediction_error(other, labels),
        "agreement": 100 * float((own.argmax(-1) == other.argmax(-1)).double().mean()),
        "distance": float((own.double() - other.double()).abs().sum(-1).mean() / 2),
    }


def _read(model: Predictor, data: SequenceDataset, samples: int, mode: LayerMode) -> Tensor:
    return predict_probabilities(model, data, samples, mode=mode).mean(0)
