"""Predictions as tables: one row per series, written to CSV, JSON lines or Parquet as they are made."""

from __future__ import annotations

import csv
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from torch import Tensor

from sttau.data import SequenceDataset, read, read_chunks
from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.models import Predictor

Row = dict[str, Any]


def predict_chunks(
    model: Predictor,
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    time: str | None = None,
    text: str | None = None,
    level: float = 0.9,
    samples: int = 10,
    seed: int = 0,
) -> Iterator[list[Row]]:
    """Predict a file of any size, some series at a time.

    Args:
        model: A model with the schema of its training data.
        path: Path of the file.
        id: Column that identifies the series; that of the training by default.
        time: Column that orders the rows of a series; that of the training by default.
        text: Column of texts; that of the training by default.
        level: Level of conformal sets and intervals.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
    """
    whole = Path(path).suffix.lower() == ".npz"
    columns: dict[str, Any] = {"id": id, "time": time, "text": text}
    parts: Any = [read(path, like=model)] if whole else read_chunks(path, like=model, **columns)
    for part in parts:
        yield prediction_rows(predict(model, part, samples=samples, seed=seed), _names(part), level)


def _names(data: SequenceDataset) -> list[str]:
    return [str(number) for number in range(1, len(data) + 1)] if data.ids is None else list(data.ids)


def prediction_rows(
    prediction: Prediction | RegressionPrediction, names: Sequence[str], level: float = 0.9
) -> list[Row]:
    """Return one row per series, with plain values.

    Args:
        prediction: Predictions, not per step.
        names: Name of each series.
        level: Level of conformal sets and intervals, where the model is calibrated.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(2, 8, num_states=4), num_classes=2)
        >>> (row,) = prediction_rows(predict(model, torch.zeros(1, 3, 2)), ["a"])
        >>> list(row)
        ['id', 'label', 'confidence', 'total', 'aleatoric', 'epistemic', 'p_0', 'p_1']
    """
    columns: dict[str, list[Any]] = {"id": list(names)}
    prediction = prediction.cpu()
    made = {name: _plain(value) for name, value in prediction.columns().items()}
    if isinstance(prediction, Prediction):
        classes = prediction.class_names or tuple(map(str, range(prediction.mean.shape[-1])))
        made["label"] = [classes[number] for number in made["label"]]
        if prediction.decisions is not None:
            sets = prediction.prediction_set(level).tolist()
            made["set"] = [" | ".join(name for name, is_in in zip(classes, row, strict=True) if is_in) for row in sets]
    elif prediction.decisions is not None:
        for end, values in zip(("low", "high"), prediction.interval(level), strict=True):
            for output in range(values.shape[1]):
                made[end + (f"_{output}" if values.shape[1] > 1 else "")] = _plain(values[:, output])
    columns |= made
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(values: Tensor) -> list[Any]:
    """Values with as many digits as float32 has."""
    return [float(f"{value:.7g}") for value in values.tolist()] if values.is_floating_point() else values.tolist()


class Writer:
    """Writes rows to a file as they come; the file has its name only when all rows are in it.

    Args:
        out: Path that ends in ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``, or an open text stream.
        json_lines: Whether to write JSON lines, whatever the path.
        live: Whether the file has its name from the start and holds every row as soon as it is written, for rows that
            may never end; not for ``.parquet``.

    Example:
        >>> import sys
        >>> with Writer(sys.stdout) as writer:
        ...     writer.write([{"id": "a", "label": "yes"}])
        id,label
        a,yes
    """

    def __init__(self, out: str | os.PathLike[str] | IO[str], json_lines: bool = False, live: bool = False) -> None:
        self._path = Path(out) if isinstance(out, str | os.PathLike) else None
        ending = "" if self._path is None else self._path.suffix.lower()
        if self._path is not None and ending not in (".csv", ".tsv", ".jsonl", ".parquet"):
            raise ValueError(
                "out must end in .csv, .tsv, .jsonl or .parquet, or be an open stream (- on the command line), "
                f"got {str(out)!r}"
            )
        if live and ending == ".parquet":
            raise ValueError(
                f"out must end in .csv, .tsv or .jsonl for rows that are written as they come, got {str(out)!r}"
            )
        self._live = live
        self._format = "jsonl" if json_lines or ending == ".jsonl" else ending.removeprefix(".") or "csv"
        self._part: Path | None = None
        self._file: IO[Any] | None = None if isinstance(out, str | os.PathLike) else out
        self._table: Any = None
        self._writer: Any = None

    def __enter__(self) -> Writer:
        if self._path is None:
            return self
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._live:
            self._file = self._path.open("w", encoding="utf-8", newline="")
            return self
        self._part = self._path.with_name(f".{self._path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
        if self._format != "parquet":
            self._file = self._part.open("w", encoding="utf-8", newline="")
        return self

    def write(self, rows: Sequence[Row]) -> None:
        """Write some rows; all rows have the same columns."""
        if not rows:
            return
        if self._format == "parquet":
            self._write_parquet(rows)
            return
        assert self._file is not None
        if self._format == "jsonl":
            self._file.writelines(json.dumps(row, ensure_ascii=self._path is None) + "\n" for row in rows)
        else:
            if self._writer is None:
                separator = "\t" if self._format == "tsv" else ","
                self._writer = csv.DictWriter(self._file, list(rows[0]), delimiter=separator, lineterminator="\n")
                self._writer.writeheader()
            self._writer.writerows(rows)
        if self._path is None or self._live:
            self._file.flush()

    def _write_parquet(self, rows: Sequence[Row]) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError('Parquet files are written with pyarrow: pip install "sttau[parquet]"') from error
        table = pyarrow.Table.from_pylist(list(rows))
        if self._table is None:
            self._table = pyarrow.parquet.ParquetWriter(self._part, table.schema)
        self._table.write_table(table)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._table is not None:
            self._table.close()
        if self._file is not None and self._path is not None:
            self._file.close()
        if self._part is not None and self._part.exists():
            if kind is None and self._path is not None:
                os.replace(self._part, self._path)
            else:
                self._part.unlink()
