"""Data sets of the two stochastic languages: strings with labels drawn with the automaton's probability.

The sizes are the paper's.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Source
from sttau.data.split import draw_uniform, shuffle
from sttau.data.strings import as_dataset
from sttau.languages import STOCHASTIC_LANGUAGES, stochastic

_COPIES = 10
_LONGEST = {1: 9, 2: 10}  # symbols of the longest training strings
_STRINGS = {1: 1017, 2: 2046}  # distinct training strings

#: Symbols beyond the longest training string, and number of strings per length.
_HELD_OUT = {"validation": ((1, 2), 50), "test": ((3, 4, 5, 6), 100)}


def describe_stochastic(number: int) -> Source:
    """Return name, license, citation and sizes of the data set of a stochastic language."""
    sizes = {"train": _COPIES * _STRINGS[number]}
    sizes |= {split: _COPIES * len(more) * count for split, (more, count) in _HELD_OUT.items()}
    return Source(
        name=f"stochastic{number}",
        title=f"Stochastic language {number}: {STOCHASTIC_LANGUAGES[number].description}",
        license="generated, free",
        citation="defined in sttau; sizes after C. Wang, C. Lawrence, M. Niepert, ICLR 2021",
        sizes=sizes,
    )


def load_stochastic(number: int, split: str) -> SequenceDataset:
    """Return strings of a stochastic language, ten copies of each, every copy with a label of its own draw.

    Training strings are all those with 1 to 9 symbols (language 1) or 1 to 10 (language 2). Of the 1,022 strings of
    language 1 the paper has 1,017, and does not say which; ours lack five of the longest. Validation strings are one
    or two symbols longer than the longest training string, test strings three to six; all are distinct, so none is in
    two splits.
    """
    distinct = _training_strings(number) if split == "train" else _held_out_strings(number, split)
    strings = [string for string in distinct for _ in range(_COPIES)]
    chances = stochastic(number).probability(distinct).repeat_interleave(_COPIES).numpy()
    draws = draw_uniform(len(strings), seed=10 * number + ("train", "validation", "test").index(split))
    source = describe_stochastic(number)
    provenance = source.provenance("Generated, labels drawn by a fixed seed")
    labels = (draws < chances).tolist()
    return as_dataset(strings, labels, "01", name=source.name, split=split, provenance=provenance)


def _training_strings(number: int) -> list[str]:
    """All shorter strings, and as many of the longest as the paper has."""
    longest = _LONGEST[number]
    strings = ["".join(symbols) for length in range(1, longest + 1) for symbols in product("01", repeat=length)]
    shorter = len(strings) - 2**longest
    kept = shorter + shuffle(2**longest, seed=0)[: _STRINGS[number] - shorter]
    return [strings[row] for row in [*range(shorter), *sorted(kept.tolist())]]


def _held_out_strings(number: int, split: str) -> list[str]:
    more, count = _HELD_OUT[split]
    return [
        format(row, f"0{_LONGEST[number] + extra}b")
        for extra in more
        for row in sorted(shuffle(2 ** (_LONGEST[number] + extra), seed=number)[:count].tolist())
    ]


DATASETS = {
    f"stochastic{number}": Entry(partial(load_stochastic, number), describe_stochastic(number))
    for number in STOCHASTIC_LANGUAGES
}
