"""Predictions and models as JSON values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.engine import Noise, fingerprint
from sttau.inference.chunks import in_eval_mode
from sttau.layers import SAMPLED_MODES
from sttau.models import Predictor, SequenceModel
from sttau.predictions import prediction_rows
from sttau.serve.batching import Job, Predicted
from sttau.serve.bodies import plain
from sttau.serve.registry import Served

_MOST_TOKENS = 200  # of a vocabulary that is listed


def describe_model(served: Served) -> dict[str, Any]:
    """Return what a client needs to know about a model."""
    model = served.model
    first = model.members[0]
    decisions = model.decisions
    vocabulary = model.vocabulary or ()
    language = bool(vocabulary) and vocabulary[0] == "^"
    return plain(
        {
            "name": served.name,
            "version": served.version,
            "loaded": round(served.loaded, 3),
            "error": served.error or None,
            "task": model.task,
            "reads": ("strings" if language else "text" if vocabulary else "token ids")
            if model.reads_tokens
            else "series",
            "features": model.num_features,
            "feature_names": list(model.feature_names),
            "class_names": class_names(model),
            "outputs": model.num_outputs,
            "vocabulary": list(vocabulary[:_MOST_TOKENS]),
            "vocabulary_size": model.num_tokens,
            "mode": model.resolve_mode(None),
            "states": first.layer.num_states,
            "streams": not first.layer.bidirectional,
            "automaton": has_automaton(model),
            "layer": type(first.layer).__name__,
            "members": len(model.members),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "has_examples": served.examples_path is not None,
            "reads_files": model.schema is not None,
            "columns": None if model.schema is None else model.schema.roles,
            "decisions": None
            if decisions is None
            else {
                "abstention": None if decisions.abstention is None else vars_of(decisions.abstention),
                "ood": None if decisions.ood is None else vars_of(decisions.ood),
            },
        }
    )


def vars_of(threshold: Any) -> dict[str, Any]:
    """Return the fields of a threshold."""
    return {name: getattr(threshold, name) for name in ("value", "goal", "wanted", "coverage")}


def has_automaton(model: Predictor) -> bool:
    """Whether a model over a finite alphabet is an automaton: a classifier with an embedding and a finite-state GRU."""
    if len(model.members) > 1 or not model.vocabulary or not model.reads_tokens or model.task != "classification":
        return False
    try:
        model.members[0].layer.check_exact()
    except ValueError:
        return False
    return True


def class_names(model: Predictor) -> list[str]:
    """Return the names of the classes; numbers where they have none."""
    if model.task != "classification":
        return []
    return list(model.class_names) or [str(number) for number in range(model.num_outputs)]


def answer(served: Served, job: Job, prediction: Predicted, level: float) -> dict[str, Any]:
    """Return a prediction as the body of a response."""
    head = {
        "model": served.name,
        "version": served.version,
        "mode": prediction.mode,
        "samples": prediction.num_samples,
    }
    names = [str(number) for number in range(len(prediction))]
    if not job.per_step:
        return head | {"predictions": plain(prediction_rows(prediction, names, level))}
    return head | {"predictions": [_steps(job, prediction, row) for row in range(len(prediction))]}


def _steps(job: Job, prediction: Predicted, row: int) -> dict[str, Any]:
    """Return the predictions of a sequence after every step."""
    length = int(job.lengths[row])
    values = {name: getattr(prediction, name)[row, :length] for name in ("mean", "total", "aleatoric", "epistemic")}
    found: dict[str, Any] = {"id": str(row), "steps": length}
    found |= {name: _rounded(value) for name, value in values.items()}
    attribution = getattr(prediction, "attribution", None)
    if attribution is not None:
        found["attribution"] = _rounded(attribution[row, :length])
    states = state_shares(job, row)
    if states is not None:
        found["states"] = _rounded(states[:length])
    return found


def _rounded(values: Tensor) -> Any:
    return plain((values.double() * 1e6).round().div(1e6))


def state_shares(job: Job, row: int) -> Tensor | None:
    """Return the share of each state after each step of a sequence, (time, k); None for a layer without states.

    In exact mode it is the distribution of the state, else the mean of α over samples.
    """
    model, length = job.model, int(job.lengths[row])
    if len(model.members) > 1 or model.members[0].layer.num_states is None:
        return None
    network: SequenceModel = in_eval_mode(model.members[0])
    mode = network.resolve_mode(job.mode)
    x, lengths = job.inputs[row : row + 1, :length], torch.tensor([length])
    with torch.no_grad():
        if mode == "exact":
            return network.state_distributions(x, lengths)[0]
        samples = job.samples if mode in SAMPLED_MODES else 1
        noise = Noise.of(fingerprint(x, lengths), samples, job.seed) if mode in SAMPLED_MODES else None
        prepared, patches = network.prepare(x, lengths)
        alpha = network.finite_state_layer.transitions(network.embed(prepared), patches, noise=noise, mode=mode)
        return alpha.mean(0).repeat_interleave(network.patch_size, dim=0)[:length]
