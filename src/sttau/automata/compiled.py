"""A network over a finite alphabet as tables: reading a symbol is a look-up and a k × k product.

For the GRU form each token is a stochastic matrix (docs/mathematics.md, §4), so the network *is* an automaton and its
weights are not needed to run it. Several tokens in a row are one matrix too: the products of all words of a few tokens
are made once, as many as stay in a core's second-level cache, and a sequence is then read word by word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from sttau.automata.pa import PA, Strings, encode_strings
from sttau.checks import check_lengths
from sttau.files import write_atomically
from sttau.inference import Prediction, entropy
from sttau.models import SequenceClassifier

_FORMAT = "sttau.compiled"
_VERSION = 1
_TABLE_BYTES = 1 << 20  # of the words' matrices: about a second-level cache
_SMALL = 1 << 15  # tokens below which threads cost more than they save


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """What :func:`compile` makes of a network: tables in float64 that give the same answers as its exact inference.

    Attributes:
        first: (tokens, k) law of the state after a first token.
        matrices: (tokens, k, k) of each further token.
        outcome: (k, classes) law of the class in each state.
        vocabulary: the symbol of each token.
        start: the token every sequence begins with, or None.
        class_names: one for each class, where they have names.
    """

    first: Tensor
    matrices: Tensor
    outcome: Tensor
    vocabulary: tuple[str, ...]
    start: str | None
    class_names: tuple[str, ...] = ()

    @property
    def num_states(self) -> int:
        """How many states there are."""
        return len(self.outcome)

    def encode(self, strings: Strings) -> tuple[Tensor, Tensor]:
        """Return strings as token ids and lengths, with the start token in front, as the network reads them."""
        ids, lengths = encode_strings(strings, self.vocabulary)
        if self.start is None:
            return ids, lengths
        begin = torch.full((len(ids), 1), self.vocabulary.index(self.start))
        return torch.cat([begin, ids], dim=1), lengths + 1

    def state_law(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the law of the state after each sequence, (batch, k) in float64.

        Args:
            inputs: (batch, time) token ids, as the network takes them.
            lengths: (batch,) valid steps.
        """
        if inputs.dim() != 2 or inputs.is_floating_point() or inputs.dtype == torch.bool or inputs.numel() == 0:
            raise ValueError(f"inputs must be (batch, time) token ids, not empty, got {inputs.dtype} {inputs.shape}")
        checked = check_lengths(lengths, *inputs.shape)
        ids = inputs.cpu().to(torch.int64).contiguous().numpy()
        steps = np.full(len(ids), ids.shape[1]) if checked is None else checked.cpu().numpy()
        laws = np.empty((len(ids), self.num_states))
        threads = 1 if ids.size < _SMALL else min(torch.get_num_threads(), len(ids))
        cuts = [len(ids) * part // threads for part in range(threads + 1)]

        tables = self._tables

        from sttau.automata.compiled_kernel import read_sequences  # Numba takes its time to import

        def read(part: int) -> int:
            space = np.empty(2 * tables[0].shape[-1])
            return int(read_sequences(ids, steps, *tables, laws, space, cuts[part], cuts[part + 1]))

        wrong = [read(0)] if threads == 1 else list(_pool(os.getpid(), threads).map(read, range(threads)))
        if max(wrong) >= 0:
            raise ValueError(
                f"inputs hold a token id outside the vocabulary 0 … {len(self.vocabulary) - 1} in sequence {max(wrong)}"
            )
        return torch.from_numpy(laws)

    def probabilities(self, inputs: Tensor | Strings, lengths: Tensor | None = None) -> Tensor:
        """Return p(y | x), (batch, classes) in float64, for token ids or for strings without the start token."""
        if not isinstance(inputs, Tensor):
            inputs, lengths = self.encode(inputs)
        # NumPy, for PyTorch would leave its threads spinning on the cores that the next call wants.
        return torch.from_numpy(self.state_law(inputs, lengths).numpy() @ self.outcome.numpy())

    def predict(self, inputs: Tensor | Strings, lengths: Tensor | None = None) -> Prediction:
        """Return what ``sttau.predict(model, inputs, lengths, mode="exact")`` does, but for the attribution."""
        if not isinstance(inputs, Tensor):
            inputs, lengths = self.encode(inputs)
        law = self.state_law(inputs, lengths)
        mean = law @ self.outcome
        return Prediction(
            mean=mean,
            variance=(law @ self.outcome.square() - mean.square()).clamp_min(0),
            total=entropy(mean),
            aleatoric=law @ entropy(self.outcome),
            mode="exact",
            num_samples=1,
            class_names=self.class_names,
        )

    def pa(self, accept: int | str = 1) -> PA:
        """Return the network as a PA over the symbols besides the start token; its table is the categorical one.

        Without a start token the PA has one more state, the first: from there a symbol leads on as it leads on from the
        network's h_0. It has no class of its own, and answers the empty string with 1 / classes.

        Args:
            accept: the class, by number or name, that means "in the language".
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
        """Write the tables to a safetensors file, in one step; return its path.

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
        config = {
            "format": _FORMAT,
            "version": _VERSION,
            "vocabulary": self.vocabulary,
            "start": self.start,
            "class_names": self.class_names,
        }
        tensors = {name: getattr(self, name).contiguous() for name in ("first", "matrices", "outcome")}
        return write_atomically(path, serialize(tensors, {"sttau": json.dumps(config, sort_keys=True)}))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> CompiledModel:
        """Read a file that :meth:`save` wrote; nothing in it is executed."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no compiled model at {path}")
        try:
            with safe_open(path, framework="pt") as opened:
                config = json.loads((opened.metadata() or {}).get("sttau", "null"))
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
        except (SafetensorError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is damaged or not a safetensors file: {error}") from error
        if not isinstance(config, dict) or config.get("format") != _FORMAT or config.get("version") != _VERSION:
            raise ValueError(
                f"{path} was not written by save() of a compiled model, or by another version of it. "
                "For a whole model: sttau.automata.compile(sttau.load(path))"
            )
        return CompiledModel(
            **tensors,
            vocabulary=tuple(config["vocabulary"]),
            start=config["start"],
            class_names=tuple(config["class_names"]),
        )

    @cached_property
    def _tables(self) -> tuple[NDArray[Any], ...]:
        """First laws, matrices of tokens, and matrices of words; rows are filled up to whole registers."""
        from sttau.automata.compiled_kernel import LANES

        k, tokens = self.num_states, len(self.vocabulary)
        wide = F.pad(self.matrices, (0, -k % LANES))
        words = wide
        while len(words) * tokens * k * wide.shape[-1] * words.element_size() <= _TABLE_BYTES and tokens > 1:
            words = torch.einsum("aij,bjl->abil", words[..., :k], wide).flatten(0, 1)
        first = F.pad(self.first, (0, -k % LANES))
        return first.contiguous().numpy(), wide.contiguous().numpy(), words.contiguous().numpy()


def compile(
    model: SequenceClassifier, vocabulary: Sequence[str] | None = None, *, start: str | None = "^"
) -> CompiledModel:
    """Turn a classifier with an embedding and a finite-state GRU into tables, as exact inference reads it.

    Answers equal those of ``sttau.predict(model, …, mode="exact")`` to rounding, at the price of one k × k product
    for several tokens, whatever the hidden size.

    Args:
        model: it must allow exact inference: one STTauGRU layer that reads in one direction, with readout "state".
        vocabulary: the symbol of each token id; what the model remembers (``model.set_metadata(data)``) without it.
        start: the token every sequence begins with; None where sequences begin with their first symbol.

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
            "or None, where sequences begin with their first symbol"
        )
    if start is not None and len(symbols) == 1:
        raise ValueError("the alphabet is empty: vocabulary holds only the start token")
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


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a child made by fork has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sttau-automata")


def _class_number(accept: int | str, names: tuple[str, ...], classes: int) -> int:
    if isinstance(accept, str):
        if accept not in names:
            raise ValueError(f"accept must be one of the classes {names}, got {accept!r}")
        return names.index(accept)
    if not 0 <= accept < classes:
        raise ValueError(f"accept must be a class, 0 … {classes - 1}, got {accept}")
    return accept
