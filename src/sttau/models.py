"""Whole networks: an embedding or features, a recurrent layer, a dense head; and their saved form."""

from __future__ import annotations

import json
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sttau.checks import check_inputs, check_labels, check_targets
from sttau.data import Described
from sttau.engine import Noise, path_sum
from sttau.files import write_atomically
from sttau.layers import LAYERS, FiniteStateRNN, LayerMode, StochasticRNN
from sttau.layers.stochastic import check_rate
from sttau.padding import clear_padding

_FORMAT = "sttau.model"
_VERSION = 1
_UNKNOWN = 1  # the id of "<unk>" in every vocabulary made by ``sttau.data``
_DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}

Layer = StochasticRNN | nn.LSTM | nn.GRU
Head = Literal["dense", "halves"]

_DOUBT = 0.01  # of a hard draw's label, in the loss of states with fixed labels: the logarithm of 0 teaches nothing


class Chain(NamedTuple):
    """A batch of sequences as Markov chains over the layer's states: what exact inference works on."""

    first: Tensor  # (batch, k): π_1
    matrices: Tensor  # (batch, time - 1, k, k): A_2 … A_T
    laws: Tensor  # (batch, time, k): π_t


class FixedLabels(nn.Linear):
    """A head for states that each have a label for good (the paper's Algorithm 2): log Σ_{j with label y} α_j.

    Of k states the first k/classes have label 0, the next label 1, and so on: with two classes the first half rejects
    and the second accepts. Its weights, (classes, k), are these labels; they are not trained.
    """

    def __init__(self, num_states: int, num_classes: int) -> None:
        super().__init__(num_states, num_classes, bias=False)
        if num_states % num_classes:
            raise ValueError(
                f"head='halves' shares the states evenly among the classes, but {num_states} states are no multiple of "
                f"{num_classes}; choose another num_states"
            )
        labels = torch.arange(num_states) * num_classes // num_states
        self.weight = nn.Parameter(F.one_hot(labels, num_classes).T.float(), requires_grad=False)

    def forward(self, transitions: Tensor) -> Tensor:
        """Logarithms of class probabilities, from probabilities of states."""
        chances = F.linear(transitions, self.weight)
        return chances.clamp_min(torch.finfo(chances.dtype).tiny).log()


