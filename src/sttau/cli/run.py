"""``sttau run``: one text or string, element by element, or the strings of a file through an automaton."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from sttau.cli.common import DeviceOption, SeedOption, choose_device, plain_errors, print_line, print_table
from sttau.cli.model_files import SamplesOption, load_model

if TYPE_CHECKING:
    from sttau.report.reading import Reading


def run(
    model: Annotated[
        Path,
        typer.Argument(help="Folder of sttau train, a saved model, or an automaton (.json, .dot, …)."),
    ],
    text: Annotated[str, typer.Argument(help="Text or string; for an automaton also a file of strings, one per line.")],
    html: Annotated[Path | None, typer.Option(help="Page to write, with the words in color.")] = None,
    samples: SamplesOption = 10,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Read one text or string and show the prediction and its uncertainty after every element.

    In a terminal the elements are colored by the label after them, more strongly with its confidence. An automaton, or
    a compiled model, answers one line per string: accept or reject, or the probability of acceptance. If the file of
    strings has labels, the number of wrong answers follows, and the command exits with 1 if there are any.

    Example: sttau run model "a fine film" --html page.html; sttau run automaton.json strings.txt
    """
    from sttau.automata.exchange.files import SUFFIXES
    from sttau.report.reading import read_words

    device = choose_device(device)
    if model.suffix in SUFFIXES and (model.suffix != ".safetensors" or _is_compiled(model)):
        with plain_errors():
            wrong = _run_automaton(model, text)
        if wrong:
            raise typer.Exit(1)
        return
    with plain_errors():
        reading = read_words(load_model(model, device), text, samples, seed)
        _print_colored(reading)
        print_table(*reading.table(), align="llr")
        print_line(reading.verdict, style="bold")
        if html is not None:
            print_line(f"Page: {reading.write_page(html)}")


def _is_compiled(path: Path) -> bool:
    """Whether a file is a compiled model, not a network."""
    from sttau.automata import CompiledModel

    try:
        CompiledModel.load(path)
    except (OSError, ValueError):
        return False
    return True


def _run_automaton(path: Path, text: str) -> int:
    """Print the answer of an automaton to every string; return the number of wrong ones."""
    from sttau.automata import PA, accepts, read_automaton
    from sttau.data.strings import parse_strings

    automaton = read_automaton(path)
    is_file = bool(text) and len(text) < 4096 and Path(text).is_file()
    strings, labels = parse_strings(text) if is_file else ([text], None)
    if isinstance(automaton, PA):
        chances = automaton.probability(strings)
        accepted, shown = (chances > 0.5).tolist(), [f"{chance:.6f}" for chance in chances.tolist()]
    else:
        accepted = accepts(automaton, strings).tolist()
        shown = ["accept" if answer else "reject" for answer in accepted]
    wrong = 0
    for number, (string, answer) in enumerate(zip(strings, shown, strict=True)):
        differs = labels is not None and labels[number] != accepted[number]
        wrong += differs
        typer.echo(f"{answer}\t{string}" + ("\twrong" if differs else ""))
    if labels is not None:
        print_line(f"{wrong} of {len(strings)} labels are wrong", style="red" if wrong else "green")
    return wrong


def _print_colored(reading: Reading) -> None:
    """Print the text with colored words and a legend; nothing in a pipe, where the table says it all."""
    console = Console()
    if not console.is_terminal:
        return
    line, legend = Text(), Text()
    for word in reading.words:
        line.append(word.space)
        line.append(word.text, style=f"black on {reading.color(word)}" + ("" if word.known else " underline"))
    for label, color in reading.legend:
        legend.append(f" {label} ", style=f"black on {color}")
        legend.append(" ")
    console.print(line)
    console.print(legend)
