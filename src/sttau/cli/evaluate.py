"""``sttau evaluate``: every metric of a model on labeled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sttau.cli.common import DeviceOption, SeedOption, choose_device, plain_errors, print_line, print_table
from sttau.cli.model_files import ModelArgument, SamplesOption, load_model


def evaluate(
    model: ModelArgument,
    data: Annotated[Path, typer.Argument(help="Table with the columns of the training data, including targets.")],
    target: Annotated[str | None, typer.Option(help="Column of the target; as in training by default.")] = None,
    id: Annotated[str | None, typer.Option(help="Column of the series id; as in training by default.")] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders the rows; as in training by default.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of texts; as in training by default.")] = None,
    samples: SamplesOption = 10,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Evaluate a model on labeled data: metrics with confidence intervals, abstention, classes, reliability.

    Example: sttau evaluate model test.csv
    """
    from sttau.data import read
    from sttau.evaluation import evaluate as run

    device = choose_device(device)
    with plain_errors():
        loaded = load_model(model, device)
        found = read(data, like=loaded, target=target, id=id, time=time, text=text)
        print_line(found.summary())
        result = run(loaded, found, samples, seed)
    header, rows = result.table()
    print_table(header, rows, title=f"{result.count:,} series", align="lrr")
    if result.classes:
        print_table(*result.class_table())
        print_table(*result.reliability_table(), title="reliability")
