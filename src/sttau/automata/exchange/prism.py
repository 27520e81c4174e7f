"""Automata in the language of the model checker PRISM."""

from __future__ import annotations

import json

from torch import Tensor

from sttau.automata.value import AutomatonLike, as_pa


def to_prism(automaton: AutomatonLike) -> str:
    """Return a model in PRISM's language: an MDP whose actions are the symbols, so that a strategy is a string.

    The reward "output" of a state is the probability that it accepts; the label "accept" marks states where it is 1.
    If the initial state is random, an action ``start`` comes first.

    Example:
        >>> from sttau.automata import stochastic
        >>> print(to_prism(stochastic(1)))
        // written by sttau: 2 states, alphabet 0 1
        mdp
        <BLANKLINE>
        module automaton
          s : [0..1] init 0;
          [a_0] s=0 -> 0.9:(s'=0) + 0.1:(s'=1);
          [a_0] s=1 -> 0.3:(s'=0) + 0.7:(s'=1);
          [a_1] s=0 -> 0.2:(s'=0) + 0.8:(s'=1);
          [a_1] s=1 -> 0.9:(s'=0) + 0.1:(s'=1);
        endmodule
        <BLANKLINE>
        label "accept" = s=1;
        <BLANKLINE>
        rewards "output"
          s=1 : 1.0;
        endrewards
        <BLANKLINE>
    """
    pa = as_pa(automaton)
    k, output = pa.num_states, pa.output.tolist()
    plain = all(symbol.isascii() and symbol.replace("_", "a").isalnum() for symbol in pa.alphabet)
    actions = [f"a_{symbol}" if plain else f"a_{a}" for a, symbol in enumerate(pa.alphabet)]
    lines = [f"// written by sttau: {k} states, alphabet {' '.join(pa.alphabet) if plain else ''}".rstrip()]
    if not plain:
        lines += [f"// {action} is {json.dumps(s)}" for action, s in zip(actions, pa.alphabet, strict=True)]
    certain = bool((pa.initial == 1).any())
    first = int(pa.initial.argmax()) if certain else k
    lines += ["mdp", "", "module automaton", f"  s : [0..{max(k - 1, first)}] init {first};"]
    if not certain:
        lines.append(f"  [start] s={k} -> {_updates(pa.initial)};")
    for action, matrix in zip(actions, pa.matrices, strict=True):
        lines += [f"  [{action}] s={state} -> {_updates(row)};" for state, row in enumerate(matrix)]
    accepting = " | ".join(f"s={state}" for state, chance in enumerate(output) if chance == 1)
    lines += ["endmodule", "", f'label "accept" = {accepting or "false"};', "", 'rewards "output"']
    lines += [f"  s={state} : {chance!r};" for state, chance in enumerate(output) if chance > 0]
    return "\n".join([*lines, "endrewards"]) + "\n"


def _updates(row: Tensor) -> str:
    """A distribution in PRISM's syntax, with all digits: PRISM requires sums of 1 up to 1e-5."""
    return " + ".join(f"{p!r}:(s'={state})" for state, p in enumerate(row.tolist()) if p > 0)
