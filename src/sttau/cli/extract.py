"""``sttau extract``: a network as an automaton."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from sttau.cli.common import plain_errors, print_line, usage_error
from sttau.cli.model_files import language, load_model

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

    from sttau import SequenceClassifier
    from sttau.automata import PA, ExtractedDFA


def extract(
    model: Annotated[
        Path, typer.Argument(help="Saved classifier with an embedding and an STTauGRU, its folder, or an automaton.")
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(help="File: .svg, .png, .dot, .json, .prism, .jff or .att; repeatable."),
    ] = None,
    kind: Annotated[str, typer.Option(help="Kind of automaton: dfa or pa.")] = "dfa",
    against: Annotated[
        str,
        typer.Option(help="Language to compare with: tomita1 … stochastic2, a file, or a regular expression."),
    ] = "",
    start: Annotated[str, typer.Option(help="First token of every sequence; may be empty for a PA.")] = "^",
    accept: Annotated[str, typer.Option(help="Name or number of the class of accepted strings.")] = "",
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Mean of the relaxed α instead of the distribution of hard samples.")
    ] = False,
    tolerance: Annotated[float, typer.Option(help="PA: largest difference between states that are merged.")] = 0.01,
    leak: Annotated[float, typer.Option(help="PA: probability per step below which a state is dropped.")] = 0.001,
    within: Annotated[
        float,
        typer.Option(min=0, help="PA: largest difference, on strings of at most 12 symbols, that counts as equal."),
    ] = 0.0,
    force: Annotated[
        bool, typer.Option("--force", help="Exit with 0 although training failed, or the DFA is not the network's.")
    ] = False,
) -> None:
    """Extract an automaton from a network, or read one; compare it with a language, draw it and export it.

    Exits with 1 if the language differs from that of --against, if the training of the network did not reach its goal,
    or if a DFA and its network label strings differently. PAs are equal up to rounding only, unless --within is given.

    Example: sttau extract model.safetensors --out automaton.svg --out automaton.json --against "(10)*"
    """
    import sttau
    from sttau.automata.exchange.files import SUFFIXES
    from sttau.plotting.automaton import check_ending, write_automaton

    if kind not in ("dfa", "pa"):
        usage_error(f"--kind must be dfa or pa, got {kind!r}")
    if relaxed and not start:
        usage_error("--relaxed needs a start token: name it with --start")
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
        arguments = (network, network.vocabulary, start, accept_class, relaxed)
        extracted = _extract_dfa(*arguments) if kind == "dfa" else _extract_pa(*arguments, tolerance, leak)
        print_line(
            f"{kind.upper()} of {extracted.size} states, extracted from {network.finite_state_layer.num_states} states "
            f"of the network ({_table(relaxed)}); {extracted.quality}"
        )
        failures = [*_training_failure(network), *_infidelity(extracted.found, network, accept_class, relaxed)]
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


def _infidelity(found: ExtractedDFA | None, network: SequenceClassifier, accept: int, relaxed: bool) -> list[str]:
    """Where a DFA and its network label strings differently."""
    from sttau.automata import label_agreement

    if found is None:
        return []
    share = label_agreement(network, found, accept=accept, mode="soft" if relaxed else "exact")
    return [] if share == 1 else [f"The DFA is not the network's: they agree on {100 * share:.1f} % of strings"]


class _Extracted(NamedTuple):
    automaton: DFA | PA
    size: int
    quality: str  # a phrase on how well it represents the network
    notes: dict[str, Any]  # arguments of write_automaton
    found: ExtractedDFA | None = None


def _extract_dfa(
    network: SequenceClassifier, vocabulary: tuple[str, ...], start: str, accept: int, relaxed: bool
) -> _Extracted:
    from sttau.automata import extract_dfa

    found = extract_dfa(network, vocabulary, start=start, accept=accept, table=_table(relaxed))
    notes = {"probabilities": found.probabilities, "variances": found.variances}
    quality = f"smallest probability of an edge {min(found.probabilities.values()):.3f}"
    return _Extracted(found.dfa, len(found.dfa.states), quality, notes, found)


def _extract_pa(
    network: SequenceClassifier,
    vocabulary: tuple[str, ...],
    start: str,
    accept: int,
    relaxed: bool,
    tolerance: float,
    leak: float,
) -> _Extracted:
    from sttau.automata import compile, extract_pa, reduce

    if start:
        options: dict[str, Any] = {"tolerance": tolerance, "leak": leak, "table": _table(relaxed)}
        found = extract_pa(network, vocabulary, start=start, accept=accept, **options).reduction
    else:
        found = reduce(compile(network, start=None).pa(accept), tolerance, leak=leak)
    quality = f"within {found.bound(10):.2g} of the network on every string of at most 10 symbols"
    return _Extracted(found.pa, found.pa.num_states, quality, {})


def _table(relaxed: bool) -> Literal["categorical", "relaxed mean"]:
    """Return the name of the transition table that is read."""
    return "relaxed mean" if relaxed else "categorical"


def _class_number(network: SequenceClassifier, accept: str) -> int:
    """Return the class of accepted strings: by name, by number, or the one called accept."""
    names = network.class_names
    chosen = accept or ("accept" if "accept" in names else "1")
    number = names.index(chosen) if chosen in names else int(chosen) if chosen.isdigit() else -1
    if not 0 <= number < network.num_classes:
        usage_error(f"--accept must be one of {', '.join(names)} or a number, got {chosen!r}")
    return number
