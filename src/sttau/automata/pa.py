"""Probabilistic automata as values: a law of the first state, a stochastic matrix for each symbol, who accepts."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.files import write_atomically

#: strings, lists of symbols, or positions in the alphabet, (strings, time)
Strings = Sequence[str] | Sequence[Sequence[str]] | Tensor

_FORMAT = "sttau.pa"
_VERSION = 1
_SLACK = 1e-5  # how far sums may be from 1: rows that a network computed in float32
_ROUNDED = 1e-12  # sums as close as this are left as they are, so that a value written and read is the same


@dataclass(frozen=True, eq=False)
class PA:
    """A probabilistic automaton: it reads a string and accepts it with some probability.

    From state i, symbol a leads to state j with probability ``matrices[a, i, j]``; a string x_1 … x_T is accepted with

        p(x) = initial · A_{x_1} ⋯ A_{x_T} · output.

    Tensors are copied, kept as float64 and checked; laws whose sum is off by rounding are divided by it.

    Attributes:
        initial: (k,) law of the first state.
        matrices: (symbols, k, k), rows on the simplex, in the order of ``alphabet``.
        output: (k,) probability that a run which ends in this state is accepted.
        alphabet: the symbols, in the order of ``matrices``.

    Example:
        >>> coin = PA([1, 0], [[[0.5, 0.5], [0, 1]]], [0, 1], ("a",))
        >>> coin.probability(["", "a", "aa"])
        tensor([0.0000, 0.5000, 0.7500], dtype=torch.float64)
    """

    initial: Tensor
    matrices: Tensor
    output: Tensor
    alphabet: tuple[str, ...]

    def __post_init__(self) -> None:
        alphabet = tuple(self.alphabet)
        if not alphabet:
            raise ValueError("alphabet is empty: a PA needs at least one symbol")
        if not all(isinstance(symbol, str) and symbol for symbol in alphabet) or len(set(alphabet)) < len(alphabet):
            raise ValueError(f"alphabet must be different, non-empty strings, got {alphabet}")
        initial, matrices, output = (_numbers(name, getattr(self, name)) for name in ("initial", "matrices", "output"))
        k = len(output) if output.dim() == 1 else 0
        if not k:
            raise ValueError(f"output must be (states,), one probability a state, got shape {tuple(output.shape)}")
        for name, value, shape in (
            ("initial", initial, (k,)),
            ("matrices", matrices, (len(alphabet), k, k)),
        ):
            if tuple(value.shape) != shape:
                raise ValueError(
                    f"{name} must have shape {shape} for {len(alphabet)} symbols and the {k} states of output, "
                    f"got {tuple(value.shape)}"
                )
        if bool((output < -_SLACK).any() | (output > 1 + _SLACK).any()):
            raise ValueError(f"output must be probabilities in [0, 1], got {output.tolist()}")
        values: dict[str, Any] = {
            "initial": _simplex(initial, "initial"),
            "matrices": torch.stack(
                [
                    _simplex(matrix, f"matrices[{number}] (symbol {symbol!r})")
                    for number, (matrix, symbol) in enumerate(zip(matrices, alphabet, strict=True))
                ]
            ),
            "output": output.clamp(0, 1),
            "alphabet": alphabet,
        }
        for name, checked in values.items():
            object.__setattr__(self, name, checked)

    def __eq__(self, other: object) -> bool:
        """Whether all numbers and symbols are the same; for equal probabilities of all strings: ``compare``."""
        if not isinstance(other, PA):
            return NotImplemented
        return self.alphabet == other.alphabet and all(
            torch.equal(getattr(self, name).cpu(), getattr(other, name).cpu())
            for name in ("initial", "matrices", "output")
        )

    def __hash__(self) -> int:
        return hash((self.alphabet, tuple(self.initial.tolist()), tuple(self.output.tolist())))

    @property
    def num_states(self) -> int:
        """How many states there are."""
        return len(self.output)

    def to(self, device: torch.device | str) -> PA:
        """Return the same automaton with its tensors on a device."""
        return PA(self.initial.to(device), self.matrices.to(device), self.output.to(device), self.alphabet)

    def encode(self, strings: Strings, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return strings as positions in the alphabet, (strings, time), with their lengths; both on the PA's device.

        Example:
            >>> PA.from_dfa(DFA.from_finite_language({"0", "1"}, {"01"})).encode(["01", "1"])
            (tensor([[0, 1],
                    [1, 0]]), tensor([2, 1]))
        """
        return encode_strings(strings, self.alphabet, lengths, self.output.device)

    def state_law(self, strings: Strings, lengths: Tensor | None = None) -> Tensor:
        """Return the law of the state after each string, (strings, k)."""
        ids, lengths = self.encode(strings, lengths)
        law, rows = self.initial.expand(len(ids), -1), torch.arange(len(ids), device=ids.device)
        every = self.matrices.transpose(0, 1).flatten(1)  # (k, symbols · k)
        for step in range(ids.shape[1]):
            if len(self.alphabet) <= self.num_states:  # to read every symbol is less work than to gather matrices
                moved = (law @ every).view(len(ids), len(self.alphabet), -1)[rows, ids[:, step]]
            else:
                moved = torch.bmm(law[:, None], self.matrices[ids[:, step]])[:, 0]
            law = torch.where((step < lengths)[:, None], moved, law)
        return law

    def probability(self, strings: Strings, lengths: Tensor | None = None) -> Tensor:
        """Return the probability that each string is accepted, (strings,), in float64.

        Args:
            strings: each a string whose characters are symbols, or a list of symbols; or a tensor (strings, time) of
                positions in the alphabet.
            lengths: (strings,) how many steps of a tensor's rows count; all of them without it.
        """
        return (self.state_law(strings, lengths) @ self.output).clamp(0, 1)

    def sample(self, strings: Strings, count: int = 1, *, seed: int, lengths: Tensor | None = None) -> Tensor:
        """Run the automaton ``count`` times on each string and return whether it accepted, (count, strings) booleans.

        Example:
            >>> coin = PA([1, 0], [[[0.5, 0.5], [0, 1]]], [0, 1], ("a",))
            >>> coin.sample(["", "a"], 1000, seed=0).double().mean(0).round(decimals=1)
            tensor([0.0000, 0.5000], dtype=torch.float64)
        """
        chances = self.probability(strings, lengths).cpu()
        draws = torch.rand(count, len(chances), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        return (draws < chances).to(self.output.device)

    @staticmethod
    def from_dfa(dfa: DFA) -> PA:
        """Return a DFA as a PA that accepts with probability 1 or 0; a move that is missing leads to a dead state.

        Example:
            >>> from sttau.automata import tomita
            >>> PA.from_dfa(tomita(3)).probability(["100", "10"])
            tensor([1., 0.], dtype=torch.float64)
        """
        alphabet = tuple(sorted(dfa.input_symbols))
        found: list[Any] = [dfa.initial_state]
        for state in found:
            for symbol in alphabet:
                target = dfa.transitions[state].get(symbol)
                if target is not None and target not in found:
                    found.append(target)
        partial = any(len(dfa.transitions[state]) < len(alphabet) for state in found)
        number = {state: row for row, state in enumerate(found)}
        k = len(found) + partial
        matrices = torch.zeros(len(alphabet), k, k, dtype=torch.float64)
        for a, symbol in enumerate(alphabet):
            for row in range(k):
                target = dfa.transitions[found[row]].get(symbol) if row < len(found) else None
                matrices[a, row, k - 1 if target is None else number[target]] = 1
        return PA(
            initial=torch.eye(k, dtype=torch.float64)[0],
            matrices=matrices,
            output=torch.tensor([float(row < len(found) and found[row] in dfa.final_states) for row in range(k)]),
            alphabet=alphabet,
        )

    def to_dfa(self) -> DFA:
        """Return a PA whose probabilities are all 0 or 1 as a DFA; states keep their numbers.

        Example:
            >>> from sttau.automata import compare, tomita
            >>> compare(PA.from_dfa(tomita(4)).to_dfa(), tomita(4))
            Equivalence(equal=True, counterexample=None)
        """
        for name in ("initial", "matrices", "output"):
            if not bool(((value := getattr(self, name)) == value.round()).all()):
                raise ValueError(f"this PA is not deterministic: {name} holds probabilities other than 0 and 1")
        moves = self.matrices.argmax(-1).tolist()
        return DFA(
            states=set(range(self.num_states)),
            input_symbols=set(self.alphabet),
            transitions={
                state: {symbol: moves[a][state] for a, symbol in enumerate(self.alphabet)}
                for state in range(self.num_states)
            },
            initial_state=int(self.initial.argmax()),
            final_states=set(self.output.nonzero()[:, 0].tolist()),
        )

    def to_json(self) -> str:
        """Return the automaton as JSON text, every number in full.

        Example:
            >>> coin = PA([1, 0], [[[0.5, 0.5], [0, 1]]], [0, 1], ("a",))
            >>> PA.from_json(coin.to_json()) == coin
            True
        """
        return json.dumps(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "alphabet": list(self.alphabet),
                "initial": self.initial.tolist(),
                "matrices": self.matrices.tolist(),
                "output": self.output.tolist(),
            },
            ensure_ascii=False,
        )

    @staticmethod
    def from_json(text: str) -> PA:
        """Read what :meth:`to_json` wrote."""
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"this is not JSON: {error}") from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError("this JSON is not a PA written by sttau")
        if content.get("version") != _VERSION:
            raise ValueError(
                f"the PA has format version {content.get('version')}; this sttau reads {_VERSION}. Update sttau."
            )
        try:
            return PA(content["initial"], content["matrices"], content["output"], tuple(content["alphabet"]))
        except KeyError as error:
            raise ValueError(f"the PA lacks {error}") from error

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the automaton as a JSON file, in one step; return its path."""
        return write_atomically(path, (self.to_json() + "\n").encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> PA:
        """Read a file that :meth:`save` wrote."""
        return PA.from_json(Path(path).read_text("utf-8"))


def encode_strings(
    strings: Strings, alphabet: Sequence[str], lengths: Tensor | None = None, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Return strings as positions in an alphabet, (strings, time) and zero beyond the end, and their lengths.

    Args:
        strings: as for :meth:`PA.probability`.
        alphabet: the symbols.
        lengths: (strings,), only with a tensor.
        device: of the result.

    Example:
        >>> encode_strings(["ba", ""], "ab")
        (tensor([[1, 0],
                [0, 0]]), tensor([2, 0]))
    """
    if isinstance(strings, Tensor):
        return _check_ids(strings, len(alphabet), lengths, device)
    if isinstance(strings, str):
        raise TypeError(f"strings must be a list of strings; for a single one write [{strings!r}]")
    if lengths is not None:
        raise ValueError("lengths belong to a tensor of positions; strings have their own")
    sizes = torch.tensor([len(string) for string in strings], dtype=torch.int64)
    ids = torch.zeros(len(strings), int(sizes.max()) if len(strings) else 0, dtype=torch.int64)
    flat = _positions(strings, alphabet)
    if bool((flat < 0).any()):
        row = int((sizes.cumsum(0) <= int((flat < 0).nonzero()[0])).sum())
        unknown = next(symbol for symbol in strings[row] if symbol not in alphabet)
        raise ValueError(
            f"strings hold the symbol {unknown!r} in string {row}, which is not in the alphabet {tuple(alphabet)}; "
            "where a symbol has several characters, give lists of symbols"
        )
    ids[torch.arange(ids.shape[1]) < sizes[:, None]] = flat
    return ids.to(device), sizes.to(device)


