"""A folder of `.ms` files and an index: for each model its accuracy, size and latency by device.

"The best model under 5 ms on this device" is a look-up: every model in the library is trained,
checked and ready to run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cloud.nas.cost import device_id, measure_latency_ms
from ir.files import write_whole

INDEX = "library.json"
FORMAT = 1


class LibraryError(Exception):
    """A library that is damaged, or a request that it cannot answer."""


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
    """Open the library in `folder`, or start one there. Raises LibraryError if it is damaged."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.entries: dict[str, Entry] = {}
        index = self.folder / INDEX
        if index.exists():
            self.entries = {e.name: e for e in _read(index)}

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
        if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
            raise LibraryError(f"name {name!r}: want letters, digits, - _ and .")
        if not 0 <= accuracy <= 1:
            raise LibraryError(f"{name}: accuracy is {accuracy}, want 0 to 1")
        data = model if isinstance(model, bytes) else _bytes(Path(model))
        entry = Entry(name, task, float(accuracy), len(data), hashlib.sha256(data).hexdigest())
        entry.facts = dict(facts or {})
        entry.latency_ms = {device_id(t): measure_latency_ms(data, threads=t) for t in threads}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / entry.file, data)
        self.entries[name] = entry
        self._save()
        return entry

    def measure(self, threads: int = 1, *, again: bool = False) -> None:
        """Measure on this device every model that has no latency for it yet."""
        device = device_id(threads)
        for entry in self.entries.values():
            if again or device not in entry.latency_ms:
                entry.latency_ms[device] = measure_latency_ms(self.path(entry), threads=threads)
        self._save()

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

    def path(self, entry: Entry) -> Path:
        """The model's file, checked against the index."""
        path = self.folder / entry.file
        data = _bytes(path)
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise LibraryError(f"{path}: not the file that was added; add it again")
        return path

    def export(self, name: str, target: str | Path) -> Path:
        """Copy a model's file out of the library."""
        if name not in self.entries:
            raise LibraryError(f"no model {name!r}; has {sorted(self.entries)}")
        return Path(shutil.copyfile(self.path(self.entries[name]), target))

    def _save(self) -> None:
        rows = [asdict(e) for e in sorted(self.entries.values(), key=lambda e: e.name)]
        text = json.dumps({"format": FORMAT, "models": rows}, indent=2) + "\n"
        write_whole(self.folder / INDEX, text.encode())


def _read(index: Path) -> list[Entry]:
    try:
        content = json.loads(index.read_bytes())
        if content["format"] != FORMAT:
            raise LibraryError(f"{index}: format {content['format']}, want {FORMAT}")
        return [Entry(**row) for row in content["models"]]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise LibraryError(f"{index}: not a library index ({type(e).__name__}: {e})") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise LibraryError(f"{path}: {e.strerror}") from None
