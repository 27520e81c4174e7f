from __future__ import annotations

import random
from itertools import product

from sttau.automata import balanced_strings, compare, extract_dfa, learn, random_dfa
from sttau.data.strings import as_dataset
from sttau.inference import predict
from sttau.languages import accepts


def test_the_network_starts_from_the_automaton_of_state_merging() -> None:
    truth = random_dfa(9, "abc", seed=5)
    train, validation = (
        as_dataset(*balanced_strings(truth, lengths, count, seed=0), "abc")
        for lengths, count in ((range(11), 30), (range(17, 25), 8))
    )
    learned = learn(train, validation, num_states=18, attempts=1)
    assert learned.merged is not None
    assert compare(learned.merged, truth)
    assert (learned.reached, learned.attempts, learned.reason) == (True, 1, "")
    assert extract_dfa(learned.model).equivalent_to(truth)
    strings = ["".join(random.Random(seed).choices("abc", k=1000)) for seed in range(20)]
    long = as_dataset(strings, accepts(truth, strings), "abc")
    assert predict(learned.model, long.inputs, long.lengths).label.tolist() == long.labels.tolist()


def test_a_counting_language_is_learned() -> None:
    """(a + 2b) mod 5 with an even number of c: ten states, not found from random weights in 40 attempts."""

    def inside(string: str) -> bool:
        return (string.count("a") + 2 * string.count("b")) % 5 == 0 and string.count("c") % 2 == 0

    short = ["".join(word) for length in range(7) for word in product("abc", repeat=length)]
    source = random.Random(0)
    long = ["".join(source.choices("abc", k=source.randint(20, 30))) for _ in range(100)]
    train, validation = (as_dataset(part, [inside(string) for string in part], "abc") for part in (short, long))
    learned = learn(train, validation, num_states=20, head="halves", attempts=1)
    assert learned.reached
    assert len(extract_dfa(learned.model).dfa.states) == 10
