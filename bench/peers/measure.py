"""Training beside the peers: runs their harness with ours among them, see README.md.

    python bench/peers/measure.py HARNESS [--workloads mlp lenet] [--threads 1 2] [--peers …]

Every contender is a process of its own; all are alive and idle while one after the other takes its
turn. Prints two tables, and adds the figures to results.jsonl in BENCH_TMP.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

OURS = "mindspan"
ADAPTER = Path(__file__).with_name("mindspan_ad.py")
WORKLOADS = (
    "mlp", "lenet", "resnet8", "mbv2_96", "tl_folded", "tl_full", "tl_cached", "transformer",
)  # fmt: skip
LIMIT_S = 200  # for a contender to come to its first step
Results = dict[str, dict[str, Any]]  # what the harness found, by contender


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("harness", type=Path, help="the folder with bench.py and adapters/")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="+", help="by default all that are installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.8, help="of each turn")
    parser.add_argument("--nice", type=int, default=0)
    options = parser.parse_args(arguments)
    if "BENCH_TMP" not in os.environ:
        parser.error("BENCH_TMP is not set; want the folder with the peers' environments")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code
    harness = load(options.harness)
    peers = [p for p in options.peers or installed(harness) if p != OURS]
    found: dict[tuple[str, int], Results] = {}
    for workload in options.workloads:
        for threads in options.threads:
            results = harness.group(
                workload,
                threads,
                [OURS, *peers],
                options.rounds,
                options.seconds,
                options.nice,
                200,
            )
            found[workload, threads] = results
            record(Path(os.environ["BENCH_TMP"]) / "results.jsonl", workload, threads, results)
    print(times(found, [OURS, *peers]))
    print(starts(found, [OURS, *peers]))
    return 0


def load(folder: Path) -> ModuleType:
    """The harness, which knows of us from now on."""
    shutil.copy(ADAPTER, folder / "adapters" / ADAPTER.name)
    spec = importlib.util.spec_from_file_location("harness", folder / "bench.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder}: no bench.py; want the peers' harness")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.PEERS[OURS] = ("venv-mindspan", "mindspan_ad:MindSpan")
    return module


def installed(harness: ModuleType) -> list[str]:
    """The peers whose environment is there."""
    root = Path(os.environ["BENCH_TMP"])
    return [p for p, (venv, _) in harness.PEERS.items() if (root / venv / "bin/python").exists()]


def record(path: Path, workload: str, threads: int, results: Results) -> None:
    """A line of JSON for each group, in the form of the harness's own report."""
    load = os.getloadavg()[0]
    line = {"workload": workload, "threads": threads, "load_after": load, "peers": results}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def times(found: dict[tuple[str, int], Results], names: Sequence[str]) -> str:
    """Milliseconds a step: the median of the quiet blocks; ours over the fastest peer's."""
    lines = [[*("workload", "threads"), *names, "ours / best peer"]]
    for (workload, threads), results in found.items():
        ms = {n: r["ms_quiet"] for n, r in results.items() if "ms_quiet" in r}
        best = min((t for n, t in ms.items() if n != OURS), default=None)
        ratio = f"{ms[OURS] / best:.2f}" if best and OURS in ms else "–"
        cells = [f"{ms[n]:.3g}" if n in ms else "–" for n in names]
        lines.append([workload, str(threads), *cells, ratio])
    return "Milliseconds a step\n\n" + markdown(lines)


def starts(found: dict[tuple[str, int], Results], names: Sequence[str]) -> str:
    """Seconds from the start of the process to the first loss, and the most resident memory."""
    lines = [["workload", "threads", *names]]
    for (workload, threads), results in found.items():
        both = [results.get(n, {}) for n in names]
        cells = [f"{r['first']:.2f} s, {r['rss_mib']:.0f}" if "rss_mib" in r else "–" for r in both]
        lines.append([workload, str(threads), *cells])
    return "\nTo the first step, and MiB resident over ten steps\n\n" + markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|---" * len(lines[0]) + "|", *rows[1:]])


if __name__ == "__main__":
    sys.exit(main())
