"""From the values of a data set to the input of a recurrent layer: missing values, scaling and patches."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.data import SequenceDataset
from sttau.padding import clear_padding, valid_steps

Missing = Literal["error", "mask", "elapsed"]
#: Channels per feature: its value; whether it was observed; the steps since it was.
_CHANNELS: dict[Missing, int] = {"error": 1, "mask": 2, "elapsed": 3}


class Observed(NamedTuple):
    """The last observation of each feature."""

    value: Tensor  # (batch, time, features), scaled
    age: Tensor  # (batch, time, features), steps since then


class Preprocessing(nn.Module):
    """What a model does with features before its recurrent layer reads them; saved with the model.

    Features are centered and divided by their scale. Missing values (NaN) are replaced by the last value observed, or
    by the mean where there is none, and the layer reads which values were observed. Patches join several steps to one:
    a layer that reads 300 steps as 30 patches of 10 learns much faster and remembers more easily.

    Args:
        num_features: Features per step of the data.
        missing: ``error`` to refuse missing values; ``mask`` to add one channel per feature, 1 where it was observed;
            ``elapsed`` to add the steps since it was observed too, as log(1 + steps).
        patch_size: Steps that are read as one. The last patch of a sequence is filled with zeros, after scaling.

    Example:
        >>> pressure = torch.tensor([[[101300.0], [101400.0], [101500.0]]])
        >>> scaling = Preprocessing.fitted(pressure, patch_size=2)
        >>> scaling
        Preprocessing(1 feature, scaled, patch_size=2)
        >>> features, lengths = scaling(pressure)
        >>> features.shape, features[0, 0].round(decimals=3)
        (torch.Size([1, 2, 2]), tensor([-1.2250,  0.0000]))
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, num_features: int, missing: Missing = "error", patch_size: int = 1) -> None:
        super().__init__()
        if num_features < 1:
            raise ValueError(f"num_features must be at least 1, got {num_features}")
        if missing not in get_args(Missing):
            raise ValueError(f"missing must be one of {', '.join(map(repr, get_args(Missing)))}, got {missing!r}")
        if patch_size < 1:
            raise ValueError(f"patch_size must be at least 1, got {patch_size}")
        self.num_features, self.missing, self.patch_size = num_features, missing, patch_size
        self.register_buffer("offset", torch.zeros(num_features))
        self.register_buffer("scale", torch.ones(num_features))

    @classmethod
    def fitted(
        cls,
        data: SequenceDataset | Tensor,
        lengths: Tensor | None = None,
        *,
        scale: bool = True,
        missing: Missing | None = None,
        patch_size: int = 1,
    ) -> Preprocessing:
        """Return the preprocessing for some training data.

        Args:
            data: Training data, or its inputs (sequences, time, features); NaN is a missing value.
            lengths: (sequences,) valid steps; only with inputs.
            scale: Whether to scale features to mean 0 and standard deviation 1.
            missing: Treatment of missing values; ``mask`` where there are any by default, else ``error``.
            patch_size: Steps that are read as one.
        """
        inputs, lengths = (data.inputs, data.lengths) if isinstance(data, SequenceDataset) else (data, lengths)
        values = inputs.flatten(0, 1) if lengths is None else inputs[valid_steps(inputs, lengths)]
        values = values.to(torch.float64)
        result = cls(inputs.shape[2], missing or ("mask" if bool(values.isnan().any()) else "error"), patch_size)
        if scale:
            count = values.isfinite().sum(0)
            mean = values.nanmean(0).nan_to_num(0)
            spread = (values - mean).square().nanmean(0).sqrt().nan_to_num(0)
            constant = (spread <= 1e-12 * mean.abs()) | (count < 2)
            if bool(constant.any()):
                names = data.feature_names if isinstance(data, SequenceDataset) else ()
                places = constant.nonzero().flatten().tolist()
                which = ", ".join(names[place] if names else str(place) for place in places[:10])
                warnings.warn(f"features {which} are constant in the training data and carry nothing", stacklevel=2)
            result.offset.copy_(mean)
            result.scale.copy_(torch.where(constant, 1.0, spread))
        return result

    @property
    def output_size(self) -> int:
        """Features per step that the layer reads."""
        return self.num_features * _CHANNELS[self.missing] * self.patch_size

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return (batch, patches, output_size) and the valid patches of each sequence."""
        return self.join(self.channels(inputs, lengths), lengths)

    def channels(self, inputs: Tensor, lengths: Tensor | None = None, before: Observed | None = None) -> Tensor:
        """Return scaled features with the channels of missing values, (batch, time, channels); zero padding.

        Args:
            inputs: (batch, time, features).
            lengths: (batch,) valid steps.
            before: What was observed before these steps, of a sequence that is read in pieces.
        """
        if self.missing == "error":
            return clear_padding((inputs - self.offset) / self.scale, lengths)
        observed = self.observe(inputs, before)
        parts = [observed.value, (~inputs.isnan()).to(observed.value)]
        if self.missing == "elapsed":
            parts.append(observed.age.to(observed.value).log1p())
        return clear_padding(torch.cat(parts, dim=-1), lengths)

    def observe(self, inputs: Tensor, before: Observed | None = None) -> Observed:
        """Return the last observation of each feature after every step, scaled; 0, the mean, where there is none."""
        scaled = (inputs - self.offset) / self.scale
        step = torch.arange(1, inputs.shape[1] + 1, device=inputs.device)[:, None]
        seen = torch.where(scaled.isnan(), 0, step).cummax(dim=1).values  # step of the last observation; 0 for none
        last, age = scaled.nan_to_num(0).gather(1, (seen - 1).clamp_min(0)), step - seen
        earlier, waited = (last.new_zeros(()), 0) if before is None else (before.value, before.age)
        return Observed(torch.where(seen > 0, last, earlier), torch.where(seen > 0, age, age + waited))

    def join(self, channels: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Join steps to patches: (batch, time, channels) to (batch, patches, patch_size · channels)."""
        size = self.patch_size
        if size == 1:
            return channels, lengths
        filled = F.pad(channels, (0, 0, 0, -channels.shape[1] % size))
        return filled.unflatten(1, (-1, size)).flatten(2), None if lengths is None else (lengths + size - 1) // size

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct such a preprocessing, except its fitted values."""
        return {"num_features": self.num_features, "missing": self.missing, "patch_size": self.patch_size}

    def extra_repr(self) -> str:
        """Show the number of features, whether they are scaled, and the options that differ from their defaults."""
        scaled = bool((self.offset != 0).any() or (self.scale != 1).any())
        parts = [f"{self.num_features} feature{'s' * (self.num_features > 1)}", "scaled" if scaled else "not scaled"]
        parts += [f"missing={self.missing!r}"] if self.missing != "error" else []
        parts += [f"patch_size={self.patch_size}"] if self.patch_size > 1 else []
        return ", ".join(parts)


class TargetScaling(nn.Module):
    """The scale of a regressor's targets; saved with the model.

    The network predicts standardized targets, and its loss is theirs; predictions are in the units of the data.

    Args:
        num_outputs: Values predicted per sequence.

    Example:
        >>> TargetScaling.fitted(torch.tensor([10.0, 20.0, 30.0])).standardize(torch.tensor([[20.0]]))
        tensor([[0.]])
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.register_buffer("offset", torch.zeros(num_outputs))
        self.register_buffer("scale", torch.ones(num_outputs))

    @classmethod
    def fitted(cls, targets: Tensor) -> TargetScaling:
        """Return the scaling to mean 0 and standard deviation 1 of (sequences,) or (sequences, outputs) targets."""
        targets = targets.reshape(len(targets), -1).to(torch.float64)
        result = cls(targets.shape[1])
        result.offset.copy_(targets.mean(0))
        spread = targets.std(0, correction=0)
        result.scale.copy_(torch.where(spread > 1e-12 * targets.mean(0).abs(), spread, 1.0))
        return result

    def standardize(self, targets: Tensor) -> Tensor:
        """Return targets with mean 0 and standard deviation 1."""
        return (targets - self.offset) / self.scale
