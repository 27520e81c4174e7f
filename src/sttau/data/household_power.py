"""Electric power of one household, hour by hour (Hebrail & Berard, 2012): a regression task.

The measurements of one hour predict the global active power of the next. An hour's value is the mean over the minutes
that were measured. 421 of the 34,589 hours hold none; they stand for the mean of the training hours, in inputs and in
labels, so that the 34,588 samples of the paper come out. The tutorial the paper follows fills with the mean of the
whole series instead, and scales by all of it; here nothing after the training hours has any influence.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from sttau.data.archive import read_members
from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Array, Content, Form, Source, load_arrays, prepare

COLUMNS = (
    "Global_active_power",
    "Global_reactive_power",
    "Voltage",
    "Global_intensity",
    "Sub_metering_1",
    "Sub_metering_2",
    "Sub_metering_3",
)
#: What the integers of each column are to be divided by: the published number of digits
SCALE = (1000, 1000, 100, 10, 1, 1, 1)
MISSING = -1


def read_compact(path: Path) -> Content:
    """Read one ``.npz`` with an array of scaled integers for each column."""
    arrays = load_arrays(path)
    minutes = np.stack([arrays[name].astype(np.int16) for name in COLUMNS])
    return sum_hours(minutes, int(arrays["start"].astype("datetime64[m]").astype(np.int64)))


def read_zip(path: Path) -> Content:
    """Read UCI's archive: one text file, one line per minute, ``;`` between values, ``?`` where one is missing."""
    members = [text for _, text in read_members(path, lambda name: name.name == "household_power_consumption.txt")]
    if len(members) != 1:
        raise ValueError(f"it holds {len(members)} files household_power_consumption.txt, expected one")
    return sum_hours(*parse_minutes(members[0]))


def sum_hours(minutes: Array, start: int) -> Content:
    """Add up the minutes of each hour that were measured, exactly.

    Args:
        minutes: (columns, minutes) scaled integers, -1 where nothing was measured.
        start: First minute, counted from 1970.

    Returns:
        ``sums`` (columns, hours), ``measured`` and ``minutes`` (hours,), and ``start``, the first hour since 1970.
    """
    hour = (start + np.arange(minutes.shape[1])) // 60
    place, hours = hour - hour[0], int(hour[-1] - hour[0]) + 1
    measured = (minutes != MISSING).all(0)
    sums = [np.bincount(place[measured], column[measured], minlength=hours) for column in minutes]
    return {
        "sums": np.stack(sums).astype(np.int64),
        "measured": np.bincount(place[measured], minlength=hours).astype(np.int64),
        "minutes": np.bincount(place, minlength=hours).astype(np.int64),
        "start": hour[:1].astype(np.int64),
    }


