"""``sttau train``: from a table to a calibrated model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sttau.cli.common import (
    DeviceOption,
    FeaturesOption,
    LayoutOption,
    SeedOption,
    TaskOption,
    ThreadsOption,
    WideOption,
    check_folder,
    choose_device,
    choose_layout,
    plain_errors,
    print_line,
    print_table,
    set_threads,
    split_names,
    usage_error,
)
from sttau.cli.model_files import train_settings
from sttau.files import MODEL_FILE

#: Updates with ``--quick``.
QUICK = 300


def train(
    data: Annotated[Path, typer.Argument(help="Table of series or texts: .csv, .tsv, .jsonl, .parquet, .txt or .npz.")],
    out: Annotated[Path, typer.Option(help="Folder for the model, its log and its report.")],
    target: Annotated[str | None, typer.Option(help="Column of the target; 'label' by default.")] = None,
    id: Annotated[str | None, typer.Option(help="Column that identifies the series of a row.")] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders the rows of a series.")] = None,
    features: FeaturesOption = None,
    layout: LayoutOption = None,
    wide: WideOption = False,
    text: Annotated[str | None, typer.Option(help="Column of texts.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of groups (such as patients) to keep together.")] = None,
    task: TaskOption = None,
    method: Annotated[str, typer.Option(help="Method: st-tau, lstm, gru, ensemble, bayes, dropout, …")] = "st-tau",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Setting of the network or training, name=value; repeatable.")
    ] = None,
    validation: Annotated[float, typer.Option(help="Fraction of the series held out for validation.")] = 0.25,
    risk: Annotated[float | None, typer.Option(help="Largest error rate of accepted predictions.")] = None,
    coverage: Annotated[float, typer.Option(help="Fraction of accepted predictions, without --risk.")] = 0.9,
    quick: Annotated[bool, typer.Option("--quick", help=f"Train for {QUICK} updates only.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the interrupted training in the folder.")] = False,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 1,
) -> None:
    """Train a model on your own data, calibrate it, and write a report.

    Example: sttau train machines.csv --target failed --id machine --time hour --out model
    """
    check_folder(out)
    if out.is_dir() and any(out.iterdir()) and not resume:
        usage_error(f"{out} is not empty; --resume continues its training, or choose another folder")
    if not 0 < validation < 1:
        usage_error(f"--validation must be between 0 and 1, got {validation:g}")
    for option, share in (("--risk", risk), ("--coverage", coverage)):
        if share is not None and not 0 < share <= 1:
            usage_error(f"{option} must be above 0 and at most 1, got {share:g}")
    device = choose_device(device)
    set_threads(threads)
    given, options = train_settings(setting or [], method)
    if quick and "epochs" not in options:
        options.setdefault("updates", QUICK)
    roles = {
        "target": target, "id": id, "time": time, "text": text, "group": group, "task": task,
        "layout": choose_layout(layout, wide), "features": split_names(features),
    }  # fmt: skip
    with plain_errors(f"To continue: run the same command with --resume (what is done so far is in {out})."):
        train_file(data, out, roles, method, given, options, validation, risk, coverage, seed, device)


def train_file(
    path: Path,
    out: Path,
    roles: dict[str, Any],
    method: str = "st-tau",
    settings: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    share: float = 0.25,
    risk: float | None = None,
    coverage: float = 0.9,
    seed: int = 0,
    device: str = "cpu",
) -> None:
    """Train a model on a table and write it to a folder; what happens is printed.

    Args:
        path: Path of the table.
        out: Folder for the model, its log and its report.
        roles: Arguments of :func:`sttau.data.read`.
        method: Name of the method.
        settings: Settings of the network.
        options: Options of training.
        share: Share of the series that is held out.
        risk: Largest error rate of accepted predictions.
        coverage: Share of predictions that do not abstain, without a risk.
        seed: Seed of all randomness.
        device: Device of the model.
    """
    from sttau import calibrate, create_model, fit
    from sttau.data import read, separate, split
    from sttau.evaluation import evaluate
    from sttau.files import write_atomically
    from sttau.report.training import write_training_report
    from sttau.version import __version__

    settings, options = settings or {}, options or {}
    data = read(path, missing="keep", **roles)
    print_line(data.summary())
    if risk is not None and data.labels.is_floating_point():
        usage_error("--risk is an error rate, which a regressor does not have; use --coverage")
    train_data, held = split(data, validation=share, by=roles.get("group"), seed=seed)
    stopping, held = separate(held, seed)
    rest = "which calibrate it too" if stopping is held else f"{len(held):,} for calibration"
    print_line(f"split: {len(train_data):,} for training, {len(stopping):,} for validation, {rest}")
    model = create_model(train_data, method, seed=seed, **settings).to(device)
    print_line(f"model: {_describe(model)}")
    log = fit(
        model, train_data, validation=stopping, seed=seed, folder=out / "training", **{"metric": "nll", **options}
    )  # fmt: skip
    calibrate(model, held, risk=risk, coverage=None if risk is not None else coverage, seed=seed)
    model.save(out / MODEL_FILE)
    evaluation = evaluate(model, held, seed=seed)
    record = {
        "data": str(path.name), "roles": roles, "method": method, "settings": settings,
        "training": options, "seed": seed, "updates": len(log), "sttau": __version__,
        "validation": {name: value.value for name, value in evaluation.metrics.items()},
    }  # fmt: skip
    write_atomically(out / "run.json", json.dumps(record, indent=1).encode())
    page = write_training_report(out / "report.html", data, held, model, log, evaluation)
    header, rows = evaluation.table()
    print_table(header, rows, title=f"{evaluation.count:,} validation series")
    if stopping is held:
        print_line(
            f"The {len(held)} validation series decided when to stop and calibrated the model, so these figures are "
            "optimistic; evaluate it on further data: sttau evaluate.",
            style="yellow",
        )
    print_line(f"Model: {out / MODEL_FILE}, report: {page}")
    print_line(f"Predict: sttau predict {out} new.csv --out predictions.csv")


def _describe(model: Any) -> str:
    first = model.members[0]
    size = sum(parameter.numel() for parameter in model.parameters())
    patches = f", reads {first.patch_size} steps at once" if first.patch_size > 1 else ""
    several = f"{len(model.members)} × " if len(model.members) > 1 else ""
    return f"{several}{first.layer}, {size:,} parameters{patches}"
