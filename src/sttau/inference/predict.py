"""Predictions with their uncertainty: Monte Carlo over paths, or the exact sum over all of them (paper §2.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast, overload

import torch
from torch import Tensor, nn

from sttau.checks import as_tensor
from sttau.engine import Noise, exact, fingerprint
from sttau.layers import FiniteStateRNN, LayerMode, StochasticRNN
from sttau.models import DeepEnsemble, SequenceClassifier, SequenceModel, SequenceRegressor

Inference = Literal["auto", "soft", "hard", "exact", "deterministic", "sampled"]

_MODES: dict[str, LayerMode] = {
    "soft": "soft",
    "hard": "hard",
    "exact": "exact",
    "deterministic": "deterministic",
    "sampled": "sampled",
}
#: Laws under which two runs differ.
DRAWN: tuple[LayerMode, ...] = ("soft", "hard", "sampled")
_NAMES = {mode: name for name, mode in _MODES.items()}
_CHUNK_NUMBERS = 1 << 25  # about how many numbers a chunk may hold, at least
_RUN_BY_RUN = ("samples", "sample_variance")  # fields with an axis of runs


@dataclass(frozen=True)
class Prediction:
    """Class probabilities of a batch, and what is uncertain about them. Entropies are in bits.

    With ``per_step`` every field has a time axis after the batch; entries beyond a sequence's length repeat its last
    valid step. For a finite-state model whose head gives each state a fixed label, aleatoric is 0 by construction, and
    noise that no model could remove is counted as epistemic (docs/mathematics.md, §5).

    Attributes:
        mean: (batch, classes) predictive distribution p(y | x): the mean over runs, or the exact sum.
        variance: (batch, classes) variance of the class probabilities over runs (over paths, when exact).
        total: (batch,) H[p(y | x)].
        aleatoric: (batch,) expected entropy of a single run, E_ψ H[p(y | ψ, x)].
        inference: which law was used: soft, hard, exact, sampled or deterministic.
        samples: (runs, batch, classes) probabilities of the single runs, if asked for.
        attribution: (batch, time) bits of epistemic uncertainty that each step brought in, for exact inference: the
            increments of I(Y; S_t | x), which never decreases. They sum to ``epistemic`` at the last step.
        num_samples: Number of distributions that ``mean`` averages: samples times ensemble members; 1 when exact.
    """

    mean: Tensor
    variance: Tensor
    total: Tensor
    aleatoric: Tensor
    inference: str
    samples: Tensor | None = None
    attribution: Tensor | None = None
    num_samples: int = 1

    @property
    def epistemic(self) -> Tensor:
        """(batch,) total - aleatoric: the mutual information of label and path. Never negative."""
        return (self.total - self.aleatoric).clamp_min(0)

    @property
    def label(self) -> Tensor:
        """(batch,) the most probable class."""
        return self.mean.argmax(dim=-1)

    @property
    def confidence(self) -> Tensor:
        """(batch,) the probability of the most probable class."""
        return self.mean.amax(dim=-1)


@dataclass(frozen=True)
class RegressionPrediction:
    """Predicted numbers of a batch and their variance, split into its two sources.

    Attributes:
        mean: (batch, outputs).
        aleatoric: (batch, outputs) mean predicted noise of the data; zero without a variance head.
        epistemic: (batch, outputs) variance of the predicted mean over runs (over states, when exact).
        inference: which law was used: soft, hard, exact, sampled or deterministic.
        samples: (runs, batch, outputs) means of the single runs, if asked for.
        sample_variance: (runs, batch, outputs) the noise of the data that each of them predicts; beside ``samples``.
            Together they are the mixture of Gaussians that the prediction is: ``sttau.metrics.quantile(r.samples,
            r.sample_variance, 0.9)``.
    """

    mean: Tensor
    aleatoric: Tensor
    epistemic: Tensor
    inference: str
    samples: Tensor | None = None
    sample_variance: Tensor | None = None

    @property
    def total(self) -> Tensor:
        """(batch, outputs) aleatoric + epistemic, by the law of total variance."""
        return self.aleatoric + self.epistemic

    @property
    def variance(self) -> Tensor:
        """(batch, outputs) the same as ``total``."""
        return self.total


@overload
def predict(
    model: SequenceClassifier,
    inputs: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    inference: Inference = "auto",
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> Prediction: ...
@overload
def predict(
    model: SequenceRegressor,
    inputs: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    inference: Inference = "auto",
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> RegressionPrediction: ...
@overload
def predict(
    model: DeepEnsemble,
    inputs: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    inference: Inference = "auto",
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> Any: ...
def predict(
    model: SequenceClassifier | SequenceRegressor | DeepEnsemble,
    inputs: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    inference: Inference = "auto",
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> Prediction | RegressionPrediction:
    """Predict a batch of sequences, with uncertainty.

    The result depends on the seed and on each sequence alone, not on the batch: it does not change, up to rounding,
    when the batch is split, shuffled, padded or repeated, or read in chunks.

    Args:
        model: a :class:`SequenceClassifier` or :class:`SequenceRegressor`, or an ensemble of them, whose members'
            answers are taken together. Its training flag is left as it was.
        inputs: (batch, time, features), or (batch, time) token ids; a tensor, an array or nested lists.
        lengths: (batch,) valid steps of each padded sequence.
        samples: Monte-Carlo runs, of each member of an ensemble. A model without randomness is run once.
        seed: of the noise.
        inference: ``soft`` (mixtures of states, the paper's), ``hard`` (one state at a time), ``exact`` (the sum over
            all paths; GRU form), ``sampled`` (weights or masks are drawn: ``BayesLSTM``, ``VariationalDropoutLSTM``),
            ``deterministic`` (no noise), or ``auto``: the law the layer was trained under. Soft and hard are different
            models; choose another law than the trained one on purpose.
        per_step: predict after every step, as the sequence is read.
        keep_samples: also return the runs one by one; exact inference has none.
        ids: (batch,) whole numbers that name the sequences for the noise. By default a sequence is named by its
            content, so equal sequences get equal predictions.
        chunk_size: how many rows (sequences × samples) are run at once; chosen to bound memory by default.

    Example:
        >>> from sttau import STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> p = predict(model, torch.randn(4, 10, 8), samples=20)
        >>> p.mean.shape, p.label.shape, bool((p.epistemic >= 0).all())
        (torch.Size([4, 3]), torch.Size([4]), True)
    """
    inputs = as_tensor("inputs", inputs)
    if inputs.is_floating_point() and model.embedding is None:
        inputs = inputs.to(model.head.weight.dtype)  # float64 is NumPy's default, not the caller's wish
    lengths = model.check(inputs, None if lengths is None else as_tensor("lengths", lengths))
    if not isinstance(samples, int) or samples < 1:
        raise ValueError(f"samples must be a whole number, at least 1, got {samples}")
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must be a whole number of 64 bits, got {seed}")
    mode = choose_mode(model, inference)
    batch = len(inputs)
    names = None if ids is None else as_tensor("ids", ids)
    if names is not None:
        if names.is_floating_point():
            raise TypeError(f"ids must be whole numbers, got {names.dtype}")
        if tuple(names.shape) != (batch,):
            raise ValueError(f"ids must have shape ({batch},), one number a sequence, got {tuple(names.shape)}")
        names = names.to(torch.int64)
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")

    runs = samples if mode in DRAWN else 1
    device = model.head.weight.device
    width = numbers_of(model, mode, per_step)
    # Where something is told of every step, sequences are not cut to their lengths.
    uncut = per_step or mode == "exact"
    places: list[Tensor] = []
    parts: list[Any] = []
    with torch.no_grad(), evaluating(model):
        for piece, x, length, chunk in pieces(inputs, lengths, device, width, runs, chunk_size, uncut):
            places.append(piece)
            name = fingerprint(x, length) if names is None else names[piece.to(names.device)].to(device)
            if mode == "exact" and not isinstance(model, DeepEnsemble):
                part = _exact(model, x, length, per_step)
            else:
                outputs = [
                    model(x, length, noise=noise, mode=mode, per_step=per_step)
                    for noise in _noises(name, runs, seed, max(1, chunk // len(piece)), mode)
                ]
                part = _summarise(model, outputs, len(piece), keep_samples)
            parts.append(_hold(part, length) if per_step else part)
    used = "deterministic" if mode is None else _NAMES[mode]
    return _join(model, parts, torch.cat(places).argsort(), used, runs * len(model.members))


def numbers_of(model: SequenceModel, mode: LayerMode | None, per_step: bool = False) -> int:
    """About how many numbers one step of one run takes, of one member."""
    layer = model.layer
    if isinstance(layer, FiniteStateRNN):
        if mode == "exact":
            return 4 * layer.num_states**2
        if layer.num_layers == 1 and not per_step and model.head.weight.is_cuda:
            return layer.num_directions * layer.num_states + int(layer.hidden_size)  # all that its kernels keep is α
    # Where weights or masks are drawn, each run has its own gates, cells and input.
    return int(layer.num_layers) * (10 if mode == "sampled" else 5) * int(layer.hidden_size)


def pieces(
    inputs: Tensor,
    lengths: Tensor | None,
    device: torch.device,
    width: int,
    runs: int,
    chunk_size: int | None = None,
    uncut: bool = False,
) -> Iterator[tuple[Tensor, Tensor, Tensor | None, int]]:
    """Take sequences of like length together, so that little is padding, and few enough that they fit.

    Args:
        inputs: of all sequences.
        lengths: of all.
        device: where they are wanted.
        width: numbers that one step of one run takes.
        runs: over each sequence.
        chunk_size: how many runs over sequences there may be at once; as many as fit by default.
        uncut: leave them in order, and as long as they are.

    Yields:
        Row numbers, on the CPU; these inputs and lengths, on the device; and how many runs may be made at once.
    """
    batch, time = inputs.shape[:2]
    # So many steps of rows; a GPU is asked only where it matters.
    room = (_CHUNK_NUMBERS if batch * runs * time * width <= _CHUNK_NUMBERS else _room(device)) // width
    order = torch.arange(batch)
    if lengths is not None and not uncut:
        order = lengths.cpu().argsort(descending=True, stable=True)
    done = 0
    while done < batch:
        end = time if lengths is None or uncut else max(1, int(lengths[order[done]]))
        chunk = chunk_size or max(1, room // end)
        piece = order[done : done + max(1, chunk // runs)]
        done += len(piece)
        length = None if lengths is None else lengths[piece.to(lengths.device)].to(device)
        yield piece, inputs[piece.to(inputs.device), :end].to(device), length, chunk


def _room(device: torch.device) -> int:
    """About how many numbers a chunk may hold: on a GPU, a part of the memory that is free or kept for use again."""
    if device.type != "cuda":
        return _CHUNK_NUMBERS
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(_CHUNK_NUMBERS, min(64 * _CHUNK_NUMBERS, (torch.cuda.mem_get_info(device)[0] + kept) // 64))


def choose_mode(model: SequenceModel, inference: str) -> LayerMode | None:
    """Return the layer's mode for an inference, None for a layer without states."""
    if inference != "auto" and inference not in _MODES:
        raise ValueError(f"inference must be 'auto', {', '.join(map(repr, _MODES))}, got {inference!r}")
    layer = model.layer
    if not isinstance(layer, StochasticRNN):
        if inference not in ("auto", "deterministic"):
            raise ValueError(
                f"inference={inference!r} needs a finite-state layer; {type(layer).__name__} has no states"
                if inference != "sampled"
                else f"inference='sampled' needs a layer that draws; {type(layer).__name__} has nothing to draw"
            )
        return None
    mode = layer.mode if inference == "auto" else _MODES[inference]
    if mode not in layer.modes:
        raise ValueError(
            f"inference={inference!r} is no law of {type(layer).__name__}; "
            f"choose 'auto' or {' or '.join(repr(_NAMES[mode]) for mode in layer.modes)}"
        )
    if mode == "exact" and isinstance(layer, FiniteStateRNN):
        layer.check_exact()
    return mode