class SequenceModel(nn.Module):
    """What classifiers and regressors share: reading a batch of sequences, saving and loading.

    Models take (batch, time, features), or (batch, time) token ids where they have an embedding, whatever the layer's
    own ``batch_first``; ``lengths`` tells how many steps of each padded sequence are valid.
    """

    def __init__(
        self,
        layer: Layer,
        outputs: int,
        embedding: nn.Embedding | None = None,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        paths: int = 1,
        input_noise: float = 0.0,
    ) -> None:
        super().__init__()
        for name, rate in (("dropout", dropout), ("word_dropout", word_dropout)):
            check_rate(name, rate)
        if paths < 1:
            raise ValueError(f"paths must be at least 1, got {paths}")
        if word_dropout and embedding is None:
            raise ValueError("word_dropout needs an embedding: it puts an unknown word in the place of tokens")
        if not (input_noise >= 0 and math.isfinite(input_noise)):
            raise ValueError(f"input_noise must be a standard deviation, 0 or more, got {input_noise}")
        if input_noise and embedding is not None:
            raise ValueError("input_noise is for features; for token ids there is word_dropout")
        if not isinstance(layer, Layer):
            raise TypeError(f"layer must be one of {', '.join(LAYERS)}, got {type(layer).__name__}")
        if getattr(layer, "proj_size", 0):
            raise ValueError("layers with proj_size are not supported; choose hidden_size instead")
        if embedding is not None and embedding.embedding_dim != layer.input_size:
            raise ValueError(
                f"embedding gives {embedding.embedding_dim} features, but the layer's input_size is {layer.input_size}"
            )
        if embedding is not None and embedding.max_norm is not None:
            raise ValueError("embedding with max_norm is not supported: it changes its weights whenever it is read")
        self.class_names: tuple[str, ...] = ()
        self.feature_names: tuple[str, ...] = ()
        self.vocabulary: tuple[str, ...] | None = None
        self.dropout, self.word_dropout = float(dropout), float(word_dropout)
        self.paths, self.input_noise = paths, float(input_noise)
        self.embedding = embedding
        self.layer: Layer = layer
        self.head = nn.Linear(
            layer.hidden_size * (2 if layer.bidirectional else 1),
            outputs,
            device=layer.weight_ih_l0.device,
            dtype=layer.weight_ih_l0.dtype,
        )

    @property
    def members(self) -> tuple[SequenceModel, ...]:
        """The networks that are trained apart from each other: the model itself, or those of an ensemble."""
        return (self,)

    def apart(self, noise: Noise | None) -> list[tuple[SequenceModel, Noise | None]]:
        """The networks whose losses and penalties add up to the model's, each with the noise of its own."""
        return [(self, noise)]

    @property
    def finite_state_layer(self) -> FiniteStateRNN:
        """The layer, where it has states; an error that says so where it has none."""
        if not isinstance(self.layer, FiniteStateRNN):
            raise ValueError(
                f"this needs a finite-state layer, such as STTauGRU; {type(self.layer).__name__} has no states"
            )
        return self.layer

    def check(self, inputs: Tensor, lengths: Tensor | None) -> Tensor | None:
        """Raise a clear error if the model cannot read this batch; return the lengths as int64."""
        if self.embedding is not None:
            return check_inputs(inputs, lengths, features=None, tokens=self.embedding.num_embeddings)
        return check_inputs(inputs, lengths, features=self.layer.input_size, tokens=None)

    def remember(self, data: Described) -> None:
        """Keep the names of classes and features and the vocabulary of the data; they are saved with the model.

        Other data can then be read in the same way: ``sttau.data.read(path, like=model)``, or
        ``sttau.data.encode(texts, model.vocabulary)``.

        Example:
            >>> from sttau.data import load
            >>> model = SequenceClassifier(nn.LSTM(4, 8), num_classes=2, embedding=nn.Embedding(3, 4))
            >>> model.remember(load("tomita1", "train"))
            >>> model.class_names, model.vocabulary
            (('reject', 'accept'), ('^', '0', '1'))
        """
        tokens = None if self.embedding is None else self.embedding.num_embeddings
        features = self.layer.input_size if self.embedding is None else None
        for what, names, size in (
            ("vocabulary", data.vocabulary, tokens),
            ("feature_names", data.feature_names, features),
            ("class_names", data.class_names, getattr(self, "num_classes", None)),
        ):
            if names and len(names) != size:
                raise ValueError(f"{what} of the data has {len(names)} entries, but the model has {size or 'none'}")
        self.class_names, self.feature_names = tuple(data.class_names), tuple(data.feature_names)
        self.vocabulary = None if data.vocabulary is None else tuple(data.vocabulary)

    @abstractmethod
    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Raise a clear error if these are not targets for ``batch`` sequences; return them in the loss's form."""

    @abstractmethod
    def loss(
        self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
    ) -> Tensor:
        """Mean loss of a batch; ``noise`` names the draws, fresh ones without it."""

    def penalty(self, sequences: int) -> Tensor | None:
        """What training adds to the mean loss of a batch; None where there is nothing to add.

        A layer with distributions over its weights has ``kl_divergence()``. The bound on the evidence holds it once for
        all the data (Blundell et al., 2015, §3.4), so beside a mean over sequences it is divided by their number.

        Args:
            sequences: how many there are to train on, in all.
        """
        divergence = getattr(self.layer, "kl_divergence", None)
        return None if divergence is None else divergence() / sequences

    def _exactly(self, mode: LayerMode | None) -> bool:
        """Whether this call sums over paths; checks that ``mode`` makes sense for the layer."""
        if not isinstance(self.layer, StochasticRNN):
            if mode not in (None, "deterministic"):
                raise ValueError(f"mode={mode!r} needs a finite-state layer; {type(self.layer).__name__} has no states")
            return False
        return (mode or self.layer.mode) == "exact"

    def _prepared(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Token ids as int64, or features in the model's type, zero beyond each length; and the lengths beside them."""
        inputs = inputs.to(self.head.weight.dtype if self.embedding is None else torch.int64)
        if self.training and self.word_dropout:
            inputs = torch.where(torch.rand(inputs.shape, device=inputs.device) < self.word_dropout, _UNKNOWN, inputs)
        if self.training and self.input_noise:
            inputs = inputs + self.input_noise * torch.randn_like(inputs)
        if lengths is None:
            return inputs, None
        return clear_padding(inputs, lengths), lengths.to(inputs.device)

    def _vectors(self, inputs: Tensor) -> Tensor:
        """Features, or the vectors of tokens, of which training may drop a part."""
        return inputs if self.embedding is None else F.dropout(self.embedding(inputs), self.dropout, self.training)

    def _read(
        self,
        inputs: Tensor,
        lengths: Tensor | None,
        noise: Noise | None,
        mode: LayerMode | None,
        per_step: bool,
    ) -> Tensor:
        """Features after the last valid step, (rows, directions · d), or after each: (rows, time, directions · d)."""
        layer = self.layer
        if per_step and layer.bidirectional:
            raise ValueError("per_step needs a layer that reads in one direction: the other has seen the future")
        inputs, lengths = self._prepared(inputs, lengths)
        if isinstance(layer, StochasticRNN):
            table = self._table()
            if table is None:
                inputs = self._vectors(inputs)
            outputs = layer.features(
                inputs, lengths, noise=noise, mode=mode, steps="all" if per_step else "last", embedding=table
            )
            return F.dropout(outputs if per_step else outputs.squeeze(1), self.dropout, self.training)
        x = self._vectors(inputs)
        if lengths is not None and layer.bidirectional:
            packed = pack_padded_sequence(
                _batch_first(layer, x), lengths.cpu(), layer.batch_first, enforce_sorted=False
            )
            padded, _ = pad_packed_sequence(layer(packed)[0], layer.batch_first, total_length=x.shape[1])
            outputs = _batch_first(layer, padded)
        else:  # one direction: steps beyond a sequence's end cannot change what came before
            outputs = _batch_first(layer, layer(_batch_first(layer, x))[0])
        if per_step:
            return F.dropout(outputs, self.dropout, self.training)
        return self._at_ends(outputs, lengths)

    def _at_ends(self, outputs: Tensor, lengths: Tensor | None) -> Tensor:
        """What the head reads of (rows, time, directions · d): the last valid step of each direction."""
        rows = torch.arange(len(outputs), device=outputs.device)
        last = (
            torch.full_like(rows, outputs.shape[1] - 1)
            if lengths is None
            else lengths.repeat(len(outputs) // len(lengths)) - 1
        )
        size = self.layer.hidden_size
        ends = [outputs[rows, last, :size]]
        if self.layer.bidirectional:
            ends.append(outputs[:, 0, size:])
        return F.dropout(torch.cat(ends, dim=-1), self.dropout, self.training)

    def hidden_states(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
    ) -> Tensor:
        """Return what the layer gives after every step, (rows, time, d); the mean state, in exact mode."""
        return self._read(inputs, self.check(inputs, lengths), noise, mode, per_step=True)

    def _table(self) -> Tensor | None:
        """The embedding's vectors, where looking them up is all it does."""
        embedding = self.embedding
        if self.training and self.dropout:
            return None
        if type(embedding) is not nn.Embedding or embedding.scale_grad_by_freq or embedding.sparse:
            return None
        if embedding.padding_idx is not None and torch.is_grad_enabled():  # its vector must stay as it is
            return None
        return embedding.weight

    def chain(self, inputs: Tensor, lengths: Tensor | None = None) -> Chain:
        """Return the Markov chains that the sequences drive (GRU form; docs/mathematics.md, §4).

        With an embedding, the matrices are made once for each token that occurs, or for the whole vocabulary.
        """
        layer = self.layer
        if not isinstance(layer, FiniteStateRNN):
            raise ValueError(f"exact inference needs a finite-state layer; {type(layer).__name__} has no states")
        layer.check_exact()
        if self.training and self.dropout:
            raise ValueError(
                "dropout cannot be trained exactly: a token would have a matrix of its own wherever it stands. "
                'Use mode="soft" or "hard", or word_dropout'
            )
        inputs, lengths = self._prepared(inputs, lengths)
        if self.embedding is None:
            first, matrices = layer.chain(inputs, lengths)
        else:
            embed, size = self.embedding, self.embedding.num_embeddings
            first = path_sum.tabulate(lambda ids: layer.first_distribution(embed(ids)), inputs[:, 0], size)
            matrices = path_sum.tabulate(lambda ids: layer.transition_matrices(embed(ids)), inputs[:, 1:], size)
        return Chain(first, matrices, path_sum.state_distribution(first, matrices, lengths))

    # -- saving ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """The arguments of the class besides layer and embedding."""

    def _along_paths(self, inputs: Tensor, noise: Noise | None) -> Noise:
        """The noise of several runs over a batch, path by path."""
        noise = Noise.fresh(len(inputs), inputs.device) if noise is None else noise
        number = torch.arange(self.paths, device=inputs.device).repeat_interleave(len(noise.sample))
        sample = noise.sample.repeat(self.paths) * self.paths + number  # no two updates share a draw
        return replace(noise, sequence=noise.sequence.repeat(self.paths), sample=sample)

    def _of_mixture(self, terms: Tensor) -> Tensor:
        """Mean over sequences of −log of the mean over paths, from −log of each."""
        parts = terms.unflatten(0, (self.paths, -1))
        loss: Tensor = math.log(self.paths) - (-parts).logsumexp(0).mean()
        return loss

    def _of_training(self) -> dict[str, float]:
        """What matters in training alone, where it is not the usual."""
        options = {"dropout": self.dropout, "word_dropout": self.word_dropout, "input_noise": self.input_noise}
        options |= {"paths": self.paths} if self.paths > 1 else {}
        return {name: value for name, value in options.items() if value}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one safetensors file whose header holds the configuration as JSON. Atomic.

        Returns:
            The path written.
        """
        if _MODELS.get(type(self).__name__) is not type(self):
            raise TypeError(
                f"a {type(self).__name__} cannot be saved: only {', '.join(_MODELS)} can be named in a file"
            )
        config = {"format": _FORMAT, "version": _VERSION, **self._describe()}
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        return write_atomically(path, serialize(tensors, {"sttau": json.dumps(config, sort_keys=True)}))

    def _describe(self) -> dict[str, Any]:
        """All that makes a model like this one, but the weights, as plain values."""
        names = {"class_names": self.class_names, "feature_names": self.feature_names, "vocabulary": self.vocabulary}
        return {
            "model": type(self).__name__,
            "arguments": self._arguments(),
            "layer": {"type": _layer_name(self.layer), "arguments": _layer_config(self.layer)},
            "embedding": None
            if self.embedding is None
            else {
                "num_embeddings": self.embedding.num_embeddings,
                "embedding_dim": self.embedding.embedding_dim,
                "padding_idx": self.embedding.padding_idx,
            },
            "dtype": str(self.head.weight.dtype).removeprefix("torch."),
            "data": {name: value for name, value in names.items() if value},
        }


class SequenceClassifier(SequenceModel):
    """Class probabilities for a sequence: embedding or features, recurrent layer, dense head, softmax.

    Args:
        layer: any of ``sttau.layers.LAYERS``: an ST-τ layer, a baseline, ``nn.LSTM`` or ``nn.GRU``.
        num_classes: at least 2.
        embedding: for token ids; features without it.
        dropout: rate, in training, of what stands in the vectors of tokens and of what the head reads.
        word_dropout: rate, in training, of tokens in whose place the unknown word (id 1) is read.
        input_noise: standard deviation, in training, of noise that is added to features.
        head: ``dense``, or ``halves`` for a finite-state layer: the first half of the states rejects, the second
            accepts (the paper's Algorithm 2), with more classes an equal share each. The loss is then
            −log Σ_{j in the right half} α_j. No label is in doubt once the state is known, so aleatoric uncertainty is
            0 by construction and all noise counts as epistemic (docs/mathematics.md, §5).
        paths: how many runs of a layer that draws are taken together in training: the loss is −log of the mean of
            their probabilities, which is what a prediction by several runs is. With one, each run must explain the
            data by itself, and learns to be as sure as all the others.

    Example:
        >>> from sttau import STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> model(torch.randn(4, 10, 8), lengths=torch.tensor([10, 7, 3, 1])).shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        layer: Layer,
        num_classes: int,
        embedding: nn.Embedding | None = None,
        head: Head = "dense",
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        paths: int = 1,
        input_noise: float = 0.0,
    ) -> None:
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {num_classes}")
        if paths > 1 and not isinstance(layer, StochasticRNN):
            raise ValueError("paths needs a layer that draws: several runs of any other give one answer")
        if head not in get_args(Head):
            raise ValueError(f"head must be one of {', '.join(map(repr, get_args(Head)))}, got {head!r}")
        super().__init__(layer, num_classes, embedding, dropout, word_dropout, paths, input_noise)
        self.num_classes = num_classes
        if head == "halves":
            finite = self.finite_state_layer
            if finite.bidirectional or finite.readout != "state":
                raise ValueError("head='halves' reads states in one direction; give the layer readout='state'")
            self.head = FixedLabels(finite.num_states, num_classes).to(finite.states)

    def forward(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        per_step: bool = False,
    ) -> Tensor:
        """Logits (rows, classes), or (rows, time, classes) with one prediction after every step.

        In exact mode the logits are log p(y | x) of the path sum: their softmax is p, as for any logits.
        """
        if self._exactly(mode):
            laws = self.chain(inputs, lengths).laws
            laws = laws if per_step else laws[:, -1]
            tiny = torch.finfo(laws.dtype).tiny
            return (laws.clamp_min(tiny).log()[..., None] + self.state_logits()).logsumexp(dim=-2)
        logits: Tensor = self.head(
            self._transitions(inputs, lengths, noise, mode, per_step)
            if isinstance(self.head, FixedLabels)
            else self._read(inputs, lengths, noise, mode, per_step)
        )
        return logits

    def state_logits(self) -> Tensor:
        """log q(y | s_j) for each state: (k, classes)."""
        if isinstance(self.head, FixedLabels):
            return self.head.weight.T.to(torch.promote_types(self.head.weight.dtype, torch.float32)).log()
        logits: Tensor = self.head(self.finite_state_layer.states)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)

    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Labels must be whole numbers 0 … num_classes - 1, one a sequence."""
        return check_labels(targets, batch, self.num_classes)

    def loss(
        self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
    ) -> Tensor:
        """Mean cross-entropy, with several paths that of their mean probability."""
        mixed = self.paths > 1 and not self._exactly(None)
        logits: Tensor = self(inputs, lengths, noise=self._along_paths(inputs, noise) if mixed else noise)
        if isinstance(self.head, FixedLabels) and self.finite_state_layer.mode == "hard":
            logits = logits.exp().lerp(torch.full_like(logits, 1 / self.num_classes), _DOUBT).log()
        if not mixed:
            return F.cross_entropy(logits, targets)
        each = F.cross_entropy(logits, targets.repeat(self.paths), reduction="none")
        return self._of_mixture(each)

    def _transitions(
        self, inputs: Tensor, lengths: Tensor | None, noise: Noise | None, mode: LayerMode | None, per_step: bool
    ) -> Tensor:
        """α after the last valid step, (rows, k), or after each: (rows, time, k)."""
        inputs, lengths = self._prepared(inputs, lengths)
        x = self._vectors(inputs)
        alpha = self.finite_state_layer.transitions(x, lengths, noise=noise, mode=mode)
        if per_step or lengths is None:
            return alpha if per_step else alpha[:, -1]
        rows = torch.arange(len(alpha), device=alpha.device)
        return alpha[rows, lengths.repeat(len(alpha) // len(lengths)) - 1]

    def _arguments(self) -> dict[str, Any]:
        halves = isinstance(self.head, FixedLabels)
        return {"num_classes": self.num_classes} | ({"head": "halves"} if halves else {}) | self._of_training()


class Gaussian(NamedTuple):
    """A regressor's answer: a mean and, where the model has a head for it, a variance."""

    mean: Tensor
    variance: Tensor | None


class SequenceRegressor(SequenceModel):
    """Real numbers for a sequence, with or without a predicted variance.

    Args:
        layer: any of ``sttau.layers.LAYERS``: an ST-τ layer, a baseline, ``nn.LSTM`` or ``nn.GRU``.
        num_outputs: numbers predicted for a sequence.
        variance: also predict the noise of the data, trained with the Gaussian likelihood; else squared error.
        paths: with ``variance``, how many runs of a layer that draws are taken together in training: the likelihood is
            that of their mixture, which is what a prediction by several runs is. With one, each run must explain the
            data by itself, and learns to be as sure as all the others.
        embedding: for token ids; features without it.
        dropout: rate, in training, of what stands in the vectors of tokens and of what the head reads.
        word_dropout: rate, in training, of tokens in whose place the unknown word (id 1) is read.
        input_noise: standard deviation, in training, of noise that is added to features.

    Example:
        >>> from sttau import STTauGRU
        >>> model = SequenceRegressor(STTauGRU(2, 16, num_states=4), variance=True)
        >>> mean, variance = model(torch.randn(4, 10, 2))
        >>> mean.shape, bool((variance > 0).all())
        (torch.Size([4, 1]), True)
    """

    def __init__(
        self,
        layer: Layer,
        num_outputs: int = 1,
        variance: bool = False,
        embedding: nn.Embedding | None = None,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        paths: int = 1,
        input_noise: float = 0.0,
    ) -> None:
        if num_outputs < 1:
            raise ValueError(f"num_outputs must be at least 1, got {num_outputs}")
        if paths > 1 and not (variance and isinstance(layer, StochasticRNN)):
            raise ValueError("paths needs variance=True and a layer that draws: a mixture of several different answers")
        outputs = num_outputs * (2 if variance else 1)
        super().__init__(layer, outputs, embedding, dropout, word_dropout, paths, input_noise)
        self.num_outputs = num_outputs
        self.variance = variance

    def forward(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        per_step: bool = False,
    ) -> Gaussian:
        """Mean and variance, each (rows, outputs), or (rows, time, outputs) with ``per_step``.

        In exact mode they are the mean and variance of the mixture over states: with a variance head the variance
        holds the noise of the data and the spread of the means, without it there is none.
        """
        if not self._exactly(mode):
            return self._split(self.head(self._read(inputs, lengths, noise, mode, per_step)))
        laws = self.chain(inputs, lengths).laws
        laws = laws if per_step else laws[:, -1]
        mean, variance = self.state_outputs()
        middle = laws @ mean
        if variance is None:
            return Gaussian(middle, None)
        return Gaussian(middle, laws @ variance + (laws @ mean.square() - middle.square()).clamp_min(0))

    def state_outputs(self) -> Gaussian:
        """The answer in each state: (k, outputs)."""
        outputs: Tensor = self.head(self.finite_state_layer.states)
        return self._split(outputs.to(torch.promote_types(outputs.dtype, torch.float32)))

    def _split(self, outputs: Tensor) -> Gaussian:
        if not self.variance:
            return Gaussian(outputs, None)
        mean, raw = outputs.chunk(2, dim=-1)
        return Gaussian(mean, F.softplus(raw) + 1e-6)

    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """Targets must be finite numbers, (batch,) or (batch, num_outputs)."""
        return check_targets(targets, batch, self.num_outputs)

    def loss(
        self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
    ) -> Tensor:
        """Mean squared error, or with a variance head mean negative log-likelihood: of a Gaussian, or of a mixture."""
        if self.paths > 1 and not self._exactly(None):
            return self._mixture_loss(inputs, targets, lengths, noise)
        mean, variance = self(inputs, lengths, noise=noise)
        targets = targets.view_as(mean)
        if variance is None:
            return F.mse_loss(mean, targets)
        return F.gaussian_nll_loss(mean, targets, variance, full=True)

    def _mixture_loss(self, inputs: Tensor, targets: Tensor, lengths: Tensor | None, noise: Noise | None) -> Tensor:
        """−log of the mean over paths of N(target; mean, variance)."""
        mean, variance = self(inputs, lengths, noise=self._along_paths(inputs, noise))
        terms = F.gaussian_nll_loss(mean, targets.repeat(self.paths, 1), variance, full=True, reduction="none")
        return self._of_mixture(terms)

    def _arguments(self) -> dict[str, Any]:
        return {"num_outputs": self.num_outputs, "variance": self.variance} | self._of_training()


class DeepEnsemble(SequenceModel):
    """Networks of one kind that were initialized, and are trained, independently (Lakshminarayanan et al., 2017).

    It is trained, asked and saved as one model. Its loss is the sum of its members' losses on the same batch; they
    share no weights, so one optimizer that works number by number, such as Adam, trains each as if it were alone, and
    ``fit`` limits the norm of each member's gradient by itself. A prediction averages probabilities over members and
    over their own samples; what is epistemic in it is their disagreement.

    Args:
        members: classifiers, or regressors, on layers of one kind.

    Example:
        >>> ensemble = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(8, 32), num_classes=3), size=5)
        >>> ensemble(torch.randn(4, 10, 8)).shape
        torch.Size([20, 3])
    """

    def __init__(self, members: Iterable[SequenceModel]) -> None:
        super(SequenceModel, self).__init__()
        self.networks = nn.ModuleList(members)
        if not len(self.networks):
            raise ValueError("members must hold at least one model, got none")
        for number, member in enumerate(self.members):
            if not isinstance(member, (SequenceClassifier, SequenceRegressor)):
                raise TypeError(f"members must be classifiers or regressors, but member {number} is {type(member)}")
            if _kind(member) != _kind(self.members[0]):
                raise ValueError(
                    f"members must be of one kind, but member {number} differs from the first in its sizes"
                )

    @classmethod
    def of(cls, make: Callable[[], SequenceModel], size: int = 10, seed: int = 0) -> DeepEnsemble:
        """Make ``size`` members, each with initial weights of its own; PyTorch's global generator is left as it was."""
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        members = []
        with torch.random.fork_rng():
            for number in range(size):
                torch.manual_seed(seed + number)
                members.append(make())
        return cls(members)

    def __getattr__(self, name: str) -> Any:
        """What all members have in common is asked of the first."""
        return getattr(self.networks[0], name) if name in _COMMON else super().__getattr__(name)

    @property
    def members(self) -> tuple[SequenceModel, ...]:
        """The networks, in the order of their making."""
        return tuple(cast(SequenceModel, network) for network in self.networks)

    @property
    def finite_state_layer(self) -> FiniteStateRNN:
        """An ensemble has no states of its own."""
        raise ValueError("an ensemble has no states of its own; ask one of its members: ensemble.members[0]")

    def chain(self, inputs: Tensor, lengths: Tensor | None = None) -> Chain:
        """An ensemble is no Markov chain, though its members may be."""
        raise ValueError("an ensemble is not one Markov chain; ask one of its members: ensemble.members[0]")

    def forward(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        per_step: bool = False,
    ) -> Any:
        """What the members answer, sample by sample and in each member by member: members · rows rows."""
        answers = [
            member(inputs, lengths, noise=own, mode=mode, per_step=per_step)
            for member, own in zip(self.members, self._noises(noise), strict=True)
        ]
        if isinstance(answers[0], Tensor):
            return _interleaved(answers, len(inputs))
        means, variances = zip(*answers, strict=True)
        return Gaussian(
            _interleaved(means, len(inputs)), None if variances[0] is None else _interleaved(variances, len(inputs))
        )

    def check_targets(self, targets: Tensor, batch: int) -> Tensor:
        """As for each member."""
        return self.members[0].check_targets(targets, batch)

    def remember(self, data: Described) -> None:
        """Let each member keep the names of the data."""
        for member in self.members:
            member.remember(data)

    def loss(
        self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
    ) -> Tensor:
        """The sum of the members' losses."""
        members = zip(self.members, self._noises(noise), strict=True)
        return torch.stack([member.loss(inputs, targets, lengths, noise=own) for member, own in members]).sum()

    def penalty(self, sequences: int) -> Tensor | None:
        """The sum of the members' penalties."""
        parts = [part for part in (member.penalty(sequences) for member in self.members) if part is not None]
        return torch.stack(parts).sum() if parts else None

    def apart(self, noise: Noise | None) -> list[tuple[SequenceModel, Noise | None]]:
        """The members; a class of its own whose loss or penalty is another than their sum stays in one piece."""
        if type(self).loss is not DeepEnsemble.loss or type(self).penalty is not DeepEnsemble.penalty:
            return super().apart(noise)
        return list(zip(self.members, self._noises(noise), strict=True))

    def _noises(self, noise: Noise | None) -> list[Noise | None]:
        """Noise for each member, under seeds far apart; the first keeps its own."""
        return [
            None if noise is None else replace(noise, seed=noise.seed + number * _APART)
            for number in range(len(self.networks))
        ]

    def _describe(self) -> dict[str, Any]:
        return {"model": type(self).__name__, "members": [member._describe() for member in self.members]}

    def _arguments(self) -> dict[str, Any]:
        return {}


_COMMON = ("layer", "head", "embedding", "class_names", "feature_names", "vocabulary", "num_classes", "num_outputs")
_APART = 0x1E3779B97F4A7C15  # between the seeds of two members


def _kind(member: SequenceModel) -> dict[str, Any]:
    """What members of an ensemble must have in common."""
    return {name: value for name, value in member._describe().items() if name != "data"}


def _interleaved(answers: Sequence[Tensor], batch: int) -> Tensor:
    """(runs · batch, …) of each member as (runs · members · batch, …)."""
    return torch.stack([answer.unflatten(0, (-1, batch)) for answer in answers], dim=1).flatten(0, 2)


class _Names(NamedTuple):
    """What a saved model remembers of its data; files written before there was any have none of it."""

    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] | None = None


