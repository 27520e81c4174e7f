"""Last-layer Laplace compared with laplace-torch, on the heads of LSTMs trained on the digits.

    pip install laplace-torch             # 0.3 was used, with curvlinops-for-pytorch 3.0.1
    python benchmarks/laplace_oracle.py   # writes benchmarks/laplace_oracle.jsonl

Compared are the precision of the posterior over the weights of the head, the log marginal likelihood at several
precisions of the prior (differences, as a constant is left out here), the precision that maximizes it, and the
predictive probabilities of 2,000 draws. The other numbers say why predictions are underconfident here: all training
data are predicted correctly, so that the curvature of the likelihood is small.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import torch
from laplace import Laplace
from laplace.curvature import CurvlinopsGGN
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sttau
from sttau.data import load
from sttau.inference import features
from sttau.inference.inputs import as_inputs
from sttau.jobs import Result, write_results
from sttau.training.laplace import best_precision, gauss_newton, laplace, log_evidence, output_curvature

OUT = Path(__file__).with_name("laplace_oracle.jsonl")
UPDATES, HIDDEN, DRAWS = 1000, 64, 2000
PRECISIONS = torch.tensor([0.01, 0.1, 1.0, 10.0], dtype=torch.float64)


class Head(nn.Module):
    """The head of a network on its features, as laplace-torch needs it: a body, then one dense layer."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__()
        self.body = nn.Identity()
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.body(x))


def oracle(head: nn.Linear, phi: Tensor, labels: Tensor) -> Any:
    """Return laplace-torch's full last-layer posterior, in float64."""
    other = Head(nn.Linear(head.in_features, head.out_features).double())
    other.head.load_state_dict({name: value.double() for name, value in head.state_dict().items()})
    fitted = Laplace(
        other, "classification", subset_of_weights="last_layer", hessian_structure="full", backend=CurvlinopsGGN
    )
    fitted.fit(DataLoader(TensorDataset(phi, labels), batch_size=256))
    return fitted


def reorder(matrix: Tensor, outputs: int, size: int) -> Tensor:
    """Reorder laplace-torch's matrix, where all biases come last: here the bias of an output follows its weights."""
    weights = torch.arange(outputs * size).view(outputs, size)
    places = torch.cat([weights, outputs * size + torch.arange(outputs)[:, None]], 1).flatten()
    return matrix[places][:, places]


def compare(seed: int) -> Result:
    """Train one LSTM and compare."""
    began = time.perf_counter()
    train, validation, test = (load("digits", split) for split in ("train", "validation", "test"))
    model = sttau.create_model(train, "lstm", hidden_size=HIDDEN, seed=seed)
    sttau.fit(model, train, validation=validation, updates=UPDATES, seed=seed, progress=False)
    model.eval()
    head = model.head
    phi, seen = (features(model, *as_inputs(model, data, None), readout=None).double() for data in (train, test))
    labels = torch.as_tensor(train.labels)
    fitted = oracle(head, phi, labels)
    extended = torch.cat([phi, torch.ones(len(phi), 1, dtype=torch.float64)], 1)
    mean = torch.cat([head.weight, head.bias[:, None]], 1).detach().double()
    curvature = gauss_newton(extended, output_curvature(extended @ mean.T, False))
    theirs = reorder(fitted.H, *head.weight.shape)
    evidence = log_evidence(curvature, mean.flatten(), PRECISIONS)
    other = torch.stack([fitted.log_marginal_likelihood(prior_precision=value).detach() for value in PRECISIONS])
    chosen = best_precision(curvature, mean.flatten())
    fitted.optimize_prior_precision(method="marglik", pred_type="glm", n_steps=500, lr=0.1)
    best = float(fitted.prior_precision.detach().squeeze())
    fitted.prior_precision = chosen
    torch.manual_seed(seed)
    drawn = fitted(seen, pred_type="nn", link_approx="mc", n_samples=DRAWS)
    ours = sttau.predict(laplace(model, train, members=DRAWS, seed=seed), test).mean.double()
    alone = sttau.predict(model, test)
    ten = sttau.predict(laplace(model, train, members=10, seed=seed), test)
    truth = torch.as_tensor(test.labels)
    values = torch.linalg.eigvalsh(curvature).clamp_min(0)
    metrics = {
        "curvature_difference": float((theirs - curvature).abs().max() / curvature.abs().max()),
        "evidence_difference": float(((other - other[0]) - (evidence - evidence[0])).abs().max()),
        "precision": chosen,
        "precision_oracle": best,
        "probability_difference_mean": float((drawn - ours).abs().mean()),
        "probability_difference_max": float((drawn - ours).abs().max()),
        "train_error": 100 * float((sttau.predict(model, train).label != labels).double().mean()),
        "curvature_trace": float(values.sum()),
        "effective_parameters": float((values / (values + chosen)).sum()),
        "error": 100 * float((alone.label != truth).double().mean()),
        "confidence": 100 * float(alone.confidence.mean()),
        "laplace_error": 100 * float((ours.argmax(1) != truth).double().mean()),
        "laplace_confidence": 100 * float(ours.amax(1).mean()),
        "laplace_10_error": 100 * float((ten.label != truth).double().mean()),
        "laplace_10_confidence": 100 * float(ten.confidence.mean()),
    }
    settings = {"updates": UPDATES, "hidden_size": HIDDEN, "draws": DRAWS, "precisions": PRECISIONS.tolist()}
    return Result("laplace-oracle", "digits", "laplace", None, seed, metrics, settings, time.perf_counter() - began)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # laplace-torch names backends that are not installed
    torch.set_num_threads(1)
    results = [compare(seed) for seed in range(3)]
    for result in results:
        print(result.seed, {name: float(f"{value:.4g}") for name, value in result.metrics.items()})
    write_results(results, OUT)