def _noises(names: Tensor, runs: int, seed: int, at_once: int, mode: LayerMode | None) -> Iterator[Noise | None]:
    """Noise for all runs over a chunk of sequences, ``at_once`` runs at a time."""
    if mode not in DRAWN:
        yield None
        return
    for first in range(0, runs, at_once):
        yield Noise.of(names, min(at_once, runs - first), seed, first)


def _summarise(model: SequenceModel, outputs: list[Any], batch: int, keep: bool) -> dict[str, Tensor]:
    """Reduce the runs over one chunk of sequences to the fields of a prediction."""
    if isinstance(model.members[0], SequenceClassifier):
        p = torch.cat([_wide(logits) for logits in outputs]).softmax(dim=-1)
        p = p.reshape(-1, batch, *p.shape[1:])
        part = {"mean": p.mean(0), "variance": p.var(0, correction=0), "aleatoric": entropy(p).mean(0)}
        part["total"] = entropy(part["mean"])
        return part | ({"samples": p.transpose(0, 1)} if keep else {})
    mean = torch.cat([_wide(output.mean) for output in outputs])
    mean = mean.reshape(-1, batch, *mean.shape[1:])
    if outputs[0].variance is None:
        noise = torch.zeros_like(mean)
    else:
        noise = torch.cat([_wide(output.variance) for output in outputs]).reshape(mean.shape)
    part = {"mean": mean.mean(0), "epistemic": mean.var(0, correction=0), "aleatoric": noise.mean(0)}
    return part | ({"samples": mean.transpose(0, 1), "sample_variance": noise.transpose(0, 1)} if keep else {})


