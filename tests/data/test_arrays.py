from __future__ import annotations

import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sttau.data import from_arrays, read
from sttau.data.arrays import warn_padding
from sttau.errors import DataError
from tests.data.tables import LONG, same, write

SERIES = np.arange(1.0, 13.0).reshape(2, 3, 2)


def save(folder: Path, **arrays: Any) -> Path:
    path = folder / "t.npz"
    np.savez_compressed(path, **arrays)
    return path


def test_labels_1_and_2_are_two_classes_and_mean_the_same_later(tmp_path: Path) -> None:
    train = read(save(tmp_path, inputs=SERIES, labels=[1, 2]))
    assert (train.class_names, train.labels.tolist()) == (("1", "2"), [0, 1])
    assert read(save(tmp_path, inputs=SERIES, labels=[2, -1]), like=train).labels.tolist() == [1, -1]
    with pytest.raises(DataError, match="has the 'labels' '3' in row 2, which training did not: 1, 2"):
        read(save(tmp_path, inputs=SERIES, labels=[2, 3]), like=train)


def test_one_large_label_takes_no_memory(tmp_path: Path) -> None:
    path = save(tmp_path, inputs=SERIES, labels=[0, 10**9])
    tracemalloc.start()
    assert read(path).class_names == ("0", "1000000000")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


def test_a_small_file_that_unpacks_to_much_is_refused_before_it_does(tmp_path: Path) -> None:
    path = save(tmp_path, inputs=np.zeros((1 << 10, 1 << 12, 1), dtype=np.float32), labels=np.arange(1 << 10) % 2)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"t\.npz would take .* \(arrays unpacked\).*max_bytes="):
        read(path, max_bytes=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1, 1)}
    with zipfile.ZipFile(path, "w") as archive, archive.open("inputs.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(DataError, match=r"cannot be read as a \.npz.*claims 4,398,046,511,104 bytes"):
        read(path, max_bytes=1 << 50)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": np.array([[1, 2**32 + 1]])}, r"has the token id 4294967297 in row 1 at step 2"),
        ({"inputs": np.array([[1, -1]])}, r"has the token id -1 in row 1 at step 2"),
        (
            {"inputs": np.array([[1, 3]]), "vocabulary": ["a", "b", "c"]},
            r"token id 3 in row 1 at step 2; expected 0 … 2",
        ),
        ({"inputs": SERIES * 1e39, "labels": [0, 1]}, "beyond float32, in rows 1, 2"),
        ({"inputs": SERIES, "labels": [0, 1], "ids": ["a"]}, "has 1 ids; expected 2, one per series"),
        (
            {"inputs": SERIES, "labels": [0, 1], "feature_names": ["a"]},
            "has 2 features per step, but feature_names has 1",
        ),
        ({"inputs": SERIES, "labels": [0, 1], "feature_names": ["a", "a"]}, "has the same name twice in feature_names"),
        ({"inputs": SERIES[:0]}, "which hold nothing"),
    ],
)
def test_what_would_be_silently_wrong_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(save(tmp_path, **arrays))


def test_arrays_of_every_shape_become_series() -> None:
    plain = from_arrays(SERIES, ["u", "v"])
    assert torch.equal(plain.inputs, torch.tensor(SERIES, dtype=torch.float32))
    aeon = from_arrays(SERIES.swapaxes(1, 2), ["u", "v"], channels_first=True)
    assert torch.equal(aeon.inputs, plain.inputs)
    assert torch.equal(from_arrays(torch.tensor(SERIES), ["u", "v"]).inputs, plain.inputs)
    one_feature = from_arrays(SERIES[:, :, 0], [0.5, 1.5])
    assert (tuple(one_feature.inputs.shape), one_feature.class_names) == ((2, 3, 1), ())
    unequal = from_arrays([SERIES[0], SERIES[1, :2]], ["u", "v"])
    assert unequal.lengths.tolist() == [3, 2]
    assert unequal.inputs[1, 2].tolist() == [0.0, 0.0]
    turned = from_arrays([SERIES[0].T, SERIES[1, :2].T], ["u", "v"], channels_first=True)
    assert torch.equal(turned.inputs, unequal.inputs)
    objects = np.empty(2, dtype=object)
    objects[:] = [SERIES[0], SERIES[1, :2]]
    assert torch.equal(from_arrays(objects, ["u", "v"]).inputs, unequal.inputs)
    tokens = from_arrays([[1, 2, 3], [2]], ["u", "v"])
    assert (tokens.inputs.tolist(), tokens.lengths.tolist()) == ([[1, 2, 3], [2, 0, 0]], [3, 1])
    with pytest.raises(DataError, match=r"series of different kinds: \(2, 2\) float64, \(2, 3\) float64"):
        from_arrays([np.ones((2, 2)), np.ones((2, 3))], [0, 1])


