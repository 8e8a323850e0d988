"""A folder of `.ms` files and an index: for each model its accuracy, size and latency by device.

"The best model under 5 ms on this device" is a look-up: every model in the library is trained,
checked and ready to run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cloud.nas.cost import device_id, measure_latency_ms
from ir.files import write_whole
from lite_runtime import LiteError
from lite_runtime.files import read_file

INDEX = "library.json"
LOCK = ".lock"
FORMAT = 1
NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
)  # becomes a file's name: no way out of a folder
SHA256 = re.compile(r"[0-9a-f]{64}")
LARGEST = 1 << 53  # no size or time of ours is above, and JSON is exact up to it


class LibraryError(Exception):
    """A library that is damaged, or a request that it cannot answer; the message is one line."""


@dataclass
class Entry:
    """One model of the library. `accuracy` is in [0, 1], on the task's held-out data."""

    name: str
    task: str
    accuracy: float
    size_bytes: int
    sha256: str
    latency_ms: dict[str, float] = field(default_factory=dict)  # by device
    facts: dict[str, str] = field(default_factory=dict)  # parameters, recipe, ...

    @property
    def file(self) -> str:
        return f"{self.name}.ms"


class Library:
    """Open the library in `folder`, or start one there. Raises LibraryError if it is damaged.

    Several processes may add to one library at a time.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.entries = self._read()

    def add(
        self,
        name: str,
        model: str | Path | bytes,
        *,
        task: str,
        accuracy: float,
        threads: Iterable[int] = (1,),
        facts: dict[str, str] | None = None,
    ) -> Entry:
        """Copy a model in and measure it on this device. A model of the same name is replaced."""
        data = model if isinstance(model, bytes) else _bytes(Path(model))
        entry = Entry(name, task, float(accuracy), len(data), hashlib.sha256(data).hexdigest())
        entry.facts = dict(facts or {})
        _check(entry)
        entry.latency_ms = {device_id(t): _latency_ms(name, data, t) for t in threads}
        with self._changing():
            write_whole(self.folder / entry.file, data)
            self.entries[name] = entry
        return entry

    def measure(self, threads: int = 1, *, again: bool = False) -> None:
        """Measure on this device every model that has no latency for it yet."""
        device = device_id(threads)
        found = {
            name: _latency_ms(name, self.read(entry), threads)
            for name, entry in self.entries.items()
            if again or device not in entry.latency_ms
        }
        if found:
            measured = {name: self.entries[name].sha256 for name in found}
            with self._changing():
                for name, ms in found.items():
                    entry = self.entries.get(name)
                    if entry is not None and entry.sha256 == measured[name]:
                        entry.latency_ms[device] = ms

    def search(
        self,
        *,
        latency_ms: float | None = None,
        device: str | None = None,
        min_accuracy: float = 0.0,
        max_size_kb: float | None = None,
        task: str | None = None,
    ) -> list[Entry]:
        """The models that fit, the most accurate first (the faster, then smaller, of equals).

        `device`: by default this one with one thread. A model that was never measured on the
        device fits no latency.
        """
        device = device or device_id(1)
        never = float("inf")

        def fits(e: Entry) -> bool:
            return (
                (task is None or e.task == task)
                and e.accuracy >= min_accuracy
                and (max_size_kb is None or e.size_bytes <= max_size_kb * 1000)
                and (latency_ms is None or e.latency_ms.get(device, never) <= latency_ms)
            )

        found = [e for e in self.entries.values() if fits(e)]
        return sorted(
            found, key=lambda e: (-e.accuracy, e.latency_ms.get(device, never), e.size_bytes)
        )

    def read(self, entry: Entry) -> bytes:
        """The model's bytes, which are those that were added."""
        path = self.folder / entry.file
        data = _bytes(path)
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise LibraryError(f"{path}: not the file that was added; add it again")
        return data

    def path(self, entry: Entry) -> Path:
        """The model's file, checked against the index."""
        self.read(entry)
        return self.folder / entry.file

    def export(self, name: str, target: str | Path) -> Path:
        """Copy a model's file out of the library."""
        if name not in self.entries:
            raise LibraryError(f"no model {name!r}; has {sorted(self.entries)}")
        data, target = self.read(self.entries[name]), Path(target)
        try:
            write_whole(target, data)
        except OSError as e:
            raise LibraryError(f"{target}: {e.strerror}") from None
        return target

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """What others added meanwhile, with what the block changes, becomes the index."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / LOCK).open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed
                self.entries = self._read()
                yield
                rows = [asdict(e) for e in sorted(self.entries.values(), key=lambda e: e.name)]
                text = json.dumps({"format": FORMAT, "models": rows}, indent=2) + "\n"
                write_whole(self.folder / INDEX, text.encode())
        except OSError as e:
            raise LibraryError(f"{self.folder}: cannot write: {e.strerror}") from None

    def _read(self) -> dict[str, Entry]:
        index = self.folder / INDEX
        if not index.exists():
            return {}
        try:
            content = json.loads(index.read_bytes())
            if content["format"] != FORMAT:
                raise LibraryError(f"format {content['format']!r}, want {FORMAT}")
            entries = [_checked(Entry(**row)) for row in content["models"]]
            names = {e.name.lower() for e in entries}  # some file systems know one case only
            if len(names) != len(entries):
                raise LibraryError(f"{len(entries)} models have {len(names)} names")
        except (LibraryError, OSError, ValueError, KeyError, TypeError, RecursionError) as e:
            why = str(e) if isinstance(e, LibraryError) else f"{type(e).__name__}: {e}"
            raise LibraryError(f"{index}: not a library index ({why})") from None
        return {e.name: e for e in entries}


def _check(e: Entry) -> None:
    """Refuse what cannot be an entry, be it from a caller or from a file."""
    if not isinstance(e.name, str) or not NAME.fullmatch(e.name):
        raise LibraryError(
            f"name {str(e.name)[:120]!r}: want up to 100 of letters, digits, - _ . "
            "and a letter or digit first"
        )
    if not isinstance(e.task, str):
        raise LibraryError(f"{e.name}: task is {e.task!r}, want a text")
    if not (_is_number(e.accuracy) and 0 <= e.accuracy <= 1):
        raise LibraryError(f"{e.name}: accuracy is {e.accuracy}, want 0 to 1")
    if not (type(e.size_bytes) is int and 0 < e.size_bytes <= LARGEST):
        raise LibraryError(f"{e.name}: size_bytes is {e.size_bytes}, want 1 to {LARGEST}")
    if not isinstance(e.sha256, str) or not SHA256.fullmatch(e.sha256):
        raise LibraryError(f"{e.name}: sha256 is {e.sha256!r}, want 64 hexadecimal digits")
    if not _is_dict(e.latency_ms, lambda ms: _is_number(ms) and ms > 0):
        raise LibraryError(f"{e.name}: latency_ms is {e.latency_ms}, want milliseconds by device")
    if not _is_dict(e.facts, lambda text: isinstance(text, str)):
        raise LibraryError(f"{e.name}: facts are {e.facts}, want texts by name")


def _checked(e: Entry) -> Entry:
    _check(e)
    return e


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST  # false for NaN


def _is_dict(value: Any, fits: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and fits(v) for k, v in value.items())


def _latency_ms(name: str, data: bytes, threads: int) -> float:
    try:
        return measure_latency_ms(data, threads=threads)
    except ValueError as e:  # the runtime's refusal
        raise LibraryError(f"{name}: {e}") from None


def _bytes(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as e:
        raise LibraryError(f"{path}: {e.strerror}") from None
    except LiteError as e:  # a device or a pipe
        raise LibraryError(str(e)) from None
