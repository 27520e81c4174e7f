"""Automata for other programs: JSON, Graphviz's DOT, networkx, AALpy, PRISM; and back where there is a way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.pa import PA

Automaton = DFA | PA

_FORMAT = "sttau.dfa"
_VERSION = 1
_ACCEPT, _REJECT = "accept", "reject"


# ------------------------------------------------------------------------------------------------------------- pictures


class Picture(NamedTuple):
    """What a drawing of an automaton shows. States are numbers."""

    initial: list[float]  # how likely each state is the first
    output: list[float]  # how likely each accepts
    edges: dict[tuple[int, int], list[str]]  # the labels of each arrow


def picture(
    automaton: Automaton,
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    smallest: float = 0.005,
) -> Picture:
    """Return what to draw of an automaton.

    Args:
        automaton: states of a DFA are numbered from the start in the order strings reach them, those of a PA by row.
        probabilities: of a DFA's edges (state, symbol); written behind the symbol.
        variances: of a DFA's edges likewise, or of a PA's: (symbols, k, k).
        smallest: a PA's edges less probable than this are left out.

    Example:
        >>> from sttau.automata import stochastic, tomita
        >>> picture(tomita(1)).edges
        {(0, 1): ['0'], (0, 0): ['1'], (1, 1): ['0', '1']}
        >>> picture(stochastic(1)).edges[0, 1]
        ['0 [0.10]', '1 [0.80]']
    """
    edges: dict[tuple[int, int], list[str]] = {}
    if isinstance(automaton, DFA):
        if isinstance(variances, Tensor):
            raise TypeError("variances of a DFA's edges must be a mapping from (state, symbol)")
        number = _numbers(automaton)
        for state, source in number.items():
            for symbol in sorted(automaton.transitions[state]):
                p = None if probabilities is None else probabilities[state, symbol]
                v = None if variances is None else variances[state, symbol]
                target = number[automaton.transitions[state][symbol]]
                edges.setdefault((source, target), []).append(_label(symbol, p, v, 3))
        return Picture(
            initial=[float(state == automaton.initial_state) for state in number],
            output=[float(state in automaton.final_states) for state in number],
            edges=edges,
        )
    if probabilities is not None or not (variances is None or isinstance(variances, Tensor)):
        raise TypeError("a PA has its own probabilities, and variances must be a tensor (symbols, k, k)")
    if variances is not None and variances.shape != automaton.matrices.shape:
        raise ValueError(
            f"variances must have the shape of matrices, {tuple(automaton.matrices.shape)}, "
            f"got {tuple(variances.shape)}"
        )
    table = automaton.matrices.tolist()
    spread = None if variances is None else variances.tolist()
    for source in range(automaton.num_states):
        for a, symbol in enumerate(automaton.alphabet):
            for target, p in enumerate(table[a][source]):
                if p >= max(smallest, 1e-300):
                    v = None if spread is None else spread[a][source][target]
                    edges.setdefault((source, target), []).append(_label(symbol, p, v, 2))
    return Picture(automaton.initial.tolist(), automaton.output.tolist(), edges)


def _label(symbol: str, probability: float | None, variance: float | None, digits: int) -> str:
    parts = [] if probability is None else [f"{probability:.{digits}f}"]
    parts += [] if variance is None else [f"σ² {variance:.2g}"]
    return f"{symbol} [{', '.join(parts)}]" if parts else symbol


def _numbers(dfa: DFA) -> dict[Any, int]:
    """Numbers of the states that strings reach, in the order in which they do."""
    number: dict[Any, int] = {dfa.initial_state: 0}
    queue: list[Any] = [dfa.initial_state]
    for state in queue:
        for symbol in sorted(dfa.transitions[state]):
            target = dfa.transitions[state][symbol]
            if target not in number:
                number[target] = len(number)
                queue.append(target)
    return number


def to_dot(
    automaton: Automaton,
    *,
    probabilities: Mapping[tuple[Any, str], float] | None = None,
    variances: Mapping[tuple[Any, str], float] | Tensor | None = None,
    smallest: float = 0.005,
) -> str:
    r"""Return Graphviz's text; double circles accept. Arguments are those of :func:`picture`.

    Example:
        >>> from sttau.automata import tomita
        >>> print(to_dot(tomita(1)))
        digraph automaton {
          rankdir=LR;
          node [shape=circle];
          0 [shape=doublecircle];
          1;
          start0 [shape=point];
          start0 -> 0;
          0 -> 1 [label="0"];
          0 -> 0 [label="1"];
          1 -> 1 [label="0\n1"];
        }
        <BLANKLINE>
    """
    shown = picture(automaton, probabilities=probabilities, variances=variances, smallest=smallest)
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];"]
    for state, chance in enumerate(shown.output):
        shape = {0.0: "", 1.0: " [shape=doublecircle]"}.get(chance, f' [label="{state}\\n{chance:.2f}"]')
        lines.append(f"  {state}{shape};")
    for state, chance in enumerate(shown.initial):
        if chance >= max(smallest, 1e-300):
            label = "" if chance == 1 else f' [label="{chance:.2f}"]'
            lines += [f"  start{state} [shape=point];", f"  start{state} -> {state}{label};"]
    for (source, target), labels in shown.edges.items():
        text = "\\n".join(label.replace("\\", "\\\\").replace('"', '\\"') for label in labels)
        lines.append(f'  {source} -> {target} [label="{text}"];')
    return "\n".join([*lines, "}"]) + "\n"


# ----------------------------------------------------------------------------------------------------------------- JSON


def to_json(automaton: Automaton) -> str:
    """Return an automaton as JSON text; a DFA's states become numbers, from the start in the order strings reach them.

    Example:
        >>> from sttau.automata import compare, tomita
        >>> compare(from_json(to_json(tomita(3))), tomita(3))
        Equivalence(equal=True, counterexample=None)
    """
    if isinstance(automaton, PA):
        return automaton.to_json()
    number = _numbers(automaton)
    return json.dumps(
        {
            "format": _FORMAT,
            "version": _VERSION,
            "alphabet": sorted(automaton.input_symbols),
            "start": 0,
            "accepting": [n for state, n in number.items() if state in automaton.final_states],
            "moves": [
                {symbol: number[target] for symbol, target in sorted(automaton.transitions[state].items())}
                for state in number
            ],
        },
        ensure_ascii=False,
    )


def from_json(text: str) -> Automaton:
    """Read what :func:`to_json` wrote."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        return PA.from_json(text)
    if content.get("version") != _VERSION:
        raise ValueError(f"the DFA has format version {content.get('version')}; this sttau reads {_VERSION}")
    try:
        return _dfa(content["alphabet"], dict(enumerate(content["moves"])), content["start"], set(content["accepting"]))
    except KeyError as error:
        raise ValueError(f"the DFA lacks {error}") from error


