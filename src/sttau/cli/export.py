"""``sttau export``: a model for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sttau.cli.common import check_output, plain_errors, print_line, usage_error
from sttau.cli.model_files import ModelArgument, SamplesOption, load_model, model_path

FORMATS = ("onnx", "c", "js", "json", "npz", "hub")


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Option(help="File to write; a folder for hub.")],
    to: Annotated[str, typer.Option(help="Format: onnx, c, js, json, npz or hub; from the file name by default.")] = "",
    samples: SamplesOption = 10,
    mode: Annotated[str, typer.Option(help="ONNX: inference mode, as in predict; that of the layers by default.")] = "",
    start: Annotated[str, typer.Option(help="Automata: first token of every sequence; may be empty.")] = "^",
) -> None:
    """Write a model as ONNX or for the Hugging Face Hub, or a network over a finite alphabet as tables.

    Tables can be JSON, NumPy, C or JavaScript files.

    Example: sttau export model --out model.onnx
    """
    chosen = to or out.suffix.lstrip(".")
    if chosen not in FORMATS:
        usage_error(f"--to must be one of {', '.join(FORMATS)}, got {chosen!r}")
    check_output(out, model_path(model))
    from sttau import automata, export, hub

    with plain_errors():
        loaded = load_model(model, "cpu")
        if chosen == "hub":
            hub.write_hub_folder(loaded, out, run=_run(model))
        elif chosen == "onnx":
            export.to_onnx(loaded, out, samples=samples, mode=mode or None)  # type: ignore[arg-type]
        else:
            write = {"c": export.to_c, "js": export.to_javascript, "json": export.to_json, "npz": export.to_numpy}
            write[chosen](automata.compile(loaded, start=start or None), out)
    print_line(f"Written: {out}")


def _run(model: Path) -> dict[str, Any]:
    """The record of a training, where the model is a folder of ``sttau train``."""
    record = (model if model.is_dir() else model.parent) / "run.json"
    return dict(json.loads(record.read_bytes())) if record.exists() else {}
