"""How many samples a prediction needs: the first of 50 that are drawn once."""

from __future__ import annotations

from dataclasses import replace

from sttau.data import SequenceDataset
from sttau.inference import Prediction, entropy, predict
from sttau.models import Predictor
from sttau_reproduction.classification.evaluation import measure
from sttau_reproduction.classification.splits import lengths_of

NUMBERS = (1, 2, 5, 10, 20, 50)


def first_samples(prediction: Prediction, number: int) -> Prediction:
    """Return the prediction of the first samples alone.

    Example:
        >>> import torch
        >>> p = torch.tensor([[[0.9, 0.1]], [[0.5, 0.5]]])
        >>> both = Prediction(p.mean(0), "soft", 2, p.var(0), torch.ones(1), torch.ones(1), samples=p)
        >>> one = first_samples(both, 1)
        >>> one.mean.tolist(), one.num_samples, one.epistemic.tolist()
        ([[0.8999999761581421, 0.10000000149011612]], 1, [0.0])
    """
    if prediction.samples is None:
        raise ValueError("prediction has no samples; pass keep_samples=True to predict")
    some = prediction.samples[:number]
    mean = some.mean(0)
    return replace(
        prediction,
        mean=mean,
        num_samples=number,
        samples=some,
        variance=some.var(0, correction=0),
        total=entropy(mean),
        aleatoric=entropy(some).mean(0),
    )


def measure_samples(model: Predictor, data: SequenceDataset) -> dict[str, float]:
    """NLL, ECE and the mean mutual information in bits for each number of samples, as ``samples_{number}_{metric}``."""
    prediction = predict(model, data.inputs, lengths_of(data), max(NUMBERS), keep_samples=True).cpu()
    found: dict[str, float] = {}
    for number in NUMBERS:
        part = first_samples(prediction, number)
        values = {
            name: value for name, value in measure(part.mean, data.labels).items() if name in ("pe", "nll", "ece")
        }
        values["information"] = float(part.epistemic.double().mean())
        if number > 1:
            values["corrected"] = float(part.corrected_epistemic.double().mean())
        found |= {f"samples_{number}_{name}": value for name, value in values.items()}
    return found