def _dfa(alphabet: Any, moves: dict[Any, dict[str, Any]], start: Any, accepting: set[Any]) -> DFA:
    return DFA(
        states=set(moves),
        input_symbols=set(alphabet),
        transitions=moves,
        initial_state=start,
        final_states=accepting,
        allow_partial=any(len(row) < len(set(alphabet)) for row in moves.values()),
    )


# ------------------------------------------------------------------------------------------------------------- networkx


def to_networkx(automaton: Automaton) -> Any:
    """Return a ``networkx.MultiDiGraph``; keys of edges are symbols.

    Nodes have ``initial`` and ``output``, edges ``symbol`` and ``probability``; the graph has ``alphabet``.

    Example:
        >>> from sttau.automata import stochastic
        >>> graph = to_networkx(stochastic(1))
        >>> graph.edges[0, 1, "1"]
        {'symbol': '1', 'probability': 0.8}
    """
    import networkx

    pa = PA.from_dfa(automaton) if isinstance(automaton, DFA) else automaton
    graph = networkx.MultiDiGraph(alphabet=list(pa.alphabet))
    for state, (initial, output) in enumerate(zip(pa.initial.tolist(), pa.output.tolist(), strict=True)):
        graph.add_node(state, initial=initial, output=output)
    for a, i, j in pa.matrices.nonzero().tolist():
        symbol = pa.alphabet[a]
        graph.add_edge(i, j, key=symbol, symbol=symbol, probability=float(pa.matrices[a, i, j]))
    return graph


def from_networkx(graph: Any) -> PA:
    """Read a graph with the attributes that :func:`to_networkx` gives; for a DFA go on with ``.to_dfa()``."""
    nodes = list(graph.nodes)
    place = {node: row for row, node in enumerate(nodes)}
    edges = list(graph.edges(data=True))
    alphabet = tuple(graph.graph.get("alphabet") or sorted({edge["symbol"] for _, _, edge in edges}))
    matrices = torch.zeros(len(alphabet), len(nodes), len(nodes), dtype=torch.float64)
    for source, target, edge in edges:
        matrices[alphabet.index(edge["symbol"]), place[source], place[target]] += edge["probability"]
    first, output = (
        torch.tensor([float(graph.nodes[node][name]) for node in nodes], dtype=torch.float64)
        for name in ("initial", "output")
    )
    return PA(first, matrices, output, alphabet)


# ---------------------------------------------------------------------------------------------------------------- AALpy


