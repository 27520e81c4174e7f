"""A single network: embedding or features, a recurrent layer, a head."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau.checks import as_integer, check_rate
from sttau.data import Described
from sttau.engine import Noise, Readout, path_sum
from sttau.layers import LAYERS, FiniteStateRNN, LayerMode, RecurrentLayer, as_layer
from sttau.models.criterion import Criterion, weighted_mean
from sttau.models.hooks import is_changed
from sttau.models.metadata import Metadata
from sttau.models.predictor import Predictor
from sttau.models.preprocessing import Preprocessing
from sttau.models.steps import features_per_step, partial_patches
from sttau.padding import clear_padding, repeat_last_step

UNKNOWN = 1  # the id of "<unk>" in every vocabulary made by ``sttau.data``


class Chain(NamedTuple):
    """A batch of sequences as Markov chains over the layer's states: the input of exact inference."""

    first: Tensor  # (batch, k): π_1
    table: Tensor  # (batch, time - 1, k, k): A_2 … A_T; or (n, k, k), a matrix for each of n tokens
    places: Tensor | None  # (batch, time - 1): numbers of the matrices in such a table
    distributions: Tensor  # (batch, time, k): π_t

    @property
    def matrices(self) -> Tensor:
        """(batch, time - 1, k, k): A_2 … A_T."""
        return path_sum.look_up(self.table, self.places)


