"""The whole demo: every seed's run and the model library, each kept and reused while unchanged."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cloud.nas import Library, device_id
from examples.watch import data, federate, recipe, variants
from ir.files import write_whole

ROOT = Path(__file__).parents[2]
SOURCES = ("ir", "cloud", "converter", "lite_runtime", "fl_server", "examples")
LATENCY_SHARE = 0.6  # the library is searched for models under this share of the slowest one's time

Say = Callable[[str], None]
Result = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How long everything is trained."""

    epochs: recipe.Epochs = field(default_factory=recipe.Epochs)
    plan: federate.Plan = field(default_factory=federate.Plan)


@dataclass(frozen=True)
class Demo:
    """Where things are kept. `fresh`: reuse nothing of an earlier run."""

    out: Path
    cache: Path
    say: Say
    fresh: bool = False
    settings: Settings = field(default_factory=Settings)
    fleet: type[federate.Fleet] = federate.Fleet

    def seed(self, seed: int) -> Result:
        """One whole run: other people in the cloud, other weights, other batches."""
        folder = self.out / f"seed{seed}"
        kept, mark = folder / "result.json", fingerprint(seed, self.settings)
        if not self.fresh and (old := _kept(kept)).get("mark") == mark:
            self.say(f"seed {seed}: unchanged since the last run, reused")
            return old
        watch = self._data(seed)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        result = {"mark": mark, "seed": seed, **self._run(watch, folder, seed)}
        write_whole(kept, json.dumps(result).encode())
        return _kept(kept)  # the same whether new or reused

    def library(self, seed: int) -> Result:
        """The model library, and what a search by latency finds in it."""
        folder, mark = self.out / "library", fingerprint(seed, self.settings)
        facts = _kept(folder / "result.json")
        if self.fresh or facts.get("mark") != mark:
            watch, start = self._data(seed), time.perf_counter()
            shutil.rmtree(folder, ignore_errors=True)
            self._fill(Library(folder), watch, seed)
            facts = {"mark": mark, "seconds": time.perf_counter() - start}
            write_whole(folder / "result.json", json.dumps(facts).encode())
        library, device = Library(folder), device_id(1)
        library.measure()
        rows = [asdict(e) for e in library.entries.values()]
        limit = LATENCY_SHARE * max(row["latency_ms"][device] for row in rows)
        best = library.search(latency_ms=limit, task=recipe.TASK)[0]
        self.say(f"library: under {limit:.4f} ms: {best.name}, accuracy {best.accuracy:.3f}")
        found = {"models": rows, "device": device, "limit_ms": limit, "best": best.name}
        return {**found, "seconds": facts["seconds"]}

    def _run(self, watch: data.WatchData, folder: Path, seed: int) -> Result:
        def say(line: str) -> None:
            self.say(f"seed {seed}: {line}")

        say(f"cloud people {watch.cloud_people}, {len(watch.devices)} devices of the others")
        start = time.perf_counter()
        base = recipe.train_base(watch, folder, seed, say, self.settings.epochs)
        cloud_s = time.perf_counter() - start
        outcome = federate.federate(
            base.device_model,
            watch.devices,
            watch.validation,
            folder,
            seed,
            say,
            self.settings.plan,
            self.fleet,
        )
        return {
            "stages": [asdict(s) for s in base.stages],
            "outcome": {**asdict(outcome), "dropped": outcome.dropped},
            "seconds": {"cloud": cloud_s, **outcome.seconds},
        }

    def _fill(self, library: Library, watch: data.WatchData, seed: int) -> None:
        for name, content, task, accuracy, facts in variants.trained(
            watch, seed, self.settings.epochs
        ):
            entry = library.add(name, content, task=task, accuracy=accuracy, facts=facts)
            latency = entry.latency_ms[device_id(1)]
            self.say(f"library: {name}: {latency:.4f} ms, accuracy {accuracy:.3f}")

    def _data(self, seed: int) -> data.WatchData:
        return data.split(data.load(data.fetch(self.cache, self.say)), seed)


def run(demo: Demo, seeds: Sequence[int]) -> tuple[list[Result], Result]:
    """The results of all seeds, and the library's, which is made with the first seed."""
    return [demo.seed(seed) for seed in seeds], demo.library(seeds[0])


def fingerprint(seed: int, settings: Settings) -> str:
    """Changes with the settings and with every source file that a run depends on."""
    digest = hashlib.sha256(f"{seed} {settings} {data.WATCH_DATA.member_sha256}".encode())
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cc", ".h", ".inc", ".fbs"):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _kept(path: Path) -> Result:
    """What an earlier run kept; nothing if there is none or it is damaged."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
