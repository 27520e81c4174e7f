"""The report of a trained model: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from sttau.data import SequenceDataset
from sttau.evaluation import Evaluation
from sttau.files import write_atomically
from sttau.inference import Prediction
from sttau.metrics import reliability_curve, risk_coverage_curve
from sttau.models import Predictor
from sttau.plotting.learning_curve import learning_figure
from sttau.plotting.reliability import reliability_axes
from sttau.plotting.style import GREEN, INK, MUTED, look
from sttau.report.page import as_svg, render
from sttau.training import Update


def write_training_report(
    path: Path, data: SequenceDataset, held_out: SequenceDataset, model: Predictor, log: Sequence[Update],
    evaluation: Evaluation,
) -> Path:  # fmt: skip
    """Write the report of a training run.

    Args:
        path: Path of the page.
        data: All of the data, which is summarized.
        held_out: Validation data that was evaluated.
        model: Trained and calibrated model.
        log: Updates of the training.
        evaluation: Evaluation on the validation data.

    Returns:
        The path of the page.
    """
    with look():
        figures = {"learning": learning_figure(log)} if log else {}
        if isinstance(evaluation.prediction, Prediction):
            figures["certainty"] = certainty_figure(evaluation.prediction, held_out)
        about = {"learning": "Training", "certainty": "Certainty"}
        pictures = {name: as_svg(figure, about[name]) for name, figure in figures.items()}
    header, rows = evaluation.table()
    class_header, class_rows = evaluation.class_table()
    decisions = model.decisions
    page = render(
        "training.html.j2",
        summary=data.summary(),
        model=repr(model),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        updates=len(log),
        header=header,
        rows=rows,
        class_header=class_header,
        class_rows=class_rows,
        pictures=pictures,
        temperature=getattr(model.members[0], "logit_temperature", None),
        abstention=None if decisions is None else decisions.abstention,
        count=evaluation.count,
        steps=[
            (f"sttau evaluate {path.parent.name} test.csv", "evaluate the model on data that had no part in training."),
            (
                f"sttau predict {path.parent.name} new.csv --out predictions.csv",
                "predict new series; uncertain ones abstain.",
            ),
            (f"sttau serve {path.parent.name}", "see it in the browser, and use it over HTTP."),
        ],
    )
    return write_atomically(path, page.encode())


def certainty_figure(prediction: Prediction, data: SequenceDataset) -> Figure:
    """Draw accuracy against confidence, and the error of what is accepted against the share that is accepted."""
    labels = data.labels.long().cpu()
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    reliability_axes(left, reliability_curve(prediction.mean, labels), "reliability", GREEN)
    wrong = (prediction.label != labels).double()
    curve = risk_coverage_curve(prediction.uncertainty, wrong)
    right.plot(100 * curve.coverage, 100 * curve.risk, color=INK, linewidth=2)
    decisions = prediction.decisions
    if decisions is not None and decisions.abstention is not None:
        right.axvline(100 * float((~prediction.abstain).double().mean()), color=MUTED, linewidth=1, linestyle="--")
    right.set(xlabel="predictions accepted, %", ylabel="error of accepted predictions, %", title="abstention")
    right.set_xlim(0, 100)
    right.set_ylim(bottom=0)
    return figure
