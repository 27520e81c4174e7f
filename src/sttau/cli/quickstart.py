"""``sttau quickstart``: the first run."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import MofNCompleteColumn

from sttau.cli.common import (
    ProgressBars,
    SeedOption,
    check_folder,
    count,
    plain_errors,
    print_line,
    print_table,
    set_threads,
)
from sttau.cli.train import QUICK
from sttau.files import EXAMPLES_FILE, MODEL_FILE


def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for the report, its figures and results.")] = Path("quickstart"),
    seed: SeedOption = 0,
) -> None:
    """Learn a language and prove the extracted automaton equal; classify digits; train on a table; write a report.

    Needs no data and no GPU, and takes about a minute on two cores.

    Example: sttau quickstart --out quickstart
    """
    from sttau.quickstart import run_quickstart, save_models, save_opinions
    from sttau.report.html import summary_table, write_report

    check_folder(out)
    set_threads(1)  # the steps are small: more threads would only wait for each other
    began = time.perf_counter()
    with plain_errors():
        with ProgressBars("training:", MofNCompleteColumn()) as bars:
            result = run_quickstart(seed=seed, progress=bars.update)
            save_opinions(out / "models", seed=seed, progress=bars.update)
        page = write_report(result, out)
        save_models(result, out / "models")

    equivalence = result.automaton.equivalence
    language = f"Tomita {result.settings.grammar}"
    extracted = f"the extracted DFA ({len(result.automaton.extracted.dfa.states)} states)"
    if equivalence:
        print_line(f"{language}: {extracted} is proved equal", style="green")
    else:
        print_line(f"{language}: {extracted} differs on “{equivalence.counterexample}”", style="red")
    seeds = count(result.settings.digit_seeds, "seed")
    print_table(*summary_table(result.results), title=f"Handwritten digits, {seeds}")
    with plain_errors():
        _own_file(out, seed)
    print_line(f"$ sttau serve {out / 'models'}", style="bold")
    print_line("shows these models in the browser: read along, step through the automaton, see how sure to be.")
    print_line(f"Report: {page} ({time.perf_counter() - began:.0f} s)")
    if not equivalence:
        raise typer.Exit(1)


def _own_file(out: Path, seed: int) -> None:
    """The way of one's own data: a table, a model, predictions that abstain."""
    from sttau.cli.model_files import load_model
    from sttau.cli.train import train_file
    from sttau.data import load
    from sttau.predictions import Writer, predict_chunks
    from sttau.quickstart import IMAGE_ROLES, write_images

    train, new = out / "digits.csv", out / "new.csv"
    digits = [f"digit {number}" for number in range(10)]
    for path, split in ((train, "train"), (new, "test")):
        data = load("digits", split)
        write_images(path, zip(data.inputs, data.labels.tolist(), strict=True), digits)
    command = f"sttau train {train} --target digit --id image --time row --risk 0.1 --out {out / 'model'} --quick"
    print_line(f"$ {command}", style="bold")
    train_file(train, out / "model", IMAGE_ROLES, options={"updates": QUICK}, risk=0.1, seed=seed)
    print_line(f"$ sttau predict {out / 'model'} {new} --out {out / 'predictions.csv'}", style="bold")
    truth = [digits[label] for label in load("digits", "test").labels.tolist()]
    found: list[dict[str, Any]] = []
    with Writer(str(out / "predictions.csv")) as writer:
        for rows in predict_chunks(load_model(out / "model", "cpu"), new):
            writer.write(rows)
            found += rows
    served = out / "models/digits-table"
    served.mkdir(parents=True, exist_ok=True)
    shutil.copy(out / "model" / MODEL_FILE, served / MODEL_FILE)
    shutil.copy(new, served / EXAMPLES_FILE)
    right = [row["label"] == label for row, label in zip(found, truth, strict=True)]
    kept = [is_right for is_right, row in zip(right, found, strict=True) if not row["abstain"]]
    print_line(
        f"{len(right)} new images: {sum(right) / len(right):.1%} right. The model abstains on {len(right) - len(kept)}"
        + (f"; of the others {sum(kept) / len(kept):.1%} are right." if kept else "."),
        style="green",
    )
