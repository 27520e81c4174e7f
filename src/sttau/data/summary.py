"""What a data set holds, in a few lines of text."""

from __future__ import annotations

import numpy as np
import torch

from sttau.data.dataset import SequenceDataset
from sttau.padding import valid_steps

_MOST_FEATURES, _MOST_CLASSES = 8, 12


def summarize(data: SequenceDataset) -> str:
    """Return what a data set holds: sizes, layout, features with ranges, missing values, target, remarks."""
    lines = [_size(data), *_layout(data), *_features(data), _target(data), *data.remarks]
    return "\n  ".join(lines)


def _size(data: SequenceDataset) -> str:
    what = "series" if data.inputs.ndim == 3 else "sequences"
    steps = "tokens" if data.inputs.ndim == 2 else "steps"
    if not len(data):
        return f"{data.name}, {data.split}: no {what}"
    low, high = (int(length) for length in data.lengths.aminmax())
    span = f"{low:,} {steps}" if low == high else f"{low:,} to {high:,} {steps}"
    if low != high:
        span += f" (median {float(np.median(data.lengths.numpy())):g})"
    rows = f", {int(data.lengths.sum()):,} rows" if data.schema is not None and data.schema.layout == "long" else ""
    return f"{data.name}, {data.split}: {len(data):,} {what} of {span}{rows}"


def _layout(data: SequenceDataset) -> list[str]:
    if data.schema is None:
        return []
    roles = [f"{role}: {name}" for role, name in data.schema.roles.items() if role != "target"]
    return ["; ".join([f"layout: {data.schema.layout}", *roles])]


def _features(data: SequenceDataset) -> list[str]:
    if data.inputs.ndim == 2:
        return [] if data.vocabulary is None else [f"vocabulary: {len(data.vocabulary):,} tokens"]
    count = data.inputs.shape[2]
    valid = valid_steps(data.inputs, data.lengths)
    shown, gaps, total = [], 0, int(data.lengths.sum())
    for feature in range(count):
        values = data.inputs[:, :, feature][valid]
        missing = int(values.isnan().sum())
        gaps += missing
        if feature < _MOST_FEATURES:
            name = data.feature_names[feature] if data.feature_names else f"feature {feature + 1}"
            known = values[~values.isnan()]
            extent = "all missing" if not len(known) else " to ".join(f"{float(v):.4g}" for v in known.aminmax())
            shown.append(f"{name} {extent}" + (f" ({missing / total:.1%} missing)" if missing else ""))
    more = f" and {count - _MOST_FEATURES:,} more" if count > _MOST_FEATURES else ""
    lines = [f"features: {', '.join(shown)}{more}"]
    return [*lines, f"missing: {gaps / max(1, total * count):.1%} of the values"] if gaps else lines


def _target(data: SequenceDataset) -> str:
    name = f"{data.schema.target}, " if data.schema is not None and data.schema.target else ""
    if not data.class_names:
        known = data.labels[~data.labels.isnan()]
        extent = "not known" if not known.numel() else " to ".join(f"{float(v):.4g}" for v in known.aminmax())
        unknown = len(data.labels) - len(known)
        return f"target: {name}regression, {extent}" + (f" ({unknown:,} not known)" if unknown and len(known) else "")
    counts = torch.bincount(data.labels[data.labels >= 0], minlength=len(data.class_names)).tolist()
    pairs = [f"{label} {count:,}" for label, count in zip(data.class_names, counts, strict=True)]
    if int((data.labels < 0).sum()):
        pairs.append(f"not known {int((data.labels < 0).sum()):,}")
    shown = ", ".join(pairs[:_MOST_CLASSES]) + (
        f" and {len(pairs) - _MOST_CLASSES} more" * (len(pairs) > _MOST_CLASSES)
    )
    return f"target: {name}{len(data.class_names):,} classes: {shown}"
