"""Models as ONNX files: preprocessing, network, Monte Carlo samples, calibration and thresholds in one graph."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, cast

import torch

from sttau.checks import as_integer
from sttau.export.draws import Draws
from sttau.export.graph import Graph, Value
from sttau.export.layers import Batch, find_form, last_distribution
from sttau.files import write_atomically
from sttau.inference.chunks import in_eval_mode
from sttau.layers import SAMPLED_MODES, LayerMode
from sttau.models import Predictor, Preprocessing, SequenceClassifier, SequenceModel, SequenceRegressor
from sttau.models.ensemble import seed_offset

_TINY = float(torch.finfo(torch.float32).tiny)


@torch.no_grad()
def to_onnx(
    model: Predictor, path: str | os.PathLike[str], *, samples: int = 10, mode: LayerMode | None = None
) -> Path:
    """Write a model as an ONNX file that computes what :func:`sttau.predict` does, in float32.

    The number of sequences, steps and samples is free. Inputs of the graph:

    - ``inputs``, (batch, time, features) float32 or (batch, time) int64 token ids,
    - ``lengths``, (batch,) int64 valid steps,
    - for a mode that draws: ``ids``, (batch,) int64 that identify the sequences, and optionally ``samples`` and
      ``seed``, int64 scalars. The draws are those of ``sttau.predict(model, …, samples, seed, ids=ids)``.

    Outputs are named as the fields of a prediction: ``mean``, ``total`` (of a classifier), ``aleatoric``,
    ``epistemic``, and ``abstain`` and ``is_ood`` where the model has these thresholds. The file's metadata holds the
    names of classes and features and the vocabulary as JSON.

    Args:
        model: A classifier or regressor, or an ensemble.
        path: File to write.
        samples: Default number of Monte Carlo samples per member.
        mode: Mode of the layers, as in ``predict``; their own by default.

    Returns:
        The path written.

    Example:
        >>> import tempfile, pytest
        >>> onnxruntime = pytest.importorskip("onnxruntime")
        >>> import numpy as np
        >>> from sttau import STTauLSTM, predict
        >>> model, x = SequenceClassifier(STTauLSTM(2, 8, num_states=4), 3), torch.randn(5, 7, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     session = onnxruntime.InferenceSession(to_onnx(model, f"{folder}/model.onnx"))
        >>> given = {"inputs": x.numpy(), "lengths": np.full(5, 7), "ids": np.arange(5), "seed": np.array(3)}
        >>> (mean,) = session.run(["mean"], given)
        >>> bool(np.abs(mean - predict(model, x, seed=3, ids=torch.arange(5)).mean.numpy()).max() < 1e-5)
        True
    """
    model, resolved = in_eval_mode(model), model.resolve_mode(mode)
    default = as_integer("samples", samples, 1)
    for member in model.members:
        find_form(member.layer)  # an error before anything is written
    g = Graph()
    if model.reads_tokens:
        inputs = g.input("inputs", "int64", ["batch", "time"])
    else:
        inputs = g.input("inputs", "float32", ["batch", "time", model.num_features])
    lengths = g.input("lengths", "int64", ["batch"])
    draws = None
    if resolved in SAMPLED_MODES:
        ids = g.input("ids", "int64", ["batch"])
        count, seed = g.input("samples", "int64", [], default), g.input("seed", "int64", [], 0)
        draws = Draws(g, seed, g.range(count), ids)
    parts = []
    for number, member in enumerate(model.members):
        own = None if draws is None else draws.for_member(seed_offset(number))
        parts.append(_member(g, member, inputs, lengths, own, resolved, alone=len(model.members) == 1))
    if len(parts) == 1 and resolved == "exact":
        fields = parts[0]
    else:
        whole = {name: g.op("Concat", *(part[name] for part in parts), axis=0) for name in parts[0]}
        fields = _summary(g, whole, model)
    for name, value in (fields | _decided(g, fields, model)).items():
        wide = name in ("mean", "variance") or (model.task == "regression" and name in ("aleatoric", "epistemic"))
        g.output(name, value, ["batch", model.num_outputs] if wide else ["batch"])
    described = {name: json.dumps(value) for name, value in _description(model, resolved).items()}
    return write_atomically(path, g.model(described).SerializeToString())


def _member(
    g: Graph, model: SequenceModel, inputs: Value, lengths: Value, draws: Draws | None, mode: str, alone: bool
) -> dict[str, Value]:
    """The outputs of a network: (samples, batch, ·); or in exact mode, of a network alone, the fields themselves."""
    batch = _read(g, model, inputs, lengths, draws)
    if mode == "exact":
        return _exact(g, model, last_distribution(model.finite_state_layer, batch), alone)
    fixed = isinstance(model, SequenceClassifier) and model.has_fixed_labels
    read = find_form(model.layer)(model.layer, batch, mode, transitions=fixed).last()
    outputs = read @ g.constant(model.head.weight.T)
    outputs = outputs if model.head.bias is None else outputs + g.constant(model.head.bias)
    if isinstance(model, SequenceClassifier):
        if fixed:
            outputs = g.op("Log", g.op("Max", outputs, _TINY))
        return {"p": g.op("Softmax", outputs / model.logit_temperature, axis=-1)}
    regressor = cast(SequenceRegressor, model)
    mean, raw = g.split(outputs, 2) if regressor.variance else (outputs, outputs)
    noise = g.op("Softplus", raw) + 1e-6 if regressor.variance else mean * 0.0
    if regressor.target_scaling is not None:
        offset, scale = (
            g.constant(value) for value in (regressor.target_scaling.offset, regressor.target_scaling.scale)
        )
        mean, noise = mean * scale + offset, noise * scale * scale
    return {"mean": mean, "noise": noise}


def _exact(g: Graph, model: SequenceModel, pi: Value, alone: bool) -> dict[str, Value]:
    """The fields of exact inference, from the distribution of the state; with an axis of members in an ensemble."""
    if isinstance(model, SequenceClassifier):
        outcome = model.state_logits().exp()
        mean = pi @ g.constant(outcome)
        entropy = torch.special.entr(outcome).sum(-1) / math.log(2)
        aleatoric = g.squeeze(pi @ g.constant(entropy[:, None]), 1)
        if alone:
            return _uncertainty(g, mean, aleatoric)
        return {"p": g.unsqueeze(mean, 0), "aleatoric": g.unsqueeze(aleatoric, 0)}
    state_mean, state_noise = cast(SequenceRegressor, model).state_outputs()
    mean = pi @ g.constant(state_mean)
    apart = g.constant(state_mean) - g.unsqueeze(mean, 1)  # (batch, k, outputs)
    spread = g.squeeze(g.unsqueeze(pi, 1) @ (apart * apart), 1)
    noise = mean * 0.0 if state_noise is None else pi @ g.constant(state_noise)
    if alone:
        return {"mean": mean, "aleatoric": noise, "epistemic": spread}
    return {name: g.unsqueeze(value, 0) for name, value in (("mean", mean), ("noise", noise), ("spread", spread))}


def _summary(g: Graph, outputs: dict[str, Value], model: Predictor) -> dict[str, Value]:
    """The fields of a prediction, from (samples, batch, ·)."""
    if model.task == "classification":
        p = outputs["p"]
        aleatoric = outputs["aleatoric"] if "aleatoric" in outputs else _entropy(g, p)
        return _uncertainty(g, g.mean(p, 0), g.mean(aleatoric, 0))
    mean = g.mean(outputs["mean"], 0)
    apart = outputs["mean"] - mean
    epistemic = apart * apart + outputs["spread"] if "spread" in outputs else apart * apart
    return {"mean": mean, "aleatoric": g.mean(outputs["noise"], 0), "epistemic": g.mean(epistemic, 0)}


def _uncertainty(g: Graph, mean: Value, aleatoric: Value) -> dict[str, Value]:
    total = _entropy(g, mean)
    return {"mean": mean, "total": total, "aleatoric": aleatoric, "epistemic": g.op("Relu", total - aleatoric)}


def _entropy(g: Graph, p: Value) -> Value:
    """In bits, over the last axis."""
    return g.op("Relu", g.sum(p * g.op("Log", g.op("Max", p, _TINY)), -1) * (-1 / math.log(2)))


def _decided(g: Graph, fields: dict[str, Value], model: Predictor) -> dict[str, Value]:
    """Whether predictions abstain and are OOD, where the model has thresholds."""
    if model.decisions is None:
        return {}
    if model.task == "classification":
        best = g.op("ReduceMax", fields["mean"], g.constant([-1], "int64"), keepdims=0)
        scores = {"abstain": g.op("Neg", best) + 1.0, "is_ood": fields["total"]}
    else:
        spread = {"abstain": fields["aleatoric"] + fields["epistemic"], "is_ood": fields["epistemic"]}
        scores = {name: g.mean(g.op("Sqrt", value), -1) for name, value in spread.items()}
    thresholds = {"abstain": model.decisions.abstention, "is_ood": model.decisions.ood}
    largest = float(torch.finfo(torch.float32).max)
    return {
        name: scores[name] > min(threshold.value, largest)
        for name, threshold in thresholds.items()
        if threshold is not None
    }


# -- reading ---------------------------------------------------------------------------------------------------------


def _read(g: Graph, model: SequenceModel, inputs: Value, lengths: Value, draws: Draws | None) -> Batch:
    """The batch as the layer reads it, with time in front."""
    x = inputs
    if model.embedding is not None:
        x = g.op("Gather", g.constant(model.embedding.weight), inputs, kind="float32", axis=0)
    elif model.preprocessing is not None:
        x, lengths = _preprocess(g, model.preprocessing, inputs, lengths)
    steps = g.range(g.size(x, 1))
    valid = g.unsqueeze(steps, 1, 2) < g.unsqueeze(lengths, 0, 2)
    x = g.op("Transpose", x, perm=[1, 0, 2])
    return Batch(g, g.unsqueeze(g.where(valid, x, 0.0), 1), valid, steps, draws)


def _preprocess(g: Graph, preprocessing: Preprocessing, inputs: Value, lengths: Value) -> tuple[Value, Value]:
    """Scaling, missing values and patches; as :class:`sttau.models.Preprocessing`."""
    x = (inputs - g.constant(preprocessing.offset)) / g.constant(preprocessing.scale)
    if preprocessing.missing != "error":
        x = _observe(g, x, preprocessing.num_features, elapsed=preprocessing.missing == "elapsed")
    size = preprocessing.patch_size
    if size == 1:
        return x, lengths
    time = g.size(x, 1)
    inside = g.unsqueeze(g.range(time), 0, 2) < g.unsqueeze(lengths, 1, 2)
    x = g.where(inside, x, 0.0)
    missing = (time + (size - 1)) / size * size - time
    x = g.op("Pad", x, g.sizes(0, 0, 0, 0, missing, 0), g.constant(0.0))
    x = g.reshape(x, 0, -1, preprocessing.output_size)
    return x, (lengths + (size - 1)) / size


def _observe(g: Graph, x: Value, size: int, elapsed: bool) -> Value:
    """The last value observed of each feature, whether it was observed now, and the steps since then."""
    features = g.op("Transpose", x, perm=[1, 0, 2])
    nothing = g.expand(g.constant([[0.0] * size]), g.size(x, 0), 1)

    def step(carried: list[Value], given: list[Value]) -> tuple[list[Value], list[Value]]:
        absent = g.op("IsNaN", given[0], kind="bool")
        value = g.where(absent, carried[0], given[0])
        age = g.where(absent, carried[1] + 1.0, 0.0)
        return [value, age], [value, g.where(absent, 0.0, 1.0), age]

    _, (value, seen, age) = g.scan(step, [nothing, nothing], [features], outputs=3)
    parts = [value, seen, *([g.op("Log", age + 1.0)] if elapsed else [])]
    return g.op("Transpose", g.op("Concat", *parts, axis=-1), perm=[1, 0, 2])


def _description(model: Predictor, mode: str) -> dict[str, Any]:
    """What a program that reads the file may want to know."""
    known: dict[str, Any] = {
        "task": model.task,
        "mode": mode,
        "class_names": model.class_names,
        "feature_names": model.feature_names,
        "vocabulary": model.vocabulary,
    }
    return {f"sttau.{name}": value for name, value in known.items() if value}
