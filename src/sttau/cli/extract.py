"""``sttau extract``: a network as an automaton."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

import typer

from sttau.cli.common import check_output, plain_errors, print_line, usage_error
from sttau.cli.model_files import language, load_model, model_path

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

    from sttau import SequenceClassifier
    from sttau.automata import PA


def extract(
    model: Annotated[
        Path, typer.Argument(help="Saved classifier over tokens, its folder, or an automaton. A PA needs an STTauGRU.")
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(help="File: .svg, .png, .dot, .json, .prism, .jff or .att; repeatable."),
    ] = None,
    kind: Annotated[str, typer.Option(help="Kind of automaton: dfa or pa.")] = "dfa",
    method: Annotated[
        str,
        typer.Option(help="DFA: auto (the most faithful), categorical, relaxed mean, merging, L* or k-means."),
    ] = "auto",
    against: Annotated[
        str,
        typer.Option(help="Language to compare with: tomita1 … stochastic2, a file, or a regular expression."),
    ] = "",
    start: Annotated[str, typer.Option(help="First token of every sequence; may be empty for a PA.")] = "^",
    accept: Annotated[str, typer.Option(help="Name or number of the class of accepted strings.")] = "",
    relaxed: Annotated[bool, typer.Option("--relaxed", help="Read the mean of the relaxed α of soft samples.")] = False,
    tolerance: Annotated[float, typer.Option(help="PA: largest difference between states that are merged.")] = 0.01,
    leak: Annotated[float, typer.Option(help="PA: probability per step below which a state is dropped.")] = 0.001,
    within: Annotated[
        float,
        typer.Option(min=0, help="PA: largest difference, on strings of at most 12 symbols, that counts as equal."),
    ] = 0.0,
    force: Annotated[
        bool, typer.Option("--force", help="Exit with 0 even if training failed or the DFA is not faithful.")
    ] = False,
) -> None:
    """Extract an automaton from a network, or read one; compare it with a language, draw it and export it.

    A DFA is read from the transition table if it labels held-out strings as the network does, and extracted by the
    most faithful of several methods otherwise, which work with any network over tokens. Exits with 1 if the language
    differs from that of --against, if the training of the network did not reach its goal, or if a DFA and its network
    label held-out strings differently. PAs are equal up to rounding only, unless --within is given.

    Example: sttau extract model.safetensors --out automaton.svg --out automaton.json --against "(10)*"
    """
    import sttau
    from sttau.automata.exchange.files import SUFFIXES
    from sttau.plotting.automaton import check_ending, write_automaton

    if kind not in ("dfa", "pa"):
        usage_error(f"--kind must be dfa or pa, got {kind!r}")
    methods = _methods(method, relaxed)
    if relaxed and not start:
        usage_error("--relaxed needs a start token: name it with --start")
    for path in out or ():
        check_output(path, model_path(model), against if against.endswith(SUFFIXES) else None)
    with plain_errors():
        for path in out or ():
            check_ending(path)
        if model.suffix in SUFFIXES and model.suffix != ".safetensors":  # those are networks
            _use_automaton(model, out or [], against, within)
            return
        network = load_model(model, "cpu")
        if not isinstance(network, sttau.SequenceClassifier) or not network.vocabulary:
            raise ValueError(f"{model} has no vocabulary: call model.set_metadata(data) before model.save(path)")
        symbols = [symbol for symbol in network.vocabulary if symbol != start]
        truth = language(against, symbols) if against else None
        accept_class = _class_number(network, accept)
        if kind == "dfa":
            extracted = _extract_dfa(network, start, accept_class, methods, relaxed)
        else:
            extracted = _extract_pa(network, start, accept_class, relaxed, tolerance, leak)
        print_line(f"{kind.upper()} of {extracted.size} states, {extracted.source}; {extracted.quality}")
        failures = [*_training_failure(network), *extracted.failures]
        for failure in failures:
            print_line(failure, style="red")
        for path in out or ():
            write_automaton(extracted.automaton, path, f"{model.stem}, {kind.upper()}", **extracted.notes)
            print_line(f"Written: {path}")
        differs = truth is not None and not _compare(extracted.automaton, truth, against, kind, within)
    if differs or (failures and not force):
        raise typer.Exit(1)


def _use_automaton(path: Path, out: list[Path], against: str, within: float) -> None:
    """Draw, convert and compare an automaton that a file holds."""
    from sttau.automata import PA, read_automaton
    from sttau.plotting.automaton import write_automaton

    automaton = read_automaton(path)
    kind, symbols = ("pa", automaton.alphabet) if isinstance(automaton, PA) else ("dfa", automaton.input_symbols)
    size = automaton.num_states if isinstance(automaton, PA) else len(automaton.states)
    print_line(f"{kind.upper()} of {size} states over {' '.join(sorted(symbols))}")
    for target in out:
        write_automaton(automaton, target, f"{path.stem}, {kind.upper()}")
        print_line(f"Written: {target}")
    if against and not _compare(automaton, language(against, sorted(symbols)), against, kind, within):
        raise typer.Exit(1)


def _compare(automaton: DFA | PA, truth: DFA | PA, name: str, kind: str, within: float) -> bool:
    """Print how an automaton compares with a language, and return whether they are equal."""
    from sttau.automata import compare, distance, rms_distance

    answer = compare(automaton, truth)
    if kind == "dfa":
        print_line(f"{name}: {answer}", style="green" if answer else "red")
        return bool(answer)
    found = distance(automaton, truth, length=12)
    equal = bool(answer) or found.sup <= within
    print_line(f"{name}: {answer}", style="green" if equal else "red")
    print_line(
        f"Strings of at most 12 symbols: largest difference {found.sup:.4f} on “{found.worst}”, mean {found.mean:.4f}. "
        f"All strings (mean length 9): RMS {rms_distance(automaton, truth):.4f}."
    )
    return equal


def _training_failure(network: SequenceClassifier) -> list[str]:
    """What the network's training says about itself, if it failed."""
    note = network.notes.get("learned")
    if not isinstance(note, dict):
        return []
    if note.get("verdict") == "not determined by the data":
        return [f"The language is not determined by the training data: {note.get('evidence')}"]
    if note.get("reached", True):
        return []
    return [f"The training of this network did not reach its goal: {note.get('reason') or 'the reason is not known'}"]