def _positions(strings: Sequence[str] | Sequence[Sequence[str]], alphabet: Sequence[str]) -> Tensor:
    """Where each symbol of each string stands in the alphabet, -1 where it does not; one string behind the other."""
    place = {symbol: number for number, symbol in enumerate(alphabet)}
    if not all(isinstance(string, str) for string in strings):
        return torch.tensor([place.get(s, -1) for string in strings for s in string], dtype=torch.int64)
    codes = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), np.uint32)  # type: ignore[arg-type]
    characters = {ord(symbol): number for symbol, number in place.items() if len(symbol) == 1}
    beyond = max(characters, default=0) + 1
    table = np.full(beyond + 1, -1)
    table[list(characters)] = list(characters.values())
    return torch.from_numpy(table[np.minimum(codes, beyond)])


def _check_ids(ids: Tensor, symbols: int, lengths: Tensor | None, device: torch.device | str) -> tuple[Tensor, Tensor]:
    if ids.dim() != 2 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise TypeError(f"strings must be whole numbers (strings, time), got {ids.dtype} of shape {tuple(ids.shape)}")
    ids = ids.to(device, torch.int64)
    if lengths is None:
        lengths = torch.full((len(ids),), ids.shape[1], dtype=torch.int64, device=device)
    else:
        lengths = lengths.to(device, torch.int64)
        if tuple(lengths.shape) != (len(ids),) or bool((lengths < 0).any() | (lengths > ids.shape[1]).any()):
            raise ValueError(f"lengths must be ({len(ids)},) numbers from 0 to {ids.shape[1]}")
    beyond = torch.arange(ids.shape[1], device=device) >= lengths[:, None]
    ids = ids.masked_fill(beyond, 0)
    if bool((ids < 0).any() | (ids >= symbols).any()):
        raise ValueError(f"strings must hold positions in the alphabet, 0 … {symbols - 1}")
    return ids, lengths


def _numbers(name: str, value: Any) -> Tensor:
    """A copy in float64, finite."""
    try:
        tensor = torch.as_tensor(value).detach().to(torch.float64, copy=True)
        if not hasattr(value, "dtype"):
            tensor = torch.tensor(value, dtype=torch.float64)  # from the value again: nested lists became float32
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a tensor or nested lists of numbers: {error}") from error
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinity")
    return tensor


def _simplex(rows: Tensor, name: str) -> Tensor:
    """Check laws over the last dimension and remove what rounding left."""
    total = rows.sum(-1, keepdim=True)
    bad = (rows < -_SLACK).any(-1) | ((total[..., 0] - 1).abs() > _SLACK)
    if bool(bad.any()):
        found = rows.reshape(-1, rows.shape[-1])[bad.flatten()][0]
        where = f"row {int(bad.nonzero()[0])} is" if rows.dim() > 1 else "it is"
        raise ValueError(
            f"{name} must be probabilities that sum to 1, but {where} {found.tolist()}, sum {float(found.sum()):.6g}"
        )
    rows = rows.clamp(min=0)
    total = rows.sum(-1, keepdim=True)
    return torch.where((total - 1).abs() > _ROUNDED, rows / total, rows)