_MODELS: dict[str, type[SequenceModel]] = {
    "SequenceClassifier": SequenceClassifier,
    "SequenceRegressor": SequenceRegressor,
    "DeepEnsemble": DeepEnsemble,
}


def load(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Any:
    """Load a model that ``save`` wrote.

    Nothing in the file is executed. Pickles, foreign files, other format versions and weights that do not fit the
    configuration are refused with the reason.

    Returns:
        A :class:`SequenceClassifier`, :class:`SequenceRegressor` or :class:`DeepEnsemble` in eval mode.

    Example:
        >>> import tempfile
        >>> from sttau import STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load(model.save(f"{folder}/model.safetensors"))
        >>> bool((again.layer.states == model.layer.states).all())
        True
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}")
    with path.open("rb") as file:
        start = file.read(9)
    if start[8:] != b"{" and (start[:2] == b"PK" or start[:1] == b"\x80"):  # safetensors: 8 bytes of size, then JSON
        raise ValueError(
            f"{path} is a pickle (torch.save), which can run any code when it is loaded. "
            "sttau reads only files written by model.save(path)."
        )
    try:
        with safe_open(path, framework="pt", device=str(device)) as opened:
            config = json.loads((opened.metadata() or {}).get("sttau", "null"))
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged or not a safetensors file: {error}") from error
    if not isinstance(config, dict) or config.get("format") != _FORMAT:
        raise ValueError(f"{path} is a safetensors file, but not a model written by sttau")
    if config.get("version") != _VERSION:
        raise ValueError(
            f"{path} has format version {config.get('version')}; this sttau reads version {_VERSION}. Update sttau."
        )
    model = _build(config).to(device=device)
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    if expected != found:
        wrong = [
            f"{name}: expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
            for name in sorted(expected.keys() | found.keys())
            if expected.get(name) != found.get(name)
        ]
        raise ValueError(f"the weights in {path} do not fit its configuration; " + "; ".join(wrong))
    model.load_state_dict(tensors)
    return model.eval()


def _build(config: dict[str, Any]) -> SequenceModel:
    try:
        if config["model"] == DeepEnsemble.__name__:
            return DeepEnsemble([_build(member) for member in config["members"]])
        arguments = dict(config["layer"]["arguments"])
        if arguments.get("mode") == "straight_through":  # what "hard" was called before
            arguments["mode"] = "hard"
        layer = LAYERS[config["layer"]["type"]](**arguments)
        embedding = None if config["embedding"] is None else nn.Embedding(**config["embedding"])
        model = _MODELS[config["model"]](layer, embedding=embedding, **config["arguments"])  # type: ignore[arg-type]
        model.remember(_Names(**{name: tuple(names) for name, names in config.get("data", {}).items()}))
        return model.to(_DTYPES[config["dtype"]])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the model's configuration is not valid: {error}") from error


def _layer_name(layer: nn.Module) -> str:
    for name, kind in LAYERS.items():
        if type(layer) is kind:
            return name
    raise TypeError(
        f"a model on {type(layer).__name__} cannot be saved: only {', '.join(LAYERS)} can be named in a file"
    )


def _layer_config(layer: Layer) -> dict[str, Any]:
    if isinstance(layer, StochasticRNN):
        return layer.config()
    names = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
    return {name: getattr(layer, name) for name in names}


def _batch_first(layer: nn.LSTM | nn.GRU, x: Tensor) -> Tensor:
    """Between (batch, time, ·) and the layer's own layout; the same swap leads there and back."""
    return x if layer.batch_first else x.transpose(0, 1)
