"""``sttau learn``: an automaton and its network from labeled strings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import MofNCompleteColumn

from sttau.cli.common import (
    ProgressBars,
    SeedOption,
    ThreadsOption,
    check_output,
    plain_errors,
    print_line,
    set_threads,
)
from sttau.cli.model_files import language

if TYPE_CHECKING:
    from sttau.training import Update


def learn(
    strings: Annotated[Path, typer.Argument(help="Text file: a label, 1 or 0, and a string per line.")],
    out: Annotated[
        list[Path],
        typer.Option(help="Network (.safetensors) or automaton (.svg, .json, …); repeatable."),
    ],
    validation: Annotated[Path | None, typer.Option(help="File of further strings, preferably longer ones.")] = None,
    states: Annotated[int, typer.Option(min=1, max=128, help="Number of states of the network.")] = 10,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit in seconds.")] = 60.0,
    against: Annotated[str, typer.Option(help="Language to compare with; see sttau extract.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Exit with 0 even if the language was not found.")] = False,
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
) -> None:
    """Learn a regular language from labeled strings; some labels may be wrong.

    Prints what the strings prove, make likely or leave open. Exits with 1 if the language was not found, or differs
    from that of --against.

    Example: sttau learn strings.txt --out model.safetensors --out automaton.svg
    """
    from sttau.automata import compare
    from sttau.automata import learn as learn_language
    from sttau.automata.exchange.files import SUFFIXES
    from sttau.data.strings import parse_strings, read_strings
    from sttau.plotting.automaton import check_ending, write_automaton

    for path in out:
        check_output(path, strings, validation, against if against.endswith(SUFFIXES) else None)
    set_threads(threads)
    with plain_errors():
        for path in out:
            if path.suffix != ".safetensors":
                check_ending(path)
        files = [strings] if validation is None else [strings, validation]
        symbols = sorted({symbol for file in files for string in parse_strings(file).strings for symbol in string})
        train = read_strings(strings, symbols or None)
        held = None if validation is None else read_strings(validation, symbols or None, split="validation")
        truth = language(against, symbols) if against else None
        with ProgressBars("learning:", MofNCompleteColumn()) as bars:

            def show(attempt: int, update: Update, model: Any) -> None:
                bars.update(f"attempt {attempt}", update.number, update.of)

            learned = learn_language(train, held, num_states=states, seconds=seconds, seed=seed, callbacks=show)
        dfa = learned.automaton
        print_line(f"{learned.verdict}", style="green" if learned.verdict else "red")
        for path in out:
            if path.suffix == ".safetensors":
                learned.model.save(path)
            else:
                write_automaton(dfa, path, f"{strings.stem}, DFA")
            print_line(f"Written: {path}")
        differs = False
        if truth is not None:
            answer = compare(dfa, truth)
            differs = not answer
            print_line(f"{against}: {answer}", style="red" if differs else "green")
    if differs or not (learned.verdict or force):
        raise typer.Exit(1)