class SequenceModel(Predictor):
    """One network: embedding or features, a recurrent layer, a head.

    Attributes:
        criterion: Loss of a row that replaces the model's own; set by ``fit`` for the time of training.
    """

    def __init__(
        self,
        layer: nn.Module,
        outputs: int,
        embedding: nn.Embedding | None = None,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        paths: int = 1,
        input_noise: float = 0.0,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        super().__init__()
        for name, rate in (("dropout", dropout), ("word_dropout", word_dropout)):
            check_rate(name, rate)
        paths = as_integer("paths", paths, 1)
        if word_dropout and embedding is None:
            raise ValueError("word_dropout needs an embedding: it replaces tokens by the unknown token")
        if not (input_noise >= 0 and math.isfinite(input_noise)):
            raise ValueError(f"input_noise must be a standard deviation, 0 or more, got {input_noise}")
        if input_noise and embedding is not None:
            raise ValueError("input_noise is for features; for token ids use word_dropout")
        self.layer: RecurrentLayer = as_layer(layer)
        if embedding is not None and embedding.embedding_dim != self.layer.input_size:
            raise ValueError(
                f"embedding has {embedding.embedding_dim} dimensions, but the layer's input_size is "
                f"{self.layer.input_size}"
            )
        if preprocessing is not None and embedding is not None:
            raise ValueError("preprocessing is for features; token ids are embedded as they are")
        if preprocessing is not None and preprocessing.output_size != self.layer.input_size:
            raise ValueError(
                f"preprocessing gives {preprocessing.output_size} features per step, but the layer's input_size is "
                f"{self.layer.input_size}; construct it with preprocessing.output_size"
            )
        if embedding is not None and embedding.max_norm is not None:
            raise ValueError("embedding with max_norm is not supported: it changes its weights in the forward pass")
        self._metadata = Metadata()
        self.criterion: Criterion | None = None
        self.dropout, self.word_dropout = float(dropout), float(word_dropout)
        self.paths, self.input_noise = paths, float(input_noise)
        self.embedding = embedding
        self.preprocessing = None if preprocessing is None else preprocessing.to(self.layer.device)
        self.head: nn.Linear = nn.Linear(
            self.layer.output_size, outputs, device=self.layer.device, dtype=self.layer.dtype
        )

    @property
    def members(self) -> tuple[SequenceModel, ...]:
        """The model itself."""
        return (self,)

    @property
    def finite_state_layer(self) -> FiniteStateRNN:
        """The layer, where it has states; an error that says so where it has none."""
        if not isinstance(self.layer, FiniteStateRNN):
            raise ValueError(f"this needs a finite-state layer, such as STTauGRU; {self.layer.kind} has no states")
        return self.layer

    @property
    def patch_size(self) -> int:
        """Steps that the layer reads as one."""
        return 1 if self.preprocessing is None else self.preprocessing.patch_size

    def set_metadata(self, data: Described) -> None:
        """Keep the names of classes, features and columns and the vocabulary of the data; they are saved with it.

        Other data can then be read in the same way: ``sttau.data.read(path, like=model)``, or
        ``sttau.data.encode(texts, model.vocabulary)``.

        Example:
            >>> from sttau import SequenceClassifier
            >>> from sttau.data import load
            >>> model = SequenceClassifier(nn.LSTM(4, 8), num_classes=2, embedding=nn.Embedding(3, 4))
            >>> model.set_metadata(load("tomita1", "train"))
            >>> model.class_names, model.vocabulary
            (('reject', 'accept'), ('^', '0', '1'))
        """
        for what, names, size in (
            ("vocabulary", data.vocabulary, self.num_tokens),
            ("feature_names", data.feature_names, self.num_features),
            ("class_names", data.class_names, self.num_outputs if self.task == "classification" else None),
        ):
            if names and len(names) != size:
                raise ValueError(f"{what} of the data has {len(names)} entries, but the model has {size or 'none'}")
        vocabulary = None if data.vocabulary is None else tuple(data.vocabulary)
        names, features = tuple(data.class_names), tuple(data.feature_names)
        notes = getattr(data, "notes", {}) or self.notes  # a file's, or those of this model's training
        self._metadata = Metadata(names, features, vocabulary, data.schema, notes)

    def penalty(self, sequences: int) -> Tensor | None:
        """Return the KL divergence of a layer with a distribution over its weights, per sequence; else None."""
        divergence = self.layer.kl_divergence()
        return None if divergence is None else divergence / sequences

    # -- forward -----------------------------------------------------------------------------------------------------

    def prepare(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the batch as the layer reads it: int64 token ids or floats, augmented in training, zero padding."""
        inputs, lengths = self.channels(inputs, lengths)
        return (inputs, lengths) if self.preprocessing is None else self.preprocessing.join(inputs, lengths)

    def channels(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the batch step by step, before steps are joined to patches."""
        if self.preprocessing is not None:
            inputs = self.preprocessing.channels(inputs, lengths)
        inputs = inputs.to(torch.int64 if self.reads_tokens else self.dtype)
        if self.training and self.word_dropout:
            inputs = torch.where(torch.rand(inputs.shape, device=inputs.device) < self.word_dropout, UNKNOWN, inputs)
        if self.training and self.input_noise:
            inputs = inputs + self.input_noise * torch.randn_like(inputs)
        return clear_padding(inputs, lengths), None if lengths is None else lengths.to(inputs.device)

    def embed(self, inputs: Tensor) -> Tensor:
        """Return features, or the vectors of token ids with dropout in training."""
        return inputs if self.embedding is None else F.dropout(self.embedding(inputs), self.dropout, self.training)

    def features(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        per_step: bool = False,
        readout: Readout | None = None,
    ) -> Tensor:
        """Return what the head reads: (rows, directions · d), or (rows, time, directions · d) with ``per_step``.

        Args:
            inputs: (batch, time, features), or (batch, time) token ids.
            lengths: (batch,) valid steps.
            noise: Noise of the draws.
            mode: Mode of the layer.
            per_step: Whether to return the output of every step, not of the last valid one alone.
            readout: Output of a finite-state layer to read, ``state`` or ``cell``; its own by default.
        """
        if per_step and self.layer.bidirectional:
            raise ValueError("per_step needs a layer that reads in one direction: the other has seen the future")
        if per_step and self.patch_size > 1:
            inputs, lengths = self.channels(inputs, lengths)
            read = features_per_step(
                self.layer, inputs, lengths, self.patch_size, noise=noise, mode=mode, readout=readout
            )
            return F.dropout(read, self.dropout, self.training)
        inputs, lengths = self.prepare(inputs, lengths)
        table = self._embedding_table()
        outputs = self.layer.features(
            inputs if table is not None else self.embed(inputs),
            lengths,
            noise=noise,
            mode=mode,
            steps="all" if per_step else "last",
            embedding=table,
            readout=readout,
        )
        return F.dropout(outputs if per_step else outputs.squeeze(1), self.dropout, self.training)

    def hidden_states(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
    ) -> Tensor:
        """Return the output of the layer after every step, (rows, time, d); the mean state in exact mode."""
        lengths = self.check_inputs(inputs, lengths)
        return self.features(inputs, lengths, noise=noise, mode=mode, per_step=True)

    def _embedding_table(self) -> Tensor | None:
        """The embedding's vectors, where looking them up is all it does."""
        embedding = self.embedding
        if self.training and self.dropout:
            return None
        if type(embedding) is not nn.Embedding or embedding.scale_grad_by_freq or embedding.sparse:
            return None
        if is_changed(embedding):
            return None
        if embedding.padding_idx is not None and torch.is_grad_enabled():  # its vector must stay as it is
            return None
        return embedding.weight

    def chain(self, inputs: Tensor, lengths: Tensor | None = None) -> Chain:
        """Return the Markov chains that the sequences drive (GRU form; docs/mathematics.md, §4).

        With an embedding, the matrices are computed once per distinct token, unless it has hooks, which may return
        another vector for each step. Dropout drops the same components of a token's vector wherever it occurs in the
        batch.
        """
        self.layer.check_exact()
        layer = self.finite_state_layer
        inputs, lengths = self.prepare(inputs, lengths)
        places: Tensor | None = None
        if self.embedding is None:
            first, table = layer.chain(inputs, lengths)
        elif is_changed(self.embedding):
            vectors = self.embedding(inputs)
            if self.training and self.dropout:
                kept = F.dropout(torch.ones_like(self.embedding.weight), self.dropout)
                vectors = vectors * F.embedding(inputs, kept)
            first, table = layer.chain(vectors, lengths)
        else:
            size = self.embedding.num_embeddings
            vectors_of: Callable[[Tensor], Tensor] = self.embedding
            if self.training and self.dropout:
                vectors_of = partial(F.embedding, weight=self.embed(torch.arange(size, device=inputs.device)))
            entries, places, used = path_sum.distinct(inputs[:, 1:], size)
            first, table = layer.first_and_matrices(vectors_of(inputs[:, 0]), vectors_of(entries), used)
        return Chain(first, table, places, path_sum.state_distribution(first, table, lengths, places=places))

    def state_distributions(self, inputs: Tensor, lengths: Tensor | None = None, *, per_step: bool = True) -> Tensor:
        """Return the distribution of the state after every step, (batch, time, k), or after the last: (batch, k)."""
        after = self.chain(inputs, lengths).distributions
        if not per_step:
            return after[:, -1]
        if self.patch_size == 1:
            return after
        channels, lengths = self.channels(inputs, lengths)
        parts, layer = partial_patches(channels, self.patch_size), self.finite_state_layer
        first = torch.stack([layer.first_distribution(part) for part in parts[:, 0].unbind(1)], dim=1)
        then = (after[:, :-1, None, None] @ layer.transition_matrices(parts[:, 1:])).squeeze(3).flatten(1, 2)
        whole = torch.cat([first, then], dim=1)[:, : channels.shape[1]]
        return repeat_last_step(whole, lengths)

    def _states_read(self) -> Tensor:
        """The states as the head reads them, (k, d): with dropout in training, the same for the whole batch."""
        return F.dropout(self.finite_state_layer.states, self.dropout, self.training)

    @abstractmethod
    def output(self, features: Tensor) -> Any:
        """Return the output of the model for what its head reads."""

    @abstractmethod
    def output_of_states(self, pi: Tensor) -> Any:
        """Return the output of the model in exact mode for a distribution over states, (…, k)."""

    # -- training on several paths -----------------------------------------------------------------------------------

    def _path_outputs(self, inputs: Tensor, lengths: Tensor | None, noise: Noise | None) -> Any:
        """Return the outputs of all paths: (paths · rows) rows.

        Args:
            inputs: Batch of inputs.
            lengths: Their lengths.
            noise: Noise of the batch, from which that of the paths is derived.
        """
        noise = Noise.fresh(len(inputs), inputs.device) if noise is None else noise
        number = torch.arange(self.paths, device=inputs.device).repeat_interleave(len(noise.sample))
        sample = noise.sample.repeat(self.paths) * self.paths + number  # no two updates share a draw
        paths = replace(noise, sequence=noise.sequence.repeat(self.paths), sample=sample)
        return self(inputs, lengths, noise=paths)

    def _mixture_loss(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Return the mean of −log of the mean likelihood over paths, from −log likelihood of (paths · rows) rows."""
        likelihood: Tensor = (-losses.unflatten(0, (self.paths, -1))).logsumexp(0)
        if weights is None:
            return math.log(self.paths) - likelihood.mean()
        return weighted_mean(math.log(self.paths) - likelihood, weights)

    @property
    def _trains_on_paths(self) -> bool:
        return self.paths > 1 and self.layer.mode != "exact"

    # -- saving ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """The arguments of the class besides layer, embedding and those of training."""

    def config(self) -> dict[str, Any]:
        """Return all that constructs a model like this one, except its weights, as plain values."""
        if not self.layer.can_be_saved:
            raise TypeError(
                f"a model on {self.layer} cannot be saved: only {', '.join(sorted(LAYERS))} can be named in a file; "
                "decorate a layer of your own with sttau.layers.register_layer"
            )
        options = {"dropout": self.dropout, "word_dropout": self.word_dropout, "input_noise": self.input_noise}
        options |= {"paths": self.paths} if self.paths > 1 else {}
        return {
            "model": type(self).__name__,
            "arguments": self._arguments() | {name: value for name, value in options.items() if value},
            "layer": {"type": self.layer.kind, "arguments": self.layer.config()},
            "embedding": None
            if self.embedding is None
            else {
                "num_embeddings": self.embedding.num_embeddings,
                "embedding_dim": self.embedding.embedding_dim,
                "padding_idx": self.embedding.padding_idx,
            },
            **({} if self.preprocessing is None else {"preprocessing": self.preprocessing.config()}),
            "dtype": str(self.dtype).removeprefix("torch."),
            "data": self._metadata.config(),
        }
