"""The main job, `make demo`: cloud → compression → devices → secure federation → report."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cloud.nas import Library, device_id
from converter import ConvertError
from examples.watch import data, federate, recipe, report, variants
from fl_server.errors import FlError

SEEDS = (0, 1, 2)
ROOT = Path(__file__).parents[2]
SOURCES = ("ir", "cloud", "converter", "lite_runtime", "fl_server", "examples")
LATENCY_SHARE = 0.6  # the library is searched for models under this share of the slowest one's time


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.watch", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="(%(default)s)")
    parser.add_argument("--data", type=Path, default=Path("out/data"), help="(%(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="(%(default)s)")
    parser.add_argument("--fresh", action="store_true", help="reuse nothing of an earlier run")
    args = parser.parse_args()
    say = _Clock()
    try:
        found = [_seed(seed, args, say) for seed in args.seeds]
        library = _library(args, say)
    except (data.DataError, ConvertError, federate.DemoError, FlError) as e:
        print(f"demo: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; finished seeds are kept", file=sys.stderr)
        return 1
    result = report.summarise(found, library, say.seconds())
    (args.out / "report.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.out / "report.html").write_text(report.page(result))
    print(report.text(result))
    print(f"\n{args.out / 'report.html'} and {args.out / 'report.json'}")
    return 0


def _seed(seed: int, args: argparse.Namespace, say: _Clock) -> dict[str, Any]:
    """One whole run: other people in the cloud, other weights, other batches."""
    folder = args.out / f"seed{seed}"
    kept, mark = folder / "result.json", _fingerprint(seed)
    if not args.fresh and kept.exists() and (old := json.loads(kept.read_text()))["mark"] == mark:
        say(f"seed {seed}: unchanged since the last run, reused")
        return dict(old)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    watch = data.split(data.load(data.fetch(args.data, say)), seed)
    say(
        f"seed {seed}: cloud people {watch.cloud_people}, {len(watch.devices)} devices of the others"
    )
    start = time.perf_counter()
    base = recipe.train_base(watch, folder, seed, lambda line: say(f"seed {seed}: {line}"))
    trained = time.perf_counter()
    outcome = federate.federate(
        base.device_model, watch.devices, folder, seed, lambda line: say(f"seed {seed}: {line}")
    )
    result = {
        "mark": mark,
        "seed": seed,
        "stages": [asdict(s) for s in base.stages],
        "outcome": {**asdict(outcome), "dropped": outcome.dropped},
        "seconds": {"cloud": trained - start, "federation": time.perf_counter() - trained},
    }
    kept.write_text(json.dumps(result))
    return result


def _library(args: argparse.Namespace, say: _Clock) -> dict[str, Any]:
    """The model library, and what a search by latency finds in it."""
    folder, seed = args.out / "library", args.seeds[0]
    library, mark = Library(folder), folder / "mark"
    if args.fresh or not mark.exists() or mark.read_text() != _fingerprint(seed):
        shutil.rmtree(folder, ignore_errors=True)
        library = Library(folder)
        watch = data.split(data.load(data.fetch(args.data, say)), seed)
        big = recipe.teacher(np.random.default_rng(seed))
        recipe.train_teacher(big, watch, seed)
        for name, content, task, accuracy, facts in variants.trained(watch, big, seed):
            entry = library.add(name, content, task=task, accuracy=accuracy, facts=facts)
            latency = entry.latency_ms[device_id(1)]
            say(f"library: {name}: {latency:.4f} ms, accuracy {accuracy:.3f}")
        mark.write_text(_fingerprint(seed))
    rows = [asdict(e) for e in library.entries.values()]
    limit = LATENCY_SHARE * max(row["latency_ms"][device_id(1)] for row in rows)
    best = library.search(latency_ms=limit, task=recipe.TASK)[0]
    say(
        f"library: the best model under {limit:.4f} ms is {best.name}, accuracy {best.accuracy:.3f}"
    )
    return {"models": rows, "device": device_id(1), "limit_ms": limit, "best": best.name}


def _fingerprint(seed: int) -> str:
    """Changes with every source file that a run depends on."""
    digest = hashlib.sha256(f"{seed} {data.MEMBER_SHA256}".encode())
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cc", ".h", ".inc", ".fbs"):
                digest.update(path.read_bytes())
    return digest.hexdigest()


class _Clock:
    """Says each step with the seconds since the start."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def __call__(self, line: str) -> None:
        print(f"[{self.seconds():5.1f} s] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