def _exact(model: SequenceModel, x: Tensor, lengths: Tensor | None, per_step: bool) -> dict[str, Tensor]:
    """Compute the same fields from the law of the state; every sum over paths is a sum over states."""
    chain = model.chain(x, lengths)
    law = chain.laws if per_step else chain.laws[:, -1]
    if isinstance(model, SequenceRegressor):
        mean, noise = model.state_outputs()
        middle = law @ mean
        return {
            "mean": middle,
            "epistemic": _spread(law, mean, middle),
            "aleatoric": torch.zeros_like(middle) if noise is None else law @ noise,
        }
    outcome = cast(SequenceClassifier, model).state_logits().exp()
    p = law @ outcome
    end = exact.outcome_given_state(chain.matrices, outcome, lengths)
    before = entropy(chain.laws[:, -1] @ outcome)[:, None] - (chain.laws * entropy(end)).sum(-1)
    known = torch.cat([torch.zeros_like(before[:, :1]), before], dim=1).cummax(dim=1).values  # rounding aside
    return {
        "mean": p,
        "variance": _spread(law, outcome, p),
        "total": entropy(p),
        "aleatoric": law @ entropy(outcome),
        "attribution": known.diff(dim=1),
    }


def _spread(law: Tensor, values: Tensor, mean: Tensor) -> Tensor:
    """Return the variance under ``law`` of ``values``, one row a state."""
    return (law[..., None, :] @ (values - mean[..., None, :]).square())[..., 0, :]


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy in bits over the last dimension; 0·log 0 is 0.

    Example:
        >>> entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).tolist()
        [1.0, 0.0]
    """
    nats: Tensor = torch.special.entr(probabilities)
    return nats.sum(-1).clamp_min(0) / math.log(2)


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _hold(part: dict[str, Tensor], lengths: Tensor | None) -> dict[str, Tensor]:
    """Let the last valid step stand for all steps beyond it."""
    if lengths is None:
        return part

    def hold(name: str, value: Tensor) -> Tensor:
        if name == "attribution":
            return value
        axis = 2 if name in _RUN_BY_RUN else 1
        step = torch.arange(value.shape[axis], device=value.device).expand(len(lengths), -1)
        index = torch.minimum(step, lengths[:, None] - 1)
        index = index.reshape(len(lengths), *(1,) * (axis - 1), -1, *(1,) * (value.dim() - axis - 1))
        return value.gather(axis, index.expand_as(value))

    return {name: hold(name, value) for name, value in part.items()}


def _join(
    model: SequenceModel, parts: list[dict[str, Tensor]], places: Tensor, inference: str, num_samples: int
) -> Prediction | RegressionPrediction:
    """Put the chunks together again, each sequence where it stood."""
    whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    whole = {name: value[places.to(value.device)] for name, value in whole.items()}
    whole |= {name: whole[name].transpose(0, 1) for name in _RUN_BY_RUN if name in whole}
    if isinstance(model.members[0], SequenceClassifier):
        return Prediction(**whole, inference=inference, num_samples=num_samples)
    return RegressionPrediction(**whole, inference=inference)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off, and put every module's training flag back whatever happens."""
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag
