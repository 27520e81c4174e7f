"""The automaton of a model, with the positions of a drawing."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Literal

from sttau.automata import extract_dfa, extract_pa
from sttau.automata.exchange import diagram, to_dot, to_json
from sttau.automata.value import as_pa
from sttau.models import Predictor, SequenceClassifier
from sttau.plotting.automaton import drawing
from sttau.plotting.automaton_layout import RADIUS, arrange, extent
from sttau.plotting.style import look
from sttau.serve.answers import class_names, has_automaton
from sttau.serve.bodies import plain

Kind = Literal["dfa", "pa"]
Form = Literal["view", "json", "dot", "svg"]
_SMALLEST = 0.005


def automaton_of(model: Predictor, kind: Kind, accept: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Return the automaton of a model, and notes for its drawing.

    Args:
        model: Classifier over a finite alphabet with a finite-state GRU.
        kind: ``dfa`` (the most probable moves) or ``pa`` (all of them: the network itself, with similar states merged).
        accept: Class of accepted strings; the one called accept, or the second.
    """
    if not has_automaton(model) or not isinstance(model, SequenceClassifier):
        raise ValueError(
            "only a classifier with a vocabulary and a finite-state GRU is an automaton; this model is not"
        )
    names = class_names(model)
    number = accept if accept is not None else names.index("accept") if "accept" in names else 1
    assert model.vocabulary is not None
    start = model.vocabulary[0]
    if kind == "dfa":
        found = extract_dfa(model, start=start, accept=number)
        return found.dfa, {"probabilities": found.probabilities}
    return extract_pa(model, start=start, accept=number, tolerance=0.01, leak=0.001).pa, {}


def automaton_view(model: Predictor, kind: Kind, accept: int | None, max_states: int) -> dict[str, Any]:
    """Return an automaton as a page draws it: states and arrows with positions, and the matrices that move them."""
    automaton, notes = automaton_of(model, kind, accept)
    pa = as_pa(automaton)
    if pa.num_states > max_states or pa.matrices.numel() > 1 << 18:
        raise ValueError(f"the automaton has {pa.num_states} states and {len(pa.alphabet)} symbols, too many to show")
    shown = diagram(automaton, **notes)
    layout = arrange(shown, _SMALLEST)
    low, high = extent(layout)
    view: dict[str, object] = {
        "kind": kind,
        "alphabet": list(pa.alphabet),
        "initial": pa.initial.tolist(),
        "matrices": pa.matrices.tolist(),
        "output": pa.output.tolist(),
        "radius": RADIUS,
        "box": [float(low[0]), float(-high[1]), float(high[0] - low[0]), float(high[1] - low[1])],
        "places": [[float(x), float(-y)] for x, y in layout.places[: pa.num_states]],
        "starts": {str(state): float(angle) for state, angle in layout.starts.items()},
        "arrows": [
            {
                "from": arrow.ends[0],
                "to": arrow.ends[1],
                "curve": [[float(x), float(-y)] for x, y in arrow.control],
                "label": arrow.label.split("\n"),
                "at": [float(place[0]), float(-place[1])],
            }
            for arrow, place in zip(layout.arrows, layout.labels, strict=True)
        ],
    }
    return plain(view)


def automaton_text(model: Predictor, kind: Kind, accept: int | None, form: Form) -> tuple[str, str]:
    """Return an automaton as JSON, DOT or SVG, with the media type."""
    automaton, notes = automaton_of(model, kind, accept)
    if form == "json":
        return to_json(automaton), "application/json"
    if form == "dot":
        return to_dot(automaton, **notes), "text/vnd.graphviz"
    content = BytesIO()
    with look():
        drawing(automaton, **notes).savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue().decode(), "image/svg+xml"