def parse_minutes(text: bytes) -> tuple[Array, int]:
    """Turn UCI's text into integers at once: all have three decimals, so without the points they are thousandths.

    Returns:
        (columns, minutes) scaled integers, -1 where nothing was measured; and the first minute, counted from 1970.
    """
    header, _, body = text.replace(b"\r", b"").partition(b"\n")
    if header.decode("utf-8").split(";") != ["Date", "Time", *COLUMNS]:
        raise ValueError(f"its first line is {header[:100]!r}, expected Date;Time;{';'.join(COLUMNS)}")
    body = body.rstrip(b"\n") + b"\n"
    lines = body.count(b"\n")
    nothing = b";-.000" * 7 + b"\n"
    full = body.replace(b";?;?;?;?;?;?;\n", nothing).replace(b";?;?;?;?;?;?;?\n", nothing)
    if full.count(b".") != 7 * lines or b"?" in full:
        raise ValueError("a line does not have seven values with three decimals, or seven question marks")
    plain = full.replace(b"-.000", b"-1").translate(bytes.maketrans(b";:/\n", b"    "), b".")
    numbers = np.fromstring(plain, dtype=np.int32, sep=" ")
    if numbers.size != 13 * lines:
        raise ValueError(f"{numbers.size} numbers in {lines} lines, expected 13 per line")
    table = numbers.reshape(lines, 13)
    day, month, year, hour, minute = table[:, :5].T
    times = _minutes(year, month, day) + 60 * hour + minute
    if (np.diff(times) != 1).any():
        line = int(np.flatnonzero(np.diff(times) != 1)[0]) + 3
        raise ValueError(f"line {line} is not one minute after the line before")
    values = table[:, 6:]
    divisors = np.array([1000 // scale for scale in SCALE])
    missing = values == MISSING
    if (values % divisors)[~missing].any():
        raise ValueError("a value has more digits than were published")
    minutes = np.where(missing, MISSING, values // divisors).T.astype(np.int16)
    return np.ascontiguousarray(minutes), int(times[0])


def _minutes(year: Array, month: Array, day: Array) -> Array:
    """Minutes since 1970 at the beginning of a day."""
    months = (year.astype(np.int64) - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    return days * 1440


SOURCE = Source(
    name="household_power",
    title="Individual household electric power consumption",
    license="CC BY 4.0",
    citation="G. Hebrail, A. Berard, Individual Household Electric Power Consumption, UCI Machine Learning Repository, "
    "2012, doi:10.24432/C58K54",
    homepage="https://archive.ics.uci.edu/dataset/235/individual+household+electric+power+consumption",
    sizes={"train": 25_000, "validation": 2_000, "test": 7_588},
    folder="household_power",
    forms=(
        Form(
            "UCI's archive",
            ("individual+household+electric+power+consumption.zip",),
            read_zip,
            urls=("https://archive.ics.uci.edu/static/public/235/individual+household+electric+power+consumption.zip",),
        ),
        Form("one compact file", ("household_power_minutes.npz",), read_compact),
    ),
    content="67adea049249b6ed2d860042575a9454637d22161e4af7c07ac3448cce2e58c9",
)


def load_household_power(
    split: str, path: str | os.PathLike[str] | None = None, *, history: int = 1
) -> SequenceDataset:
    """Return hours in the order of time: seven measurements, and as label the global active power an hour later.

    Inputs are (samples, history, 7) and labels (samples,), both scaled to [0, 1] by the minimum and maximum of the
    training hours; ``label_scale`` leads back to kW. Each sample's id is the hour that is predicted.

    Args:
        split: ``train``, ``validation`` or ``test``: the first 25,000 hours, the next 2,000, the last 7,588.
        path: Path of the files.
        history: Hours per sequence; the first sequences have fewer. The paper uses one.
    """
    if history < 1:
        raise ValueError(f"history must be at least 1 hour, got {history}")
    arrays = prepare(SOURCE, "1", _make, ("hours", "start"), path)
    sizes = list(SOURCE.sizes.values())
    which = list(SOURCE.sizes).index(split)
    first, end = sum(sizes[:which]), sum(sizes[: which + 1])

    hours = arrays["hours"]
    training = hours[: sizes[0]]
    missing = np.isnan(hours[:, 0])
    hours = np.where(np.isnan(hours), np.nanmean(training, axis=0), hours)
    low, high = np.nanmin(training, axis=0), np.nanmax(training, axis=0)
    scaled = ((hours - low) / (high - low)).astype(np.float32)

    samples = np.arange(first, end)
    lengths = np.minimum(samples + 1, history)
    steps = np.arange(min(history, int(lengths.max())))
    rows = samples[:, None] - lengths[:, None] + 1 + steps
    inputs = np.where((steps < lengths[:, None])[:, :, None], scaled[np.minimum(rows, end - 1)], np.float32(0))
    times = arrays["start"].astype("datetime64[h]") + samples + 1
    how = (
        f"Hourly means; hours {first:,} to {end - 1:,} of 34,588 as inputs; scaled by the training hours. Hours "
        f"without any measurement are filled with the training mean: {int(missing[samples].sum())} as last input and "
        f"{int(missing[samples + 1].sum())} as label in this part"
    )
    return SequenceDataset(
        name="household_power",
        split=split,
        inputs=torch.from_numpy(inputs),
        lengths=torch.from_numpy(lengths),
        labels=torch.from_numpy(scaled[samples + 1, 0]),
        class_names=(),
        feature_names=COLUMNS,
        ids=tuple(map(str, times)),
        label_scale=(float(low[0]), float(high[0] - low[0])),
        provenance=SOURCE.provenance(how),
    )


def _make(content: Content) -> dict[str, Array]:
    """Mean of each hour over the minutes that were measured; NaN where there was none."""
    sums, measured = np.asarray(content["sums"]), np.asarray(content["measured"])
    with np.errstate(invalid="ignore"):  # 0 / 0 is the intended NaN
        hours = (sums / measured).T / np.array(SCALE)
    return {"hours": hours, "start": np.asarray(content["start"])}


DATASETS = {"household_power": Entry(load_household_power, SOURCE)}
