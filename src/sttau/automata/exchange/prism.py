"""Automata in the language of the model checker PRISM."""

from __future__ import annotations

import json
import re

import torch
from torch import Tensor

from sttau.automata.value import AutomatonLike, as_pa
from sttau.errors import AutomatonError, reading
from sttau.languages import PA

_COMMAND = re.compile(r"\[(\w+)\]\s*s=(\d+)\s*->\s*([^;]+);")
_UPDATE = re.compile(r"\s*([\d.eE+-]+)\s*:\s*\(s'=(\d+)\)\s*")


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


def from_prism(text: str, source: str = "the PRISM text") -> PA:
    """Return the PA of a model as :func:`to_prism` writes it: one variable ``s``, actions ``a_…``, the reward "output".

    Args:
        text: Content of the file.
        source: Name of the file for error messages.

    Raises:
        AutomatonError: If the text holds no such model.

    Example:
        >>> from sttau.automata import stochastic
        >>> from_prism(to_prism(stochastic(2))) == stochastic(2)
        True
    """
    with reading(source, AutomatonError, "Only models that to_prism writes can be read."):
        names = {
            action: json.loads(symbol) for action, symbol in re.findall(r"^// (a_\d+) is (.*)$", text, re.MULTILINE)
        }
        code = re.sub(r"//.*", "", text)
        variable = re.search(r"\bs\s*:\s*\[0\.\.(\d+)\]\s*init\s+(\d+)\s*;", code)
        if not re.search(r"\bmdp\b", code) or variable is None:
            raise AutomatonError(f"{source} is no MDP with one variable s")
        count, first = int(variable[1]) + 1, int(variable[2])
        rows: dict[str, dict[int, dict[int, float]]] = {}
        for action, state, updates in _COMMAND.findall(code):
            row = rows.setdefault(action, {}).setdefault(int(state), {})
            for part in re.split(r"\+(?=\s*[\d.]+[^:]*:)", updates):
                found = _UPDATE.fullmatch(part)
                if found is None:
                    raise AutomatonError(f"{source} has an update that is not read: {part.strip()[:60]!r}")
                row[int(found[2])] = row.get(int(found[2]), 0.0) + float(found[1])
        begin = rows.pop("start", None)
        k = count - (begin is not None)
        initial = torch.zeros(k, dtype=torch.float64)
        for state, chance in ({first: 1.0} if begin is None else begin[first]).items():
            initial[state] = chance
        matrices = torch.zeros(len(rows), k, k, dtype=torch.float64)
        for a, table in enumerate(rows.values()):
            for state, row in table.items():
                for target, chance in row.items():
                    matrices[a, state, target] = chance
        output = torch.zeros(k, dtype=torch.float64)
        rewards = re.search(r'rewards\s+"output"(.*?)endrewards', code, re.DOTALL)
        if rewards is None:
            raise AutomatonError(f'{source} has no reward "output", the probability that a state accepts')
        for state, chance in re.findall(r"s=(\d+)\s*:\s*([\d.eE+-]+)\s*;", rewards[1]):
            output[int(state)] = float(chance)
        return PA(initial, matrices, output, tuple(names.get(action, action.removeprefix("a_")) for action in rows))