def to_aalpy(automaton: Automaton) -> Any:
    """Return an ``aalpy`` automaton: a ``Dfa``, or for a PA an ``Mdp`` whose states answer "accept" or "reject".

    A state of the PA that accepts with a probability between 0 and 1 becomes two. An Mdp has one first state with one
    answer: where the PA has several, a state is added before them, which answers "start" to the empty string.

    Example:
        >>> from sttau.automata import tomita
        >>> to_aalpy(tomita(3)).size
        5
    """
    automata = _aalpy()
    if isinstance(automaton, DFA):
        if any(len(moves) < len(automaton.input_symbols) for moves in automaton.transitions.values()):
            automaton = automaton.to_complete()
        number = _numbers(automaton)
        accepting = automaton.final_states
        states = {state: automata.DfaState(f"s{n}", state in accepting) for state, n in number.items()}
        for state, made in states.items():
            made.transitions = {a: states[target] for a, target in sorted(automaton.transitions[state].items())}
        return automata.Dfa(states[automaton.initial_state], list(states.values()))
    outputs, table = automaton.output.tolist(), automaton.matrices.tolist()
    copies = {
        (state, answer): chance
        for state, output in enumerate(outputs)
        for answer, chance in ((_ACCEPT, output), (_REJECT, 1 - output))
        if chance > 0
    }
    made = {(state, answer): automata.MdpState(f"s{state}_{answer}", answer) for state, answer in copies}

    def link(source: Any, a: int, law: list[float]) -> None:
        for (state, answer), chance in copies.items():
            if law[state] * chance > 0:
                source.transitions[automaton.alphabet[a]].append((made[state, answer], law[state] * chance))

    for (state, _), source in made.items():
        for a in range(len(automaton.alphabet)):
            link(source, a, table[a][state])
    firsts = [(state, answer) for state, answer in copies if float(automaton.initial[state]) > 0]
    if len(firsts) == 1:
        return automata.Mdp(made[firsts[0]], list(made.values()))
    start = automata.MdpState("start", "start")
    for a, matrix in enumerate(automaton.matrices):
        link(start, a, (automaton.initial @ matrix).tolist())
    return automata.Mdp(start, [start, *made.values()])


def from_aalpy(automaton: Any, accept: Any = _ACCEPT) -> Automaton:
    """Return a DFA for an AALpy ``Dfa``, a PA for an ``Mdp`` or ``MarkovChain``-like automaton with inputs.

    Args:
        automaton: of AALpy. Moves that an ``Mdp`` lacks lead to a state that rejects for ever.
        accept: the output of an ``Mdp``'s state that means "accept".
    """
    automata = _aalpy()
    if isinstance(automaton, automata.Dfa):
        number = {id(state): n for n, state in enumerate(automaton.states)}
        moves = {
            number[id(state)]: {str(a): number[id(target)] for a, target in state.transitions.items()}
            for state in automaton.states
        }
        alphabet = {a for row in moves.values() for a in row}
        accepting = {number[id(state)] for state in automaton.states if state.is_accepting}
        return _dfa(alphabet, moves, number[id(automaton.initial_state)], accepting)
    if not isinstance(automaton, automata.Mdp):
        raise TypeError(f"automaton must be an AALpy Dfa or Mdp, got {type(automaton).__name__}")
    states = list(automaton.states)
    place = {id(state): row for row, state in enumerate(states)}
    symbols = sorted({a for state in states for a, moves in state.transitions.items() if moves}, key=str)
    k = len(states)
    matrices = torch.zeros(len(symbols), k + 1, k + 1, dtype=torch.float64)
    for state in states:
        for a, symbol in enumerate(symbols):
            for target, chance in state.transitions.get(symbol, ()):
                matrices[a, place[id(state)], place[id(target)]] += chance
    dead = matrices.sum(-1) == 0
    matrices[..., k] += dead.double()
    if not bool(dead[:, :k].any()):
        matrices, k = matrices[:, :k, :k], k - 1
    initial = torch.zeros(k + 1, dtype=torch.float64)
    initial[place[id(automaton.initial_state)]] = 1
    output = torch.tensor([float(state.output == accept) for state in states] + [0.0])[: k + 1]
    return PA(initial, matrices, output, tuple(map(str, symbols)))


def _aalpy() -> Any:
    try:
        from aalpy import automata
    except ImportError as error:
        raise ImportError("AALpy is not installed: pip install 'sttau[automata]'") from error
    return automata


# ---------------------------------------------------------------------------------------------------------------- PRISM


def to_prism(automaton: Automaton) -> str:
    """Return a model in PRISM's language: an MDP whose actions are the symbols, so that a strategy is a string.

    The reward "output" of a state is the probability that it accepts; the label "accept" marks states where it is 1.
    Where the first state is drawn, an action ``start`` comes first.

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
    pa = PA.from_dfa(automaton) if isinstance(automaton, DFA) else automaton
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


def _updates(law: Tensor) -> str:
    """A law as PRISM writes it; PRISM wants sums of 1 to 1e-5, so every digit is kept."""
    return " + ".join(f"{p!r}:(s'={state})" for state, p in enumerate(law.tolist()) if p > 0)
