"""``sttau run``: one text or string, element by element."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from sttau.cli.common import DeviceOption, SeedOption, choose_device, plain_errors, print_line, print_table
from sttau.cli.model_files import ModelArgument, SamplesOption, load_model

if TYPE_CHECKING:
    from sttau.report.reading import Reading


def run(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(help="Text, or string of symbols.")],
    html: Annotated[Path | None, typer.Option(help="Page to write, with the words in color.")] = None,
    samples: SamplesOption = 10,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Read one text or string and show the prediction and its uncertainty after every element.

    In a terminal the elements are colored by the label after them, more strongly with its confidence.

    Example: sttau run model "a fine film" --html page.html
    """
    from sttau.report.reading import read_words

    device = choose_device(device)
    with plain_errors():
        reading = read_words(load_model(model, device), text, samples, seed)
        _print_colored(reading)
        print_table(*reading.table(), align="llr")
        print_line(reading.verdict, style="bold")
        if html is not None:
            print_line(f"Page: {reading.write_page(html)}")


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
