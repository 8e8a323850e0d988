"""The watch data set: real bytes, checked by hash; people, devices and windows kept apart."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from examples.package_data import DataError
from examples.watch import data

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def recordings(watch_file: Path) -> list[data.Recording]:
    return data.load(watch_file)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """pip is the real one, but knows no index: only the folder that comes back"""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def test_a_right_file_in_the_cache_needs_no_network(
    watch_file: Path, offline: Path, tmp_path: Path
) -> None:
    shutil.copy(watch_file, tmp_path)
    said: list[str] = []
    assert data.fetch(tmp_path, said.append) == tmp_path / watch_file.name
    assert said == []


def test_no_network_is_one_line_that_names_the_package(offline: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(DataError, match=r"pip could not download seglearn==1\.2\.5") as error:
        data.fetch(cache)
    assert "\n" not in str(error.value)
    assert list(cache.iterdir()) == []


def test_an_archive_with_another_hash_is_refused_and_leaves_nothing(
    offline: Path, tmp_path: Path
) -> None:
    _write_fake_wheel(offline / "seglearn-1.2.5-py3-none-any.whl")
    cache = tmp_path / "cache"
    with pytest.raises(
        DataError, match=f"seglearn.*SHA-256.*wanted {data.WATCH_DATA.archive_sha256}"
    ):
        data.fetch(cache)
    assert list(cache.iterdir()) == []


def test_a_damaged_file_in_the_cache_is_not_taken_for_the_data(
    offline: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "watch_dataset.npy"
    damaged.write_bytes(b"half of it")
    with pytest.raises(DataError, match="pip could not download"):
        data.fetch(tmp_path)
    with pytest.raises(DataError, match="has SHA-256"):
        data.load(damaged)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*nowhere\.npy"):
        data.load(tmp_path / "nowhere.npy")


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot write in"):
        data.fetch(tmp_path / "file")


def test_every_person_did_every_exercise_on_both_sides(recordings: list[data.Recording]) -> None:
    found = {(r.person, r.side, r.exercise) for r in recordings}
    wanted = {(p, s, e) for p in range(1, 11) for s in ("left", "right") for e in range(7)}
    assert len(recordings) == 140
    assert found == wanted
    assert all(r.samples.dtype == np.float32 and r.samples.shape[1] == 6 for r in recordings)


def test_a_known_recording_is_where_it_belongs(recordings: list[data.Recording]) -> None:
    lengths = {
        r.side: len(r.samples)
        for r in recordings
        if r.person == 7 and data.EXERCISES[r.exercise] == "PEN"
    }
    assert lengths == {"left": 1380, "right": 1333}


def test_windows_hold_the_samples_in_order() -> None:
    samples = np.arange(230 * 6, dtype=np.float32).reshape(230, 6)
    x = data.cut(samples, 50)
    assert x.shape == (3, 100, 1, 6)
    np.testing.assert_array_equal(x[2, :, 0], samples[100:200])
    assert data.cut(samples[:99], 50).shape == (0, 100, 1, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_person_is_on_two_sides_of_the_split(
    recordings: list[data.Recording], seed: int
) -> None:
    watch = data.split(recordings, seed)
    devices = {d.person for d in watch.devices}
    groups = [set(watch.cloud_people), set(watch.validation_people), devices]
    assert [len(g) for g in groups] == [2, 2, 6]
    assert len(set.union(*groups)) == 10


@pytest.mark.parametrize("seed", SEEDS)
def test_every_device_trains_and_is_tested_on_every_exercise(
    recordings: list[data.Recording], seed: int
) -> None:
    devices = data.split(recordings, seed).devices
    assert len(devices) == 24
    assert len({d.name for d in devices}) == 24
    for device in devices:
        assert set(device.train.y) == set(device.test.y) == set(range(7)), device.name
        assert len(device.train) >= 40, device.name
        assert len(device.test) >= 14, device.name


def test_no_sample_of_a_test_window_is_in_a_training_window_or_on_another_device() -> None:
    owners = _owners(data.split(_clocks(), seed=0).devices)
    for samples in owners.values():
        assert samples
    names = list(owners)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            assert not owners[first] & owners[second], (first, second)


def test_a_device_is_tested_on_what_came_after_its_training() -> None:
    for device in data.split(_clocks(), seed=0).devices:
        for exercise in range(7):
            earlier = device.train.x[device.train.y == exercise, :, 0, 0]
            later = device.test.x[device.test.y == exercise, :, 0, 0]
            assert earlier.max() < later.min(), (device.name, exercise)


def test_only_the_cloud_people_decide_the_normalisation(recordings: list[data.Recording]) -> None:
    watch = data.split(recordings, seed=0)
    others = [
        r
        if r.person in watch.cloud_people
        else data.Recording(r.person, r.side, r.exercise, r.samples * 100)
        for r in recordings
    ]
    again = data.split(others, seed=0)
    np.testing.assert_array_equal(watch.mean, again.mean)
    np.testing.assert_array_equal(watch.std, again.std)
    np.testing.assert_array_equal(watch.cloud.x, again.cloud.x)
    np.testing.assert_allclose(watch.cloud.x.mean((0, 1, 2)), 0, atol=0.02)
    np.testing.assert_allclose(watch.cloud.x.std((0, 1, 2)), 1, atol=0.02)


def test_the_same_seed_gives_the_same_split_and_another_seed_other_people(
    recordings: list[data.Recording],
) -> None:
    first, again, other = (data.split(recordings, seed) for seed in (0, 0, 1))
    assert first.cloud_people == again.cloud_people != other.cloud_people
    np.testing.assert_array_equal(first.cloud.x, again.cloud.x)
    for a, b in zip(first.devices, again.devices, strict=True):
        assert a.name == b.name
        np.testing.assert_array_equal(a.train.x, b.train.x)
        np.testing.assert_array_equal(a.test.y, b.test.y)


def test_layout_and_types_are_what_the_models_take(recordings: list[data.Recording]) -> None:
    watch = data.split(recordings, seed=0)
    every = [watch.cloud, watch.validation]
    every += [w for d in watch.devices for w in (d.train, d.test)]
    for windows in every:
        assert windows.x.shape == (len(windows), 100, 1, 6)
        assert windows.x.dtype == np.float32
        assert windows.x.flags.c_contiguous
        assert windows.y.shape == (len(windows),)
        assert windows.y.dtype == np.int32


def test_a_split_that_leaves_no_people_for_devices_is_refused() -> None:
    with pytest.raises(ValueError, match="9 cloud \\+ 2 validation of 10 people"):
        data.split(_clocks(), seed=0, cloud_people=9)


def test_augmenting_turns_each_vector_and_keeps_its_length(
    recordings: list[data.Recording],
) -> None:
    watch = data.split(recordings, seed=0)
    x, mean, std = watch.cloud.x[:32], watch.mean, watch.std
    turned = data.augment(x, mean, std, np.random.default_rng(7), scale=0.0)
    assert turned.dtype == np.float32
    assert turned.shape == x.shape
    assert np.abs(turned - x).max() > 0.1
    for sensor in (slice(0, 3), slice(3, 6)):
        before, after = ((v * std + mean)[..., sensor] for v in (x, turned))
        np.testing.assert_allclose(
            np.linalg.norm(after, axis=-1), np.linalg.norm(before, axis=-1), rtol=1e-4, atol=1e-4
        )


def test_augmenting_scales_each_sensor_and_a_seed_repeats_it(
    recordings: list[data.Recording],
) -> None:
    watch = data.split(recordings, seed=0)
    x, mean, std = watch.cloud.x[:32], watch.mean, watch.std
    first, again = (
        data.augment(x, mean, std, np.random.default_rng(7), turn_rad=0.0) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    ratio = (first * std + mean) / (x * std + mean)
    for sensor in (slice(0, 3), slice(3, 6)):
        one = np.median(ratio[..., sensor].reshape(32, -1), axis=1)
        assert 0.05 < np.log(one).std() < 0.3


def _clocks() -> list[data.Recording]:
    """Recordings without a number in common: sample t of recording i is 10,000 i + t"""
    found = []
    for person in range(1, 11):
        for side in ("left", "right"):
            for exercise in range(7):
                t = 10_000 * len(found) + np.arange(1000 + 37 * exercise, dtype=np.float32)
                found.append(data.Recording(person, side, exercise, np.repeat(t[:, None], 6, 1)))
    return found


def _owners(devices: tuple[data.DeviceData, ...]) -> dict[str, set[float]]:
    parts = {f"{d.name} {kind}": getattr(d, kind) for d in devices for kind in ("train", "test")}
    return {name: set(windows.x[..., 0].ravel().tolist()) for name, windows in parts.items()}


def _write_fake_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as wheel:
        info = "seglearn-1.2.5.dist-info"
        wheel.writestr("seglearn/data/watch_dataset.npy", b"not the data")
        about = ("Metadata-Version: 2.1", "Name: seglearn", "Version: 1.2.5", "")
        wheel.writestr(f"{info}/METADATA", "\n".join(about))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
