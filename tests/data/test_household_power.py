from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sttau.data import SPLITS, load
from sttau.data.household_power import COLUMNS, SCALE, parse_minutes, read_compact, read_zip, sum_hours
from sttau.data.source import fingerprint, load_arrays

NAME = "individual+household+electric+power+consumption.zip"


def write_zip(path: Path, minutes: Any, start: Any) -> None:
    """The form of UCI: a line a minute, three decimals, question marks where nothing was measured."""
    lines = [";".join(("Date", "Time", *COLUMNS))]
    times = start + np.arange(minutes.shape[1])
    for when, values in zip(times.astype("datetime64[m]").tolist(), minutes.T.tolist(), strict=True):
        if values[0] < 0:
            numbers = "?;?;?;?;?;?;"
        else:
            numbers = ";".join(f"{value / scale:.3f}" for value, scale in zip(values, SCALE, strict=True))
        lines.append(f"{when.day}/{when.month}/{when.year};{when:%H:%M:%S};{numbers}")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("household_power_consumption.txt", "\r\n".join(lines) + "\r\n")


@pytest.fixture(scope="module")
def content(files: Any) -> dict[str, Any]:
    """The minutes themselves."""
    arrays = load_arrays(files.path("household_power/household_power_minutes.npz"))
    return {
        "minutes": np.stack([arrays[name].astype(np.int16) for name in COLUMNS]),
        "start": arrays["start"].reshape(1).astype(np.int64),
    }


def test_counts_are_the_published_ones(content: dict[str, Any]) -> None:
    minutes = content["minutes"]
    assert minutes.shape == (7, 2_075_259)
    assert int((minutes == -1).all(0).sum()) == int((minutes == -1).any(0).sum()) == 25_979
    assert sum(len(load("household_power", split)) for split in SPLITS) == 34_588


def test_facts_of_the_real_series(files: Any, content: dict[str, Any]) -> None:
    if not files.real:
        pytest.skip("facts of the real series; this is a generated stand-in")
    power = content["minutes"][0]
    assert round(float(power[power >= 0].mean()) / 1000, 4) == 1.0916
    hour = (content["start"][0] + np.arange(len(power))) // 60 - content["start"][0] // 60
    measured = np.bincount(hour, power >= 0)
    assert len(measured) == 34_589
    assert int((measured == 0).sum()) == 421


def test_ucis_archive_gives_the_same_integers(content: dict[str, Any], tmp_path: Path) -> None:
    """On 150,000 minutes, with missing ones among them."""
    some, start = content["minutes"][:, :150_000], int(content["start"][0])
    assert (some == -1).any()
    write_zip(tmp_path / NAME, some, start)
    with zipfile.ZipFile(tmp_path / NAME) as archive:
        minutes, first = parse_minutes(archive.read("household_power_consumption.txt"))
    assert np.array_equal(minutes, some)
    assert first == start
    arrays = dict(zip(COLUMNS, some, strict=True))
    np.savez(tmp_path / "household_power_minutes.npz", start=content["start"][0].astype("datetime64[m]"), **arrays)
    assert fingerprint(read_zip(tmp_path / NAME)) == fingerprint(read_compact(tmp_path / "household_power_minutes.npz"))


def test_hours_are_added_up_exactly() -> None:
    minutes = np.tile(np.array([[1, 2, -1, 4]], dtype=np.int16), (7, 1))
    hours = sum_hours(minutes, start=60 * 24 + 58)  # two minutes before an hour is full
    assert {name: np.asarray(value).tolist() for name, value in hours.items()} == {
        "sums": [[3, 4]] * 7,
        "measured": [2, 1],
        "minutes": [2, 2],
        "start": [24],
    }


def test_each_hour_predicts_the_next_and_parts_follow_one_another(files: Any, content: dict[str, Any]) -> None:
    parts = {split: load("household_power", split) for split in SPLITS}
    whole = torch.cat([part.inputs[:, 0, 0] for part in parts.values()])
    labels = torch.cat([part.labels for part in parts.values()])
    assert torch.equal(whole[1:], labels[:-1])
    names = [name for part in parts.values() for name in part.ids or ()]
    assert names == sorted(set(names))
    if files.real:
        assert (names[0], names[-1]) == ("2006-12-16T18", "2010-11-26T21")
    assert parts["test"].feature_names == COLUMNS

    # the first whole hour by hand: the series begins at 17:24
    minutes = content["minutes"][:, 36:96].astype(float)
    kilowatts = minutes[0].mean() / 1000
    offset, factor = parts["train"].label_scale or (0.0, 1.0)
    assert offset + factor * float(parts["train"].labels[0]) == pytest.approx(kilowatts, rel=1e-5)


def test_only_training_hours_set_the_scale(files: Any) -> None:
    train = load("household_power", "train")
    assert train.inputs.amin((0, 1)).tolist() == [0.0] * 7
    assert train.inputs.amax((0, 1)).tolist() == [1.0] * 7
    assert len({load("household_power", split).label_scale for split in SPLITS}) == 1


def test_hours_without_measurement_are_the_training_mean_and_counted(files: Any, content: dict[str, Any]) -> None:
    train = load("household_power", "train")
    hour = (content["start"][0] + np.arange(content["minutes"].shape[1])) // 60 - content["start"][0] // 60
    missing = np.bincount(hour, content["minutes"][0] >= 0)[:25_000] == 0
    assert missing.any()
    rows = train.inputs[torch.from_numpy(missing), 0]
    others = train.inputs[torch.from_numpy(~missing), 0]
    torch.testing.assert_close(rows, others.double().mean(0).float().expand_as(rows), rtol=1e-4, atol=1e-6)
    assert f"{int(missing.sum())} as last input" in train.provenance


def test_a_longer_history_ends_in_the_same_hour_and_is_shorter_at_the_start(files: Any) -> None:
    one, three = load("household_power", "train"), load("household_power", "train", history=3)
    assert three.inputs.shape == (25_000, 3, 7)
    assert three.lengths[:4].tolist() == [1, 2, 3, 3]
    assert torch.equal(three.labels, one.labels)
    assert torch.equal(three.inputs[torch.arange(25_000), three.lengths - 1], one.inputs[:, 0])
    assert torch.equal(three.inputs[5], one.inputs[3:6, 0])
    validation = load("household_power", "validation", history=3)
    assert torch.equal(validation.inputs[0, :2], one.inputs[-2:, 0])  # the past is known, also across the border
    with pytest.raises(ValueError, match="history must be at least 1 hour, got 0"):
        load("household_power", "train", history=0)


HEADER = ";".join(("Date", "Time", *COLUMNS)) + "\n"
LINE = "16/12/2006;17:24:00;4.216;0.418;234.840;18.400;0.000;1.000;17.000\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Date;Time\n", "its first line is"),
        (HEADER + LINE.replace("4.216", "4.2160"), "does not hold Individual household"),
        (HEADER + LINE.replace("4.216", "?"), "does not have seven values"),
        (HEADER + LINE + LINE, "line 3 is not one minute after the line before"),
        (HEADER + LINE.replace("234.840", "234.845"), "a value has more digits than were published"),
        (HEADER + LINE.replace("4.216", "x.216"), "could not be read to its end|numbers in 1 lines"),
    ],
)
def test_a_text_of_another_form_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        archive.writestr("household_power_consumption.txt", text)
    with pytest.raises(ValueError, match=message):
        load("household_power", "test", path=tmp_path)
