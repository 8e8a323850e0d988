"""int8 inference on one thread beside ONNX Runtime's and our own float32: python -m bench.int8

Times are those of the fastest of many calls, in turns, which is what is left to read on a busy
machine. Wants a processor with AVX2.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import lite_runtime as lite
from bench.infer import CASES, Prepared, onnx_runner

BACKENDS = ("auto", "avx2")
ROUNDS, CALLS = 12, 6


def main() -> None:
    print(f"{'':22}{'ms':>9}{'ort / ours':>12}" + "".join(f"{'f32 / ' + b:>12}" for b in BACKENDS))
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:22}{row(Prepared(name, case, Path(folder)))}", flush=True)


def row(net: Prepared) -> str:
    """Our time in ms, then ratios."""
    contenders: dict[str, Callable[[], object]] = {
        "onnxruntime": onnx_runner(net.theirs["int8"], net.x, 1)
    }
    for backend in BACKENDS:
        for precision, path in net.ours.items():
            session = lite.load(path, threads=1, backend=backend)
            contenders[f"{precision} {backend}"] = partial(session.run, net.x)
    best = fastest(contenders)
    ours = best["int8 auto"]
    ratios = [best["onnxruntime"] / ours]
    ratios += [best[f"float32 {b}"] / best[f"int8 {b}"] for b in BACKENDS]
    return f"{1e3 * ours:9.4f}" + "".join(f"{r:12.2f}" for r in ratios)


def fastest(contenders: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each one's fastest call."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            call()
            for _ in range(CALLS):
                start = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
