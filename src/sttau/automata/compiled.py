"""Compiled networks over a finite alphabet: reading a symbol is a table lookup and a k × k product.

For the GRU form each token is a stochastic matrix (docs/mathematics.md, §4), so the network *is* an automaton and its
weights are not needed for inference. Several consecutive tokens are one matrix too: the products of all words of a few
tokens, as many as fit into a core's second-level cache, are computed once, and a sequence is then read word by word.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from sttau.checks import check_lengths
from sttau.errors import ModelFileError, reading
from sttau.formats import Format
from sttau.inference import Prediction, entropy
from sttau.inference.chunks import in_eval_mode
from sttau.languages import PA, Strings, encode_strings
from sttau.models import DeepEnsemble, Predictor, SequenceClassifier

COMPILED_FORMAT = Format("sttau.compiled", error=ModelFileError)
_TABLE_BYTES = 1 << 20  # size of the matrices of words: about a second-level cache
_UNKNOWN = 255  # token of a character that is no symbol
_SMALL = 1 << 15  # number of tokens below which one thread is faster than several


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """A compiled network: tables in float64 that give the same predictions as its exact inference.

    Attributes:
        first: (tokens, k) distribution of the state after each first token.
        matrices: (tokens, k, k) transition matrix of each further token.
        outcome: (k, classes) distribution of the class in each state.
        vocabulary: Symbol of each token.
        start: Start token of every sequence, or None.
        class_names: Name of each class; empty if they have none.
    """

    first: Tensor
    matrices: Tensor
    outcome: Tensor
    vocabulary: tuple[str, ...]
    start: str | None
    class_names: tuple[str, ...] = ()

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.outcome)

    @property
    def automaton(self) -> PA:
        """The network as a PA that accepts with the probability of class 1."""
        return self.pa()

    def encode(self, strings: Strings) -> tuple[Tensor, Tensor]:
        """Return strings as token ids and lengths, with a leading start token, as the network reads them."""
        ids, lengths = encode_strings(strings, self.vocabulary)
        if self.start is None:
            return ids, lengths
        begin = torch.full((len(ids), 1), self.vocabulary.index(self.start))
        return torch.cat([begin, ids], dim=1), lengths + 1

    def state_distribution(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the distribution of the state after each sequence, (batch, k) in float64.

        Args:
            inputs: (batch, time) token ids.
            lengths: (batch,) valid steps.
        """
        if inputs.dim() != 2 or inputs.is_floating_point() or inputs.dtype == torch.bool or inputs.numel() == 0:
            raise ValueError(f"inputs must be (batch, time) token ids, not empty, got {inputs.dtype} {inputs.shape}")
        checked = check_lengths(lengths, *inputs.shape)
        ids = inputs.cpu().to(torch.int64).contiguous().numpy()
        steps = np.full(len(ids), ids.shape[1]) if checked is None else checked.cpu().numpy()
        return self._read(ids, steps)

    def _read(self, ids: NDArray[Any], steps: NDArray[np.int64]) -> Tensor:
        """The distribution of the state after each row of token ids, whose first ``steps`` are valid."""
        states = np.empty((len(ids), self.num_states))
        threads = 1 if ids.size < _SMALL else min(torch.get_num_threads(), len(ids))
        cuts = [len(ids) * part // threads for part in range(threads + 1)]

        tables = self._tables

        from sttau.automata.compiled_kernel import read_sequences  # importing Numba is slow

        def read(part: int) -> int:
            space = np.empty(2 * tables[0].shape[-1])
            return int(read_sequences(ids, steps, *tables, states, space, cuts[part], cuts[part + 1]))

        wrong = [read(0)] if threads == 1 else list(_pool(os.getpid(), threads).map(read, range(threads)))
        if max(wrong) >= 0:
            raise ValueError(
                f"inputs contain a token id outside the vocabulary, 0 … {len(self.vocabulary) - 1}, "
                f"in sequence {max(wrong)}"
            )
        return torch.from_numpy(states)

    def probabilities(self, inputs: Tensor | Strings, lengths: Tensor | None = None) -> Tensor:
        """Return p(y | x), (batch, classes) in float64, for token ids or for strings without the start token."""
        # NumPy, because PyTorch's threads would keep spinning on the cores that the next call needs.
        return torch.from_numpy(self._states_after(inputs, lengths).numpy() @ self.outcome.numpy())

    def _states_after(self, inputs: Tensor | Strings, lengths: Tensor | None) -> Tensor:
        """The distribution of the state after token ids, or after strings without the start token."""
        if isinstance(inputs, Tensor):
            return self.state_distribution(inputs, lengths)
        if lengths is None and (rows := self._encode_bytes(inputs)) is not None:
            return self._read(*rows)
        return self.state_distribution(*self.encode(inputs))

    def _encode_bytes(self, strings: Strings) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
        """Strings of one byte per character as rows of token ids; None where that is not possible.

        Unknown symbols and empty sequences are left to :meth:`encode`, whose errors name them.
        """
        table = self._byte_table
        if table is None or not strings or not all(isinstance(string, str) for string in strings):
            return None
        try:
            tokens = "".join(strings).encode("latin-1").translate(table)  # type: ignore[arg-type]
        except UnicodeEncodeError:
            return None
        lengths = np.fromiter(map(len, strings), np.int64, len(strings))
        begin, longest = int(self.start is not None), int(lengths.max())
        if _UNKNOWN in tokens or not (begin or lengths.all()):
            return None
        ids = np.zeros((len(strings), longest + begin), np.uint8)
        if begin:
            ids[:, 0] = self.vocabulary.index(str(self.start))
        flat = np.frombuffer(tokens, np.uint8)
        if len(flat) == len(strings) * longest:
            ids[:, begin:] = flat.reshape(len(strings), longest)
        else:
            ids[:, begin:][np.arange(longest) < lengths[:, None]] = flat
        return ids, lengths + begin

    @cached_property
    def _byte_table(self) -> bytes | None:
        """Token of each character of one byte, or 255; None if symbols or tokens do not fit into bytes."""
        if len(self.vocabulary) > 255 or not all(len(symbol) == 1 and ord(symbol) < 256 for symbol in self.vocabulary):
            return None
        place = {ord(symbol): token for token, symbol in enumerate(self.vocabulary)}
        return bytes(place.get(code, _UNKNOWN) for code in range(256))

    def predict(self, inputs: Tensor | Strings, lengths: Tensor | None = None) -> Prediction:
        """Return the result of ``sttau.predict(model, inputs, lengths, mode="exact")``, without the attribution."""
        states = self._states_after(inputs, lengths)
        mean = states @ self.outcome
        return Prediction(
            mean=mean,
            variance=(states @ self.outcome.square() - mean.square()).clamp_min(0),
            total=entropy(mean),
            aleatoric=states @ entropy(self.outcome),
            mode="exact",
            num_samples=1,
            class_names=self.class_names,
        )

    def pa(self, accept: int | str = 1) -> PA:
        """Return the network as a PA over all symbols except the start token; its table is the categorical one.

        Without a start token the PA has an additional initial state, whose transitions are those from the network's
        h_0. It has no class, and the empty string is accepted with probability 1 / classes.

        Args:
            accept: Class, by number or name, that means "in the language".
        """
        accept = _class_number(accept, self.class_names, self.outcome.shape[1])
        output = self.outcome[:, accept]
        if self.start is not None:
            begin = self.vocabulary.index(self.start)
            others = [token for token in range(len(self.vocabulary)) if token != begin]
            alphabet = tuple(self.vocabulary[token] for token in others)
            return PA(self.first[begin], self.matrices[others], output, alphabet)
        k = self.num_states
        matrices = self.matrices.new_zeros(len(self.vocabulary), k + 1, k + 1)
        matrices[:, 0, 1:], matrices[:, 1:, 1:] = self.first, self.matrices
        unknown = output.new_full((1,), 1 / self.outcome.shape[1])
        initial = torch.eye(k + 1, dtype=torch.float64)[0]
        return PA(initial, matrices, torch.cat([unknown, output]), self.vocabulary)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the tables to a safetensors file atomically; return its path.

        Example:
            >>> import tempfile
            >>> from torch import nn
            >>> from sttau import SequenceClassifier, STTauGRU
            >>> model = SequenceClassifier(STTauGRU(4, 16, num_states=6), 2, nn.Embedding(3, 4))
            >>> compiled = compile(model, ("^", "0", "1"))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     again = CompiledModel.load(compiled.save(f"{folder}/model.compiled.safetensors"))
            >>> bool((again.probabilities(["0110"]) == compiled.probabilities(["0110"])).all())
            True
        """
        header = {"vocabulary": self.vocabulary, "start": self.start, "class_names": self.class_names}
        tensors = {name: getattr(self, name) for name in ("first", "matrices", "outcome")}
        return COMPILED_FORMAT.write(path, header, tensors)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> CompiledModel:
        """Read a file that :meth:`save` wrote, in this or an older version of the format; nothing in it is executed."""
        header, tensors = COMPILED_FORMAT.read(path)
        with reading(path, ModelFileError):
            made = CompiledModel(
                **tensors,
                vocabulary=tuple(header["vocabulary"]),
                start=header["start"],
                class_names=tuple(header["class_names"]),
            )
            made._check()
        return made

    def _check(self) -> None:
        """Raise where the tables do not fit each other."""
        tokens, (k, classes) = len(self.vocabulary), self.outcome.shape
        for name, shape in (("first", (tokens, k)), ("matrices", (tokens, k, k)), ("outcome", (k, classes))):
            table = getattr(self, name)
            if tuple(table.shape) != shape or table.dtype != torch.float64 or not bool(table.isfinite().all()):
                raise ValueError(f"{name} must be finite floats (float64) of shape {shape}")
        if not all(isinstance(symbol, str) for symbol in (*self.vocabulary, *self.class_names)):
            raise ValueError("vocabulary and class_names must be strings")
        if self.start is not None and self.start not in self.vocabulary:
            raise ValueError(f"start {self.start!r} is not in the vocabulary")
        if self.class_names and len(self.class_names) != classes:
            raise ValueError(f"there are {len(self.class_names)} class_names for {classes} classes")

    @cached_property
    def _tables(self) -> tuple[NDArray[Any], ...]:
        """First distributions, matrices of tokens, and matrices of words; rows are padded to whole registers."""
        from sttau.automata.compiled_kernel import LANES

        k, tokens = self.num_states, len(self.vocabulary)
        wide = F.pad(self.matrices, (0, -k % LANES))
        words = wide
        while len(words) * tokens * k * wide.shape[-1] * words.element_size() <= _TABLE_BYTES and tokens > 1:
            words = torch.einsum("aij,bjl->abil", words[..., :k], wide).flatten(0, 1)
        first = F.pad(self.first, (0, -k % LANES))
        return first.contiguous().numpy(), wide.contiguous().numpy(), words.contiguous().numpy()


def compile(model: Predictor, vocabulary: Sequence[str] | None = None, *, start: str | None = "^") -> CompiledModel:
    """Compile a classifier with an embedding and a finite-state GRU into the tables of exact inference.

    Predictions equal those of ``sttau.predict(model, …, mode="exact")`` up to rounding, at the cost of one k × k
    product per word of several tokens, whatever the hidden size. An ensemble becomes one automaton, with the states of
    all members: it begins in a random member and stays there.

    Args:
        model: Classifier that supports exact inference: one unidirectional STTauGRU layer with readout "state"; or an
            ensemble of such.
        vocabulary: Symbol of each token id; the model's own (``model.set_metadata(data)``) if None.
        start: Start token of every sequence; None if sequences begin with their first symbol.

    Example:
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU, predict
        >>> model = SequenceClassifier(STTauGRU(4, 16, num_states=6), 2, nn.Embedding(3, 4))
        >>> compiled = compile(model, ("^", "0", "1"))
        >>> inputs = torch.randint(3, (5, 1000))
        >>> bool((compiled.probabilities(inputs) - predict(model, inputs, mode="exact").mean).abs().max() < 1e-6)
        True
        >>> compiled.pa().alphabet
        ('0', '1')
    """
    if isinstance(model, DeepEnsemble):
        return _side_by_side([compile(member, vocabulary, start=start) for member in model.members])
    if not isinstance(model, SequenceClassifier):
        raise TypeError(f"model must be a classifier, or an ensemble of classifiers, got {type(model).__name__}")
    model = in_eval_mode(model)
    symbols = tuple(vocabulary if vocabulary is not None else model.vocabulary or ())
    if model.embedding is None:
        raise ValueError("model must have an embedding: only a finite alphabet can be compiled, not features")
    if not symbols:
        raise ValueError("vocabulary is missing: pass the symbol of each token, or call model.set_metadata(data)")
    if model.embedding.num_embeddings != len(symbols):
        raise ValueError(
            f"vocabulary has {len(symbols)} symbols, but the model's embedding is one of "
            f"{model.embedding.num_embeddings} tokens"
        )
    if start is not None and start not in symbols:
        raise ValueError(
            f"start must be in the vocabulary {symbols}, got {start!r}; "
            "pass None if sequences begin with their first symbol"
        )
    if start is not None and len(symbols) == 1:
        raise ValueError("the alphabet is empty: vocabulary contains only the start token")
    layer = model.finite_state_layer
    with torch.no_grad():
        vectors = model.embedding.weight
        tables = [layer.first_distribution(vectors), layer.transition_matrices(vectors), model.state_logits().exp()]
    first, matrices, outcome = (table.detach().cpu().to(torch.float64) for table in tables)
    return CompiledModel(
        first=first / first.sum(-1, keepdim=True),
        matrices=matrices / matrices.sum(-1, keepdim=True),
        outcome=outcome / outcome.sum(-1, keepdim=True),
        vocabulary=symbols,
        start=start,
        class_names=model.class_names,
    )


def _side_by_side(members: Sequence[CompiledModel]) -> CompiledModel:
    """The mixture of compiled members, with equal weights, as one model."""
    sizes = [member.num_states for member in members]
    first = torch.cat([member.first for member in members], dim=1) / len(members)
    matrices = first.new_zeros(len(first), sum(sizes), sum(sizes))
    places = np.cumsum([0, *sizes])
    for member, low, high in zip(members, places, places[1:], strict=False):
        matrices[:, low:high, low:high] = member.matrices
    outcome = torch.cat([member.outcome for member in members])
    return replace(members[0], first=first, matrices=matrices, outcome=outcome)


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Thread pool of this process: a forked child does not inherit its parent's threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sttau-automata")


def _class_number(accept: int | str, names: tuple[str, ...], classes: int) -> int:
    if isinstance(accept, str):
        if accept not in names:
            raise ValueError(f"accept must be one of the classes {names}, got {accept!r}")
        return names.index(accept)
    if not 0 <= accept < classes:
        raise ValueError(f"accept must be a class, 0 … {classes - 1}, got {accept}")
    return accept
