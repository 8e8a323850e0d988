"""Data divided among devices: by which rule each example went where, and files that are no data."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from fl_server.errors import SettingsError
from fl_server.fleet.datasets import from_arrays, idx_images
from fl_server.fleet.splits import Labels, split_of

LABEL = np.repeat(np.arange(10), 200)
USER = np.arange(len(LABEL)) % 7
DATA = Labels(LABEL, USER)


def parts_of(split: str, devices: int, data: Labels = DATA, seed: int = 0) -> list[np.ndarray]:
    return split_of(split)(data, devices, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "split", ["iid", "dirichlet:0.5", "dirichlet:100", "labels:2", "labels:10"]
)
def test_every_example_is_on_one_device_and_a_seed_decides_which(split):
    first, again, other = (parts_of(split, 12, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(np.sort(np.concatenate(first)), np.arange(len(LABEL)))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert min(map(len, first)) >= 10


def test_iid_devices_have_as_many_examples_and_all_classes():
    parts = parts_of("iid", 16)
    assert {len(part) for part in parts} == {125}
    assert all(len(np.unique(LABEL[part])) == 10 for part in parts)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_devices_with_few_labels_have_just_so_many_and_every_label_is_somewhere(count):
    parts = parts_of(f"labels:{count}", 15)
    assert {len(np.unique(LABEL[part])) for part in parts} == {count}
    # Those who share a class have as much of it, give or take one.
    for kind in range(10):
        having = [n for part in parts if (n := int((LABEL[part] == kind).sum()))]
        assert max(having) - min(having) <= 1


def test_a_small_alpha_skews_labels_more_than_a_large_one():
    def unevenness(alpha: float) -> float:
        parts = parts_of(f"dirichlet:{alpha}", 10)
        shares = [np.bincount(LABEL[part], minlength=10) / len(part) for part in parts]
        return float(np.mean([share.max() for share in shares]))

    assert unevenness(0.2) > unevenness(2) > unevenness(1000) > 0.1


def test_a_device_that_has_its_share_of_all_examples_gets_no_more_classes():
    parts = parts_of("dirichlet:0.2", 10)
    # Beyond the equal share by less than the one class that took it there.
    assert max(map(len, parts)) < len(LABEL) / 10 + 200


def test_users_are_devices_and_those_with_too_few_examples_none():
    parts = parts_of("user", 7)
    assert [set(USER[part]) for part in parts] == [{i} for i in range(7)]
    uneven = Labels(LABEL, np.where(np.arange(len(LABEL)) < 5, 99, USER))
    assert 99 not in {user for part in parts_of("user", 7, uneven) for user in uneven.user[part]}
    assert len(parts_of("user", 3)) == 3


@pytest.mark.parametrize(
    ("split", "devices", "data", "message"),
    [
        ("dirichlet", 10, DATA, "split 'dirichlet': want iid, dirichlet:ALPHA, labels:K or user"),
        ("dirichlet:nan", 10, DATA, "split 'dirichlet:nan': want"),
        ("labels:0", 10, DATA, "split 'labels:0': want"),
        ("labels:two", 10, DATA, "split 'labels:two': want"),
        ("iid:3", 10, DATA, "split 'iid:3': want"),
        ("iid", 300, DATA, "2000 examples leave 6 for one of 300 devices, want 10 or more"),
        ("labels:2", 9, DATA, "labels:2 of 10 classes on 9 devices; want"),
        ("labels:11", 20, DATA, "labels:11 of 10 classes on 20 devices; want"),
        ("dirichlet:0.01", 60, DATA, "dirichlet:0.01 left one of 60 devices with fewer than 10"),
        ("user", 8, DATA, "7 users have 10 examples or more, want 8, the devices"),
        ("user", 2, Labels(LABEL), "split user: the data have no array `user`"),
    ],
)
def test_a_split_that_cannot_be_made_says_why(split, devices, data, message):
    with pytest.raises(SettingsError) as caught:
        parts_of(split, devices, data)
    assert str(caught.value).startswith(message)


def test_labels_that_are_no_classes_are_refused():
    with pytest.raises(SettingsError, match=r"label is float64\[3\], want a whole number"):
        Labels(np.zeros(3))
    with pytest.raises(SettingsError, match=r"\[2\] users for \[3\] labels"):
        Labels(np.zeros(3, int), np.zeros(2))


def write_idx(folder: Path, part: str, count: int, zipped: bool, labels: int | None = None) -> None:
    rng = np.random.default_rng(count)
    pixels = rng.integers(0, 256, (count, 28, 28)).astype(np.uint8)
    label = np.arange(count if labels is None else labels, dtype=np.uint8) % 10
    for name, array in {"images-idx3": pixels, "labels-idx1": label}.items():
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        raw = head + array.tobytes()
        path = folder / f"{part}-{name}-ubyte{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(raw) if zipped else raw)


def test_the_files_of_mnist_are_images_from_0_to_1_and_their_labels(tmp_path):
    write_idx(tmp_path, "train", 30, zipped=True)
    write_idx(tmp_path, "t10k", 12, zipped=False)
    data = idx_images(tmp_path)
    assert data.train["image"].shape == (30, 28, 28, 1)
    assert data.train["image"].dtype == np.float32
    assert data.train["image"].min() == 0
    assert data.train["image"].max() == 1
    assert data.test["label"].tolist() == [*range(10), 0, 1]
    assert data.user is None


def test_files_that_are_not_those_of_mnist_are_refused(tmp_path):
    write_idx(tmp_path, "t10k", 12, zipped=False)
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte\.gz"):
        idx_images(tmp_path)
    write_idx(tmp_path, "train", 5, zipped=False, labels=4)
    with pytest.raises(SettingsError, match="5 train images and 4 labels"):
        idx_images(tmp_path)
    images = tmp_path / "train-images-idx3-ubyte"
    whole = images.read_bytes()
    for damaged in (whole[:-1], whole + b"\0", b"\1" + whole[1:], b"", whole[:10]):
        images.write_bytes(damaged)
        with pytest.raises(SettingsError, match="not an idx file of bytes with 3 dimensions"):
            idx_images(tmp_path)
    images.unlink()
    zipped = images.with_name(images.name + ".gz")
    for damaged in (whole, gzip.compress(whole)[:-9], gzip.compress(whole)[:40] + b"x" * 99):
        zipped.write_bytes(damaged)
        with pytest.raises(SettingsError, match="not gzip"):
            idx_images(tmp_path)


def test_arrays_of_a_file_are_inputs_labels_users_and_what_is_held_out():
    x, label = np.zeros((4, 3), np.float32), np.zeros(4, np.int32)
    data = from_arrays(
        {"x": x, "label": label, "user": np.arange(4), "test_x": x[:2], "test_label": label[:2]},
        "d.npz",
    )
    assert set(data.train) == set(data.test) == {"x", "label"}
    assert data.user.tolist() == [0, 1, 2, 3]
    for wrong, message in (
        ({"x": x}, r"d.npz: holds \['x'\], want `label` and the inputs"),
        ({"x": x, "label": label[:3]}, "d.npz: examples {'x': 4, 'label': 3}, want as many"),
        ({"x": np.float32(1), "label": label}, "d.npz: examples {'x': 0, 'label': 4}"),
        ({"x": x, "label": label, "test_x": x}, r"d.npz: test_ \['x'\], want those of"),
    ):
        with pytest.raises(SettingsError, match=message):
            from_arrays(wrong, "d.npz")
