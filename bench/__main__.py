"""How fast the runtime is beside its peers, in turns within one run: python -m bench [--quick]

Every part runs in a process of its own, with the number of threads that numpy's library reads when
it starts. Prints a table and writes out/bench/report.json. Ratios are what to read: above 1, we are
faster. Times are of this moment of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.timing import FULL, QUICK, Row
from ir.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("inference", "training", "operators", "formulas", "matmul", "numeric", "secagg")
# Both would tell numpy's library another processor than the one it is on.
MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
# How to keep peers from wider instructions than our kernels'. ONNX Runtime has no such setting.
AVX2 = {
    "OPENBLAS_CORETYPE": "Haswell",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.worker:
        for row in measure(options.parts[0], options.threads, options.quick):
            print(json.dumps(row.as_dict()), flush=True)
        return 0
    start = time.perf_counter()
    found: list[Row] = []
    for part in options.parts:
        # All of a part's threads in one process, but for numpy, which reads theirs once.
        alone = part == "matmul"
        for threads in [[n] for n in options.threads] if alone else [options.threads]:
            found += run_part(part, threads, options)
    print(table(found))
    write_report(found, time.perf_counter() - start, options)
    print(f"{options.output}, {time.perf_counter() - start:.0f} s")
    return 0


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="fewer models and rounds: under a minute")
    p.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--avx2", action="store_true", help="keep PyTorch and numpy to AVX2 as well")
    p.add_argument("--output", type=Path, default=ROOT / "out/bench/report.json")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return p


def measure(part: str, threads: Sequence[int], quick: bool) -> Iterator[Row]:
    """The rows of one part, measured in this process."""
    turns = QUICK if quick else FULL
    if part == "inference":
        from bench import infer

        yield from infer.measure(turns, threads, infer.QUICK_CASES if quick else tuple(infer.CASES))
    elif part == "training":
        from bench import training

        yield from training.measure(turns, threads, 10 if quick else 100)
    elif part == "operators":
        from bench import operators

        cases = operators.QUICK_CASES if quick else tuple(operators.CASES)
        yield from operators.measure(turns, threads, cases)
    elif part == "formulas":
        from bench import formulas

        cases = formulas.QUICK_CASES if quick else tuple(formulas.CASES)
        yield from formulas.measure(turns, threads, cases)
    elif part == "matmul":
        from bench import matmul

        yield from matmul.measure(turns, threads[0], (64, 256) if quick else matmul.SIZES)
    elif part == "numeric":
        from bench import numeric

        yield from numeric.measure(turns, threads)
    else:
        yield from secagg_rows(20, 100_000 if quick else 1_000_000)


def secagg_rows(clients: int, length: int) -> Iterator[Row]:
    """Secure aggregation has no peer: what it costs beyond the encoding that any sum needs."""
    from bench import secagg

    found = secagg.measure(clients, length, 2)
    ours, plain = found["client: protocol, ms"], found["client: encode (in mask), ms"]
    note = "sum exact" if found["exact"] else "SUM WRONG"
    case = f"{clients} clients, {length:,} weights"
    yield Row(
        "secagg", case, 1, "encoding alone", ours, plain, "ms", plain / ours, plain / ours, note
    )


def run_part(part: str, threads: Sequence[int], options: argparse.Namespace) -> list[Row]:
    """The rows of a process of its own; each is shown when it comes."""
    words = [str(n) for n in threads]
    command = [sys.executable, "-W", "ignore", "-m", "bench", "--worker", "--parts", part]
    command += ["--threads", *words] + (["--quick"] if options.quick else [])
    environment = worker_environment(os.environ, threads[-1], options.avx2)
    found = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            if not line.startswith("{"):  # what a peer has to say
                continue
            row = Row(**json.loads(line))
            found.append(row)
            print(f"{row.part}: {row.case}, {row.threads} threads, {row.peer}: {row.ratio:.2f}")
    if worker.returncode:
        raise SystemExit(f"bench: {part} ended with exit code {worker.returncode}")
    return found


def worker_environment(given: Mapping[str, str], threads: int, avx2: bool) -> dict[str, str]:
    """Environment variables of a part: what peers read when they start."""
    kept = {k: v for k, v in given.items() if k not in MISLEADING}
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    return kept | limits | (AVX2 if avx2 else {})


def table(found: Sequence[Row]) -> str:
    """Aligned columns, a line for each row."""
    head = (
        "part",
        "case",
        "threads",
        "ours",
        "theirs",
        "unit",
        "ratio",
        "best",
        "peer",
        "agreement",
    )
    lines = [head] + [
        (
            r.part, r.case, str(r.threads), f"{r.ours:.3g}", f"{r.theirs:.3g}", r.unit,
            f"{r.ratio:.2f}", f"{r.best_ratio:.2f}", r.peer, r.note,
        )
        for r in found
    ]  # fmt: skip
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write_report(found: Sequence[Row], seconds: float, options: argparse.Namespace) -> None:
    """The rows and where they come from, as JSON."""
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "load": os.getloadavg()[0],
        "quick": options.quick,
        "avx2": options.avx2,
        "seconds": round(seconds, 1),
        "rows": [r.as_dict() for r in found],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.output, (json.dumps(report, indent=1) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