class _Extracted(NamedTuple):
    automaton: DFA | PA
    size: int
    source: str  # a phrase on what it was extracted from
    quality: str  # a phrase on how well it represents the network
    notes: dict[str, Any]  # arguments of write_automaton
    failures: list[str]


def _extract_dfa(
    network: SequenceClassifier, start: str, accept: int, methods: tuple[Any, ...], relaxed: bool
) -> _Extracted:
    from sttau.automata import extract

    found = extract(network, start=start, accept=accept, methods=methods, mode="soft" if relaxed else None)
    chosen, notes = found.chosen, {}
    quality = f"{_percent(chosen.fidelity)} of {found.strings} held-out strings have the network's label"
    source = f"extracted by {chosen.method}"
    if chosen.table is not None:
        notes = {"probabilities": chosen.table.probabilities, "variances": chosen.table.variances}
        quality += f", smallest probability of an edge {min(notes['probabilities'].values()):.3f}"
        source = _from_states(network, chosen.method)
    failures = []
    if not found:
        others = [f"{one.method} {_percent(one.fidelity)}" for one in found.candidates if one is not chosen]
        failures = [
            f"The DFA is not the network's: they agree on {_percent(chosen.fidelity)} of held-out strings, not on "
            f"“{''.join(found.counterexample or ())}”{'; ' if others else ''}{', '.join(others)}"
        ]
    return _Extracted(chosen.dfa, len(chosen.dfa.states), source, quality, notes, failures)


def _extract_pa(
    network: SequenceClassifier, start: str, accept: int, relaxed: bool, tolerance: float, leak: float
) -> _Extracted:
    from sttau.automata import compile, extract_pa, reduce

    table: Literal["categorical", "relaxed mean"] = "relaxed mean" if relaxed else "categorical"
    if start:
        options: dict[str, Any] = {"tolerance": tolerance, "leak": leak, "table": table}
        found = extract_pa(network, network.vocabulary, start=start, accept=accept, **options).reduction
    else:
        found = reduce(compile(network, start=None).pa(accept), tolerance, leak=leak)
    quality = f"within {found.bound(10):.2g} of the network on every string of at most 10 symbols"
    return _Extracted(found.pa, found.pa.num_states, _from_states(network, table), quality, {}, [])


def _from_states(network: SequenceClassifier, table: str) -> str:
    """A phrase on the transition table that was read."""
    return f"extracted from {network.finite_state_layer.num_states} states of the network ({table})"


def _methods(method: str, relaxed: bool) -> tuple[str, ...]:
    """The methods of --method and --relaxed."""
    from sttau.automata.selection import Method

    known = get_args(Method)
    if method not in ("auto", *known):
        usage_error(f"--method must be one of auto, {', '.join(known)}, got {method!r}")
    if relaxed:
        if method not in ("auto", "relaxed mean"):
            usage_error(f"--relaxed reads the table of means; leave out --method {method}")
        return ("relaxed mean",)
    return known if method == "auto" else (method,)


def _percent(share: float) -> str:
    """A share in percent, never rounded up to 100 %."""
    return "100 %" if share == 1 else f"{min(100 * share, 99.9):.1f} %"


def _class_number(network: SequenceClassifier, accept: str) -> int:
    """Return the class of accepted strings: by name, by number, or the one called accept."""
    names = network.class_names
    chosen = accept or ("accept" if "accept" in names else "1")
    number = names.index(chosen) if chosen in names else int(chosen) if chosen.isdigit() else -1
    if not 0 <= number < network.num_classes:
        usage_error(f"--accept must be one of {', '.join(names)} or a number, got {chosen!r}")
    return number
