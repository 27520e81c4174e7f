"""Predictions while a sequence arrives, element by element, in constant memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor

from sttau.checks import as_integer, as_tensor
from sttau.engine import Noise
from sttau.inference.chunks import in_eval_mode
from sttau.inference.prediction import Prediction, RegressionPrediction
from sttau.inference.summary import join, summarize, summarize_members, summarize_states
from sttau.layers import SAMPLED_MODES, LayerMode, LayerState
from sttau.models import Observed, Predictor, SequenceModel
from sttau.models.steps import separate_draws


@dataclass
class _Member:
    """What one network remembers of its streams."""

    model: SequenceModel
    states: list[LayerState | None]  # state of each call: one, or one per sample where a draw serves all sequences
    distribution: Tensor | None = None  # distribution over states, in exact mode
    patch: Tensor | None = None  # (streams, steps, channels) of the patch that is not complete
    observed: Observed | None = None


class Stream:
    """Sequences that are read as they arrive: a prediction after each element, in constant time and memory.

    The predictions are those of ``predict(model, sequences, per_step=True, ids=ids)``. Several streams are read
    together, as one batch; they begin together.

    Args:
        model: A classifier or regressor, or an ensemble; its layers read in one direction.
        streams: Number of sequences that are read together.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
        mode: Mode of the layers; that of training by default.
        ids: (streams,) integers that identify the sequences for the noise; 0, 1, … by default.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> x = torch.randn(4, 10, 8)
        >>> stream = Stream(model, streams=4)
        >>> for time in range(10):
        ...     p = stream.step(x[:, time])
        >>> from sttau import predict
        >>> torch.allclose(p.mean, predict(model, x, ids=torch.arange(4)).mean, atol=1e-6)
        True
    """

    def __init__(
        self,
        model: Predictor,
        streams: int = 1,
        samples: int = 10,
        seed: int = 0,
        mode: LayerMode | None = None,
        *,
        ids: Any = None,
    ) -> None:
        streams, samples, seed = (
            as_integer("streams", streams, 1),
            as_integer("samples", samples, 1),
            as_integer("seed", seed),
        )
        if model.members[0].layer.bidirectional:
            raise ValueError("a stream needs a layer that reads in one direction: the other has seen the future")
        self.model, self.streams = in_eval_mode(model), streams
        self.mode = model.resolve_mode(mode)
        if self.mode != "exact" and any(getattr(member, "has_fixed_labels", False) for member in model.members):
            raise ValueError("a stream of a model with head='halves' needs mode='exact'")
        self.samples = samples if self.mode in SAMPLED_MODES else 1
        given = torch.arange(streams) if ids is None else as_tensor("ids", ids)
        if tuple(given.shape) != (streams,) or given.is_floating_point():
            raise ValueError(f"ids must be {streams} integers, one per stream, got shape {tuple(given.shape)}")
        self._noise = Noise.of(given.to(model.device, torch.int64), self.samples, seed)
        self.reset()

    def __repr__(self) -> str:
        """The number of streams and of elements read."""
        return f"{type(self).__name__}({self.streams} streams after {self.steps} steps, mode={self.mode!r})"

    def reset(self) -> None:
        """Begin new sequences."""
        self.steps = 0
        self._members = [_Member(member, [None] * self._calls(member)) for member in self.model.members]

    @torch.no_grad()
    def step(self, element: Any) -> Prediction | RegressionPrediction:
        """Read the next element of every stream and return the predictions after it.

        Args:
            element: (streams, features), or (streams,) token ids; without the first axis for one stream. For a model of
                texts also one word, or a list of words, of its vocabulary.
        """
        x = self._check(element)
        if self.mode == "exact":
            parts = [summarize_states(member.model, self._advance_exact(member, x)) for member in self._members]
            part = parts[0] if len(parts) == 1 else summarize_members(parts)
        else:
            noises = self.model.member_noises(self._noise)
            outputs = [self._advance(*pair) for pair in zip(self._members, [x] * len(noises), noises, strict=True)]
            part = summarize(self.model, outputs, self.streams, keep=False)
        self.steps += 1
        order = torch.arange(self.streams)
        return join(self.model, [part], order, self.mode, self.samples * len(self._members))

    def _check(self, element: Any) -> Tensor:
        if isinstance(element, str) or (isinstance(element, list) and element and isinstance(element[0], str)):
            element = self._token_ids([element] if isinstance(element, str) else element)
        x = as_tensor("element", element)
        if self.streams == 1 and x.dim() == (0 if self.model.reads_tokens else 1):
            x = x[None]
        if not self.model.reads_tokens and x.is_floating_point():
            x = x.to(self.model.dtype)
        if len(x) != self.streams:
            raise ValueError(f"element must have one row for each of the {self.streams} streams, got {len(x)}")
        self.model.check_inputs(x[:, None], None)
        return x[:, None].to(self.model.device)

    def _token_ids(self, words: list[str]) -> Tensor:
        vocabulary = self.model.vocabulary
        if vocabulary is None:
            raise ValueError("element is text, but the model has no vocabulary; call model.set_metadata(train)")
        known = {word: place for place, word in enumerate(vocabulary)}
        unknown = known.get("<unk>")
        missing = [word for word in words if word not in known]
        if missing and unknown is None:
            raise ValueError(f"element {missing[0]!r} is not in the vocabulary: {', '.join(vocabulary[:20])}")
        return torch.tensor([known.get(word, unknown) for word in words])

    def _calls(self, member: SequenceModel) -> int:
        return self.samples if member.layer.shares_draws else 1

    def _patch(self, member: _Member, x: Tensor) -> Tensor:
        """The patch as it is known after this element, (streams, 1, width)."""
        model, preprocessing = member.model, member.model.preprocessing
        if preprocessing is None:
            return model.embed(model.prepare(x, None)[0])
        channels = preprocessing.channels(x, before=member.observed).to(model.dtype)
        if preprocessing.missing != "error":
            member.observed = preprocessing.observe(x, member.observed)
        known = channels if member.patch is None else torch.cat([member.patch, channels], dim=1)
        member.patch = None if known.shape[1] == preprocessing.patch_size else known
        return preprocessing.join(known, None)[0]

    def _advance(self, member: _Member, x: Tensor, noise: Noise | None) -> Any:
        """The output of a network after this element, (samples · streams) rows."""
        model = member.model
        patch = self._patch(member, x)
        noise = None if noise is None or self.mode == "deterministic" else noise
        noise = None if noise is None else replace(noise, first_step=self.steps // model.patch_size)
        read = []
        for number, own in enumerate(separate_draws(model.layer, noise, self.streams)):
            rows = patch if own is None else patch.repeat(len(own.sample) // self.streams, 1, 1)
            output, after = model.layer.advance(rows, member.states[number], noise=own, mode=self.mode)
            read.append(output[:, 0])
            if member.patch is None:
                member.states[number] = after
        return model.output(torch.cat(read))

    def _advance_exact(self, member: _Member, x: Tensor) -> Tensor:
        """The distribution of the state after this element, (streams, k)."""
        layer, patch = member.model.finite_state_layer, self._patch(member, x)
        if member.distribution is None:
            after = layer.first_distribution(patch[:, 0])
        else:
            after = (member.distribution[:, None] @ layer.transition_matrices(patch[:, 0]))[:, 0]
        if member.patch is None:
            member.distribution = after
        return after

    # -- saving ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Return what the streams remember, as tensors; :meth:`load_state_dict` continues from it."""
        tensors = {"steps": torch.tensor(self.steps), "noise": self._identity()}
        for place, member in enumerate(self._members):
            named: dict[str, Tensor | None] = {"distribution": member.distribution, "patch": member.patch}
            for number, state in enumerate(member.states):
                named |= {} if state is None else {f"hidden.{number}": state.hidden, f"memory.{number}": state.memory}
            named |= {} if member.observed is None else dict(zip(("value", "age"), member.observed, strict=True))
            tensors |= {f"{place}.{name}": value.clone() for name, value in named.items() if value is not None}
        return tensors

    def _identity(self) -> Tensor:
        """What the draws depend on, and the mode, as integers."""
        mode, noise = get_args(LayerMode).index(self.mode), self._noise
        return torch.cat([torch.tensor([mode]), noise.seed.view(1).cpu(), noise.sample.cpu(), noise.sequence.cpu()])

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Continue from what :meth:`state_dict` returned, of a stream with the same model and arguments."""
        if "noise" in tensors and not torch.equal(tensors["noise"].cpu(), self._identity()):
            raise ValueError("the state is of a stream with other arguments: streams, samples, seed, ids or mode")
        self.reset()
        self.steps = int(tensors["steps"])
        for place, member in enumerate(self._members):
            own = {
                name.removeprefix(f"{place}."): value.to(self.model.device)
                for name, value in tensors.items()
                if name.startswith(f"{place}.")
            }
            member.distribution, member.patch = own.get("distribution"), own.get("patch")
            member.observed = Observed(own["value"], own["age"]) if "value" in own else None
            for number in range(len(member.states)):
                hidden = own.get(f"hidden.{number}")
                if hidden is not None:
                    member.states[number] = LayerState(hidden, own.get(f"memory.{number}"))