def test_nan_at_the_end_is_padding_and_elsewhere_missing() -> None:
    values = SERIES.copy()
    values[0, 2] = np.nan
    before = values.copy()
    data = from_arrays(values, [0, 1])
    assert data.lengths.tolist() == [2, 3]
    assert data.inputs[0, 2].tolist() == [0.0, 0.0]
    assert np.array_equal(values, before, equal_nan=True)  # what came in is left as it was
    from_arrays(values[:, :, 0], [0, 1], lengths=[1, 1])
    assert np.array_equal(values, before, equal_nan=True)
    values[1, 0, 1] = np.nan
    with pytest.raises(DataError, match=r"missing or infinite values.* in row 2 of inputs"):
        from_arrays(values, [0, 1])
    assert int(from_arrays(values, [0, 1], missing="keep").inputs.isnan().sum()) == 1
    values[1, 0, 1] = np.inf
    with pytest.raises(DataError, match=r"missing or infinite values.* in row 2 of inputs"):
        from_arrays(values, [0, 1], missing="keep")


def test_padding_without_lengths_gives_a_warning_and_other_zeros_do_not() -> None:
    padded = SERIES.copy()
    padded[1, 1:] = 0
    with pytest.warns(UserWarning, match=r"1 of 2 series end with zeros in all features, up to 2 steps.*pass lengths="):
        from_arrays(padded, [0, 1])
    from_arrays(padded, [0, 1], lengths=[3, 1])
    with pytest.warns(UserWarning, match="1 of 2 series end with zeros"):
        warn_padding(torch.tensor([[1, 2, 3], [1, 0, 0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_padding(torch.zeros(3, 4, 1))  # nothing but zeros
        warn_padding(torch.tensor([[[1.0], [0.0], [0.0]]] * 3))  # all alike
        warn_padding(
            torch.cat([torch.rand(50, 9, 1) + 1, torch.tensor([1.0] + [0.0] * 8)[None, :, None]])
        )  # one of many


def test_arrays_are_read_with_all_that_describes_them(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    inputs = np.arange(12, dtype=np.float64).reshape(2, 3, 2)
    inputs[1, 2] = np.nan  # beyond the length: does not count
    np.savez(
        path,
        inputs=inputs,
        lengths=[3, 2],
        labels=[1, 0],
        class_names=["u", "v"],
        feature_names=["x", "y"],
        ids=["p", "q"],
    )
    data = read(path)
    assert data.inputs.dtype == torch.float32
    assert data.inputs[1].tolist() == [[6.0, 7.0], [8.0, 9.0], [0.0, 0.0]]
    assert (data.class_names, data.feature_names, data.ids) == (("u", "v"), ("x", "y"), ("p", "q"))
    assert same(data, read(path, like=data))
    np.savez(tmp_path / "new.npz", inputs=inputs, lengths=[3, 2])
    assert read(tmp_path / "new.npz", like=data).labels.tolist() == [-1, -1]


def test_arrays_of_tokens_names_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, inputs=np.array([[1, 2], [2, 1]]), labels=np.array(["v", "u"]), vocabulary=["a", "b", "c"])
    data = read(path)
    assert (data.inputs.dtype, data.labels.tolist(), data.class_names) == (torch.int32, [1, 0], ("u", "v"))
    assert data.vocabulary == ("a", "b", "c")
    np.savez(path, inputs=np.zeros((2, 3, 1)), labels=[0.5, 1.5])
    assert read(path).labels.tolist() == [0.5, 1.5]
    np.savez(path, inputs=np.zeros((2, 3, 1)), labels=[0, 2])
    assert read(path).class_names == ("0", "2")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": [1]}, "has no array 'inputs'; it has x"),
        ({"inputs": np.zeros(6)}, r"inputs of shape \(6,\) and type float64"),
        ({"inputs": np.zeros((2, 3, 1)), "lengths": [3, 4]}, "must have 2 integer lengths from 1 to 3"),
        ({"inputs": np.zeros((2, 3, 1)), "lengths": [3]}, "must have 2 integer lengths from 1 to 3"),
        ({"inputs": np.array([[[0.0]], [[np.nan]]])}, "has missing or infinite values, .* in row 2 of inputs"),
        ({"inputs": np.zeros((2, 3, 1))}, "has no targets, which training needs; in a .npz they are called 'labels'"),
        ({"inputs": np.zeros((2, 3, 1)), "labels": [1]}, r"labels of shape \(1,\)"),
        ({"inputs": np.zeros((2, 3, 1)), "labels": [0, 5], "class_names": ["u", "v"]}, "has label 5 in row 2"),
        ({"inputs": np.zeros((2, 3, 1)), "labels": [0, -1], "class_names": ["u", "v"]}, "has label -1 in row 2"),
        ({"inputs": np.array([object()])}, r"cannot be read as a \.npz of plain arrays"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_arrays_that_differ_from_training_are_refused(tmp_path: Path) -> None:
    train = read(write(tmp_path / "t.csv", LONG))
    path = tmp_path / "t.npz"
    np.savez(path, inputs=np.zeros((1, 2, 3)))
    with pytest.raises(ValueError, match="has 3 features per step, but like has 2"):
        read(path, like=train)
    np.savez(path, inputs=np.zeros((1, 2, 2)), feature_names=["pulse", "temperature"])
    with pytest.raises(ValueError, match="has other feature names than like"):
        read(path, like=train)
