"""Sharing models through the Hugging Face Hub: a folder that it accepts, upload and download."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sttau.files import write_atomically
from sttau.metrics.registry import COLUMNS
from sttau.models import Predictor, load
from sttau.tables import markdown_table
from sttau.version import __version__

__all__ = ["MODEL_FILE", "from_pretrained", "model_card", "push_to_hub", "write_hub_folder"]

MODEL_FILE = "model.safetensors"

_LIMITS = """\
- Probabilities, thresholds and conformal sets hold for data from the source of the validation data. After a change of
  the source, calibrate again.
- The OOD threshold bounds false alarms on in-distribution data. It does not promise to find OOD input.
- The metrics are those of the data named above; evaluate the model on your own data before you rely on it."""


def write_hub_folder(
    model: Predictor, folder: str | os.PathLike[str], *, run: Mapping[str, Any] | None = None, license: str = ""
) -> Path:
    """Write a model as a folder that the hub accepts: ``config.json``, ``model.safetensors`` and a model card.

    Args:
        model: Trained model.
        folder: Folder to write.
        run: Record of the training, as in the ``run.json`` of ``sttau train``: ``data``, ``method``, ``settings``,
            ``training``, ``seed``, ``updates`` and ``validation``, metrics by name.
        license: Name of a license for the card, such as ``apache-2.0``.

    Returns:
        The folder.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = write_hub_folder(model, f"{folder}/share", run={"data": "digits", "validation": {"pe": 2.5}})
        ...     sorted(path.name for path in made.iterdir()), from_pretrained(made).num_classes
        (['README.md', 'config.json', 'model.safetensors'], 3)
    """
    target = Path(folder)
    model.save(target / MODEL_FILE)
    config = {"library_name": "sttau", "sttau_version": __version__, "task": model.task, **model.config()}
    write_atomically(target / "config.json", json.dumps(config, indent=1).encode())
    write_atomically(target / "README.md", model_card(model, run=run, license=license).encode())
    return target


def model_card(model: Predictor, *, run: Mapping[str, Any] | None = None, license: str = "") -> str:
    """Return the card of a model in Markdown: data, metrics, calibration and limits.

    Args:
        model: Trained model.
        run: Record of the training; see :func:`write_hub_folder`.
        license: Name of a license.
    """
    known = dict(run or {})
    first = model.members[0]
    header = ["library_name: sttau", "tags:", "- sttau", f"- {model.task}", "- uncertainty"]
    header += [f"license: {license}"] if license else []
    size = sum(parameter.numel() for parameter in model.parameters())
    several = f"{len(model.members)} networks, each " if len(model.members) > 1 else ""
    lines = ["---", *header, "---", "", f"# {known.get('data', 'sequences')}: {model.task} of sequences", ""]
    lines += [f"{several}`{first.layer!r}`, {size:,} parameters; written by sttau {__version__}.", "", "```python"]
    lines += ["import sttau.hub", "", 'model = sttau.hub.from_pretrained("OWNER/NAME")', "```", "", "## Data", ""]
    lines += [f"- {text}" for text in _data(model, known)]
    training = {name: known[name] for name in ("method", "settings", "training", "seed", "updates") if name in known}
    if training:
        lines += ["", "## Training", "", *(f"- {name}: {json.dumps(value)}" for name, value in training.items())]
    lines += ["", "## Metrics", ""]
    metrics = {name: value for name, value in dict(known.get("validation", {})).items() if name in COLUMNS}
    if metrics:
        rows = [[COLUMNS[name].heading, f"{value:.{COLUMNS[name].digits}f}"] for name, value in metrics.items()]
        lines += [markdown_table(rows, ["metric", "validation data"], text_columns=1)]
    else:
        lines += ["None were recorded."]
    lines += [
        "",
        "## Calibration",
        "",
        *(f"- {text}" for text in _calibration(model)),
        "",
        "## Limits",
        "",
        _LIMITS,
        "",
    ]
    return "\n".join(lines)


def push_to_hub(
    model: Predictor,
    repo_id: str,
    *,
    run: Mapping[str, Any] | None = None,
    license: str = "",
    private: bool | None = None,
    token: str | bool | None = None,
    endpoint: str | None = None,
    message: str = "Upload a model of sttau",
) -> str:
    """Upload a model to the hub; the repository is created if there is none.

    Args:
        model: Trained model.
        repo_id: Name of the repository, ``OWNER/NAME``.
        run: Record of the training; see :func:`write_hub_folder`.
        license: Name of a license for the card.
        private: Whether a new repository is private.
        token: Access token; that of ``hf auth login`` by default.
        endpoint: Address of the hub, where it is not the public one.
        message: Message of the commit.

    Returns:
        The address of the commit.
    """
    api = _require_hub().HfApi(endpoint=endpoint, token=token, library_name="sttau", library_version=__version__)
    api.create_repo(repo_id, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = write_hub_folder(model, folder, run=run, license=license)
        commit = api.upload_folder(repo_id=repo_id, folder_path=made, commit_message=message)
    return str(commit.commit_url)


def from_pretrained(
    name: str | os.PathLike[str],
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    endpoint: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> Any:
    """Load a model from a repository of the hub, or from a folder of :func:`write_hub_folder`.

    Only the safetensors file is read; nothing that is downloaded is executed.

    Args:
        name: Name of a repository, ``OWNER/NAME``, or a folder.
        revision: Branch, tag or commit.
        token: Access token.
        endpoint: Address of the hub, where it is not the public one.
        cache: Folder for downloads; that of huggingface_hub by default.
        device: Device of the model.
    """
    if Path(name).is_dir():
        return load(Path(name) / MODEL_FILE, device)
    path = _require_hub().hf_hub_download(
        str(name), MODEL_FILE, revision=revision, token=token, endpoint=endpoint, cache_dir=cache,
        library_name="sttau", library_version=__version__,
    )  # fmt: skip
    return load(path, device)


def _require_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError("this needs huggingface_hub: pip install 'sttau[hub]'") from error
    return huggingface_hub


def _data(model: Predictor, known: Mapping[str, Any]) -> list[str]:
    reads = f"{model.num_tokens} tokens" if model.reads_tokens else f"{model.num_features} features per step"
    lines = [f"trained on: {known['data']}"] if "data" in known else ["trained on: not recorded"]
    lines.append(f"reads: {reads}" + (f" ({', '.join(model.feature_names)})" if model.feature_names else ""))
    if model.class_names:
        lines.append(f"classes: {', '.join(model.class_names)}")
    return lines


def _calibration(model: Predictor) -> list[str]:
    decisions = model.decisions
    if decisions is None:
        return ["not calibrated: call `sttau.calibrate(model, validation_data)`"]
    lines = [f"calibrated on {len(decisions.loss):,} validation sequences"]
    temperature = getattr(model.members[0], "logit_temperature", None)
    lines += [] if temperature is None else [f"temperature of the logits: {temperature:.3f}"]
    if decisions.abstention is not None:
        chosen = decisions.abstention
        risk = "" if chosen.risk is None else f", with a mean loss of {chosen.risk:.4g}"
        lines.append(f"abstains for {chosen.goal} {chosen.wanted:g}: accepts {100 * chosen.coverage:.1f} %{risk}")
    if decisions.ood is not None:
        lines.append(f"OOD threshold: {100 * decisions.ood.wanted:g} % false alarms")
    if model.detector is not None:
        lines.append(f"OOD detector: {model.detector.name}")
    return lines
