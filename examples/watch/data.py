"""The watch data set: fetched by name, checked by hash, cut into windows, split by person.

Ten people did seven shoulder exercises with a watch on the left, then on the right wrist: one
recording for each person, side and exercise (Burns et al. 2018, https://arxiv.org/abs/1802.01489).

A device is one person, one side and one half of each of that side's seven recordings: half "a" is
the earlier, half "b" the later one. So every device knows all exercises, no two devices share a
sample, and six people make 24 devices. A device trains on the earlier part of each of its halves
and is tested on the rest. Splitting comes before cutting, so no window crosses a border.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.package_data import PackageFile

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

EXERCISES = ("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW")
CHANNELS = ("ax", "ay", "az", "wx", "wy", "wz")
RATE_HZ = 50
WINDOW = 100  # samples: two seconds, about one repetition


WATCH_DATA = PackageFile(
    name="watch data",
    package="seglearn==1.2.5",  # BSD-3
    size_mb=11,
    member="seglearn/data/watch_dataset.npy",
    member_sha256="eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537",
    archive_sha256="ec6b952c85c9627050102854b372d85951563d3b990df677d7c55547e87413dd",
)


@dataclass(frozen=True)
class Recording:
    """One exercise of one person on one side     samples: float32 [t, 6] in g and rad/s at 50 Hz"""

    person: int
    side: str
    exercise: int
    samples: Floats


@dataclass(frozen=True)
class Windows:
    """Normalised windows and their exercises     x: float32 [n, 100, 1, 6], y: int32 [n]"""

    x: Floats
    y: Ints

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class DeviceData:
    """What one watch holds: `train` came earlier than `test` in each of its recordings"""

    name: str
    person: int
    side: str
    half: str
    train: Windows
    test: Windows


@dataclass(frozen=True)
class WatchData:
    """One split of the ten people; no person is in two of `cloud`, `validation` and `devices`

    mean, std: float32 [6], those of the cloud people's samples, which normalised everything here.
    """

    cloud: Windows
    validation: Windows
    devices: tuple[DeviceData, ...]
    mean: Floats
    std: Floats
    cloud_people: tuple[int, ...]
    validation_people: tuple[int, ...]


def fetch(cache: Path, say: Callable[[str], None] = lambda line: None) -> Path:
    """The path of the data file in the folder `cache`, downloaded with pip if it is not there

    `say` gets one line before a download. Raises DataError if pip fails or a hash is wrong.
    """
    return WATCH_DATA.fetch(cache, say)


def load(path: Path) -> list[Recording]:
    """All 140 recordings, in order of person, side and exercise

    Raises DataError if the file is missing or its hash is not the pinned one.
    """
    content = WATCH_DATA.read(path)
    # A pickle could run any code, so the bytes that are loaded are the very bytes just checked.
    table = np.load(io.BytesIO(content), allow_pickle=True).item()
    rows = zip(table["subject"], table["side"], table["y"], table["X"], strict=True)
    found = [
        Recording(int(person), "right" if side else "left", int(y), samples.astype(np.float32))
        for person, side, y, samples in rows
    ]
    return sorted(found, key=lambda r: (r.person, r.side, r.exercise))


def split(
    recordings: Sequence[Recording],
    seed: int,
    *,
    cloud_people: int = 2,
    validation_people: int = 2,
    train_share: float = 0.6,
    stride: int = 25,
    test_stride: int = 50,
) -> WatchData:
    """People drawn by `seed` for the cloud and its validation; devices made from all others

    train_share is the part of each of a device's recordings, its earlier one, to train on; stride
    and test_stride are the samples between windows to train on and to test on. Raises ValueError
    if a group has nobody.
    """
    chosen, checked = _draw(recordings, seed, cloud_people, validation_people)
    samples = np.concatenate([r.samples for r in recordings if r.person in chosen])
    mean, std = samples.mean(0, dtype=np.float64), samples.std(0, dtype=np.float64)
    scaled = [
        Recording(r.person, r.side, r.exercise, ((r.samples - mean) / std).astype(np.float32))
        for r in recordings
    ]
    others = [r for r in scaled if r.person not in chosen + checked]
    return WatchData(
        cloud=_windows((r for r in scaled if r.person in chosen), stride),
        validation=_windows((r for r in scaled if r.person in checked), test_stride),
        devices=_devices(others, train_share, stride, test_stride),
        mean=mean.astype(np.float32),
        std=std.astype(np.float32),
        cloud_people=chosen,
        validation_people=checked,
    )


def cut(samples: Floats, stride: int) -> Floats:
    """Windows that start every `stride` samples     samples: [t, 6] -> [n, 100, 1, 6], n >= 0"""
    starts = range(0, len(samples) - WINDOW + 1, stride)
    windows = np.empty((len(starts), WINDOW, 1, samples.shape[1]), np.float32)
    for i, start in enumerate(starts):
        windows[i, :, 0] = samples[start : start + WINDOW]
    return windows


def augment(
    x: Floats,
    mean: Floats,
    std: Floats,
    rng: np.random.Generator,
    *,
    turn_rad: float = 0.35,
    scale: float = 0.15,
) -> Floats:
    """x as if each watch sat a little turned and each person moved a little stronger or weaker

    x: float32 [n, 100, 1, 6], normalised with mean and std [6] -> the same shape. Each window is
    turned about its own random axis by a normal angle of deviation turn_rad, both sensors alike;
    each sensor is scaled by e^(scale·z), z normal (Um et al. 2017).
    """
    turns = _turns(rng, len(x), turn_rad)
    factors = np.exp(scale * rng.standard_normal((len(x), 1, 2, 1)))
    raw = (x * std + mean).reshape(len(x), -1, 2, 3)  # a turn is one only in g and rad/s
    turned = (np.einsum("ntsi,nij->ntsj", raw, turns) * factors).reshape(x.shape)
    return np.asarray((turned - mean) / std, np.float32)


def _turns(rng: np.random.Generator, n: int, spread_rad: float) -> NDArray[np.float64]:
    """n rotation matrices by Rodrigues' formula, axes uniform on the sphere     -> [n, 3, 3]"""
    axes = rng.standard_normal((n, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    angles = spread_rad * rng.standard_normal((n, 1, 1))
    k = np.cross(np.eye(3)[None], axes[:, None])
    turns: NDArray[np.float64] = np.eye(3) + np.sin(angles) * k + (1 - np.cos(angles)) * (k @ k)
    return turns


def _draw(
    recordings: Sequence[Recording], seed: int, cloud: int, validation: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    people = sorted({r.person for r in recordings})
    if cloud < 1 or validation < 1 or cloud + validation >= len(people):
        raise ValueError(
            f"split: {cloud} cloud + {validation} validation of {len(people)} people; "
            f"each group and the devices need at least one"
        )
    order = [int(person) for person in np.random.default_rng(seed).permutation(people)]
    return tuple(sorted(order[:cloud])), tuple(sorted(order[cloud : cloud + validation]))


def _devices(
    recordings: Sequence[Recording], train_share: float, stride: int, test_stride: int
) -> tuple[DeviceData, ...]:
    devices = []
    for person, side in sorted({(r.person, r.side) for r in recordings}):
        own = [r for r in recordings if (r.person, r.side) == (person, side)]
        for half, begin, end in (("a", 0.0, 0.5), ("b", 0.5, 1.0)):
            border = begin + train_share * (end - begin)
            devices.append(
                DeviceData(
                    name=f"p{person:02d}-{side}-{half}",
                    person=person,
                    side=side,
                    half=half,
                    train=_windows([_part(r, begin, border) for r in own], stride),
                    test=_windows([_part(r, border, end) for r in own], test_stride),
                )
            )
    return tuple(devices)


def _part(r: Recording, begin: float, end: float) -> Recording:
    first, last = round(begin * len(r.samples)), round(end * len(r.samples))
    return Recording(r.person, r.side, r.exercise, r.samples[first:last])


def _windows(recordings: Iterable[Recording], stride: int) -> Windows:
    cuts = [(cut(r.samples, stride), r.exercise) for r in recordings]
    x = np.concatenate([windows for windows, _ in cuts])
    y = np.concatenate([np.full(len(windows), exercise, np.int32) for windows, exercise in cuts])
    return Windows(x, y)
