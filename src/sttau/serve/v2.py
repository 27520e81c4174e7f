"""The Open Inference Protocol, version 2, over REST."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sttau.inference import Prediction
from sttau.models import Predictor
from sttau.serve.answers import class_names
from sttau.serve.batching import Predicted
from sttau.serve.bodies import Sampling, plain

Shape = Annotated[list[Annotated[int, Field(ge=0, le=1 << 31)]], Field(max_length=4)]


class InputTensor(BaseModel):
    """A tensor of a request."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=200)]
    shape: Shape
    datatype: Annotated[str, Field(max_length=20)]
    data: list[Any]


class OutputName(BaseModel):
    """An output that is wanted."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=200)]


class Parameters(Sampling):
    """Parameters of a request: samples, seed and mode."""

    model_config = ConfigDict(extra="ignore")


class InferBody(BaseModel):
    """Body of an inference request."""

    model_config = ConfigDict(extra="ignore")

    id: Annotated[str | None, Field(max_length=200)] = None
    inputs: Annotated[list[InputTensor], Field(min_length=1, max_length=2)]
    outputs: Annotated[list[OutputName] | None, Field(max_length=20)] = None
    parameters: Parameters = Parameters()


def model_metadata(name: str, version: str, model: Predictor) -> dict[str, Any]:
    """Return the metadata of a model: its inputs and outputs."""
    if model.vocabulary is not None and model.reads_tokens:
        inputs = [{"name": "input", "datatype": "BYTES", "shape": [-1]}]
    elif model.reads_tokens:
        inputs = [{"name": "input", "datatype": "INT64", "shape": [-1, -1]}]
    else:
        inputs = [{"name": "input", "datatype": "FP32", "shape": [-1, -1, model.num_features]}]
    lengths = [] if inputs[0]["datatype"] == "BYTES" else [{"name": "lengths", "datatype": "INT64", "shape": [-1]}]
    wide = [-1, model.num_outputs]
    outputs: list[dict[str, Any]] = [{"name": "mean", "datatype": "FP32", "shape": wide}]
    if model.task == "classification":
        outputs += [{"name": "label", "datatype": "BYTES", "shape": [-1]}]
        flat = ("confidence", "total", "aleatoric", "epistemic")
        outputs += [{"name": each, "datatype": "FP32", "shape": [-1]} for each in flat]
    else:
        outputs += [{"name": each, "datatype": "FP32", "shape": wide} for each in ("total", "aleatoric", "epistemic")]
    outputs += [{"name": each, "datatype": "BOOL", "shape": [-1]} for each in _decided(model)]
    return {
        "name": name, "versions": [version], "platform": "sttau", "inputs": inputs + lengths, "outputs": outputs,
    }  # fmt: skip


def _decided(model: Predictor) -> list[str]:
    if model.decisions is None:
        return []
    thresholds = {"abstain": model.decisions.abstention, "is_ood": model.decisions.ood}
    return [name for name, threshold in thresholds.items() if threshold is not None]


def infer_inputs(body: InferBody, model: Predictor) -> Any:
    """Return the inputs of a request as the other interface takes them: texts, or lists of series.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> tensor = InputTensor(name="input", shape=[1, 2, 1], datatype="FP32", data=[0.5, 1.5])
        >>> infer_inputs(InferBody(inputs=[tensor]), SequenceClassifier(STTauLSTM(1, 4, 2), 2))
        [[[0.5], [1.5]]]
    """
    tensors = {tensor.name: tensor for tensor in body.inputs}
    if "input" not in tensors or set(tensors) - {"input", "lengths"}:
        raise ValueError(f"inputs must be a tensor named input, and maybe one named lengths, got {sorted(tensors)}")
    expected = model_metadata("", "", model)["inputs"][0]["datatype"]
    main = tensors["input"]
    allowed = {"BYTES": ("BYTES", "INT64", "INT32"), "INT64": ("INT64", "INT32"), "FP32": ("FP32", "FP64")}[expected]
    if main.datatype not in allowed:
        raise ValueError(f"input must have datatype {' or '.join(allowed)}, got {main.datatype}")
    if main.datatype == "BYTES":
        texts = _flat(main.data)
        if len(main.shape) != 1 or main.shape[0] != len(texts) or not all(isinstance(text, str) for text in texts):
            raise ValueError("input must be a list of texts with shape [number of texts]")
        return texts
    dims = 2 if main.datatype.startswith("INT") else 3
    values = _numbers(main, dims)
    rows: list[Any] = values.tolist()
    if "lengths" not in tensors:
        return rows
    sizes = _numbers(tensors["lengths"], 1)
    if len(sizes) != len(rows) or bool((sizes < 1).any()) or bool((sizes > main.shape[1]).any()):
        raise ValueError(f"lengths must be {len(rows)} integers from 1 to {main.shape[1]}")
    return [row[: int(size)] for row, size in zip(rows, sizes, strict=True)]


def _flat(data: list[Any]) -> list[Any]:
    """Return nested lists as one; at most four deep."""
    for _ in range(4):
        if not any(isinstance(part, list) for part in data):
            break
        data = [value for part in data for value in (part if isinstance(part, list) else [part])]
    return data


def _numbers(tensor: InputTensor, dims: int) -> np.ndarray[Any, Any]:
    flat = _flat(tensor.data)
    is_whole = tensor.datatype.startswith("INT")
    kinds = (int,) if is_whole else (int, float)
    if len(tensor.shape) != dims or 0 in tensor.shape or int(np.prod(tensor.shape, dtype=object)) != len(flat):
        raise ValueError(f"{tensor.name} must have {dims} dimensions and as many values as its shape says")
    if not all(isinstance(value, kinds) and not isinstance(value, bool) for value in flat):
        raise ValueError(f"data of {tensor.name} must be {'integers' if is_whole else 'numbers'}")
    try:
        return np.array(flat, dtype=np.int64 if is_whole else np.float64).reshape(tensor.shape)
    except OverflowError:
        raise ValueError(f"data of {tensor.name} holds a number that is too large") from None


def infer_answer(name: str, version: str, body: InferBody, model: Predictor, prediction: Predicted) -> dict[str, Any]:
    """Return the response to an inference request: the outputs that were wanted, or all of them."""
    described = model_metadata(name, version, model)["outputs"]
    known = {output["name"]: output for output in described}
    wanted = list(known) if not body.outputs else [output.name for output in body.outputs]
    missing = [each for each in wanted if each not in known]
    if missing:
        raise ValueError(f"there is no output of this name; the outputs are {', '.join(known)}")
    outputs = []
    for each in wanted:
        value = getattr(prediction, each)
        data = value.flatten().tolist()
        if each == "label" and isinstance(prediction, Prediction):
            data = [class_names(model)[number] for number in data]
        outputs.append(known[each] | {"shape": list(value.shape), "data": plain(data)})
    return {"model_name": name, "model_version": version, "id": body.id or "", "outputs": outputs}
