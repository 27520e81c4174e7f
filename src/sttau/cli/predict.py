"""``sttau predict``: predictions for a file, however large."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sttau.cli.common import DeviceOption, SeedOption, check_output, choose_device, plain_errors, usage_error
from sttau.cli.model_files import ModelArgument, SamplesOption, load_model


def predict(
    model: ModelArgument,
    data: Annotated[
        Path | None, typer.Argument(help="Table with the columns of the training data; targets optional.")
    ] = None,
    out: Annotated[str, typer.Option(help="File to write: .csv, .jsonl or .parquet; - for standard output.")] = "-",
    json_lines: Annotated[bool, typer.Option("--json", help="Write JSON lines instead of CSV to the output.")] = False,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin", help="Read standard input: a line is a step (values or JSON), or words; predict after each."
        ),
    ] = False,
    id: Annotated[str | None, typer.Option(help="Column of the series id; as in training by default.")] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders the rows; as in training by default.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of texts; as in training by default.")] = None,
    level: Annotated[float, typer.Option(help="Level of conformal sets and intervals.")] = 0.9,
    samples: SamplesOption = 10,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Predict all series of a file: label, confidence, uncertainty, abstention, OOD, conformal set.

    Example: sttau predict model new.csv --out predictions.csv
    """
    from sttau.predictions import Writer, predict_chunks

    if (data is None) != stdin:
        usage_error("give either a file or --stdin")
    if not 0 < level < 1:
        usage_error(f"--level must be between 0 and 1, got {level:g}")
    if stdin and text is not None:
        usage_error("--text is for files; a line of standard input is text as it is")
    if stdin and time is not None:
        usage_error("--time is for files; lines of standard input are read in the order in which they arrive")
    if out != "-":
        check_output(out, data)
        if stdin and _is_standard_input(out):
            usage_error(f"--out {out} would overwrite what is read, standard input; choose another name")
    device = choose_device(device)
    with plain_errors("The output is not complete."):
        loaded = load_model(model, device)
        if data is None:
            if id is not None and loaded.reads_tokens:
                usage_error("--id names a column, but lines for a model of texts are text; leave it out")
            with Writer(sys.stdout if out == "-" else out, json_lines, live=True) as writer:
                _follow(loaded, writer, id, samples, seed, level)
            return
        with Writer(sys.stdout if out == "-" else out, json_lines) as writer:
            columns: dict[str, Any] = {"id": id, "time": time, "text": text}
            for rows in predict_chunks(loaded, data, **columns, level=level, samples=samples, seed=seed):
                writer.write(rows)


def _is_standard_input(path: str) -> bool:
    """Whether standard input comes from this file."""
    try:
        return os.path.samestat(os.fstat(sys.stdin.fileno()), os.stat(path))
    except OSError:  # there is no such file, or no file behind standard input
        return False


def _follow(model: Any, writer: Any, id: str | None, samples: int, seed: int, level: float) -> None:
    """Predict after every line of standard input; an empty line begins a new series, an id continues its own."""
    from sttau import Stream
    from sttau.data.step_lines import StepReader, TextReader
    from sttau.predictions import prediction_rows

    def begin() -> Any:
        return Stream(model, samples=samples, seed=seed)

    streams: dict[str | None, Any] = {None: begin()}
    texts = TextReader(model) if model.reads_tokens else None
    steps = None if model.reads_tokens else StepReader(model, model.num_features, id)
    for number, line in enumerate(sys.stdin, 1):
        text = line.rstrip("\r\n")
        if number == 1:
            text = text.removeprefix("\ufeff")  # the byte order mark of some editors and spreadsheets
        series: str | None = None
        elements: list[Any] = []
        if texts is not None:
            elements = texts.read(text, begins=streams[None].steps == 0)
        elif steps is not None and (step := steps.read(text)) is not None:
            series, elements = step.id, [step.values]
        if not text.strip():
            streams = {None: begin()}
        if not elements:
            continue
        if series not in streams:
            streams[series] = begin()
        for element in elements:
            prediction = streams[series].step(element)
        writer.write(prediction_rows(prediction, [str(number) if series is None else series], level))
