"""What a model costs on this device, measured on the runtime that will run it."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

BATCH_S = 1e-3  # a clock's grain and a call's jitter vanish in a batch of runs this long
BATCHES, LEAST_BATCHES = 50, 5
BUDGET_S = 1.0  # slow models are timed by fewer batches


def device_id(threads: int) -> str:
    """A name for this processor and number of threads, such as x86_64-amd_epyc-1t."""
    name = platform.machine() or "unknown"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1] for line in lines if line.startswith("model name")), "")
    except OSError:
        model = platform.processor()
    words = "_".join("".join(c if c.isalnum() else " " for c in model.lower()).split())
    return "-".join(filter(None, (name, words, f"{threads}t")))


def measure_latency_ms(model: bytes | str | Path, *, threads: int = 1) -> float:
    """The median time of one example through `infer`, in milliseconds, the call from Python
    included. Free dimensions are as small as the model lets them be. Raises LiteError."""
    import lite_runtime as lite
    from lite_runtime.bench import random_inputs

    session = lite.load(model, threads=threads)
    inputs = random_inputs(session, "infer")
    return 1e3 * median_s(lambda: session.run(inputs, "infer"))


def median_s(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The median time of a call in seconds, over batches of calls after one batch that warms up.

    A median ignores the batches in which something else had the processor.
    """
    start = clock()
    call()
    first = clock() - start
    warm = _timed(call, _size(first), clock)
    size = _size(warm)
    batches = max(LEAST_BATCHES, min(BATCHES, int(BUDGET_S / max(size * warm, 1e-9))))
    return float(np.median([_timed(call, size, clock) for _ in range(batches)]))


def _size(call_s: float) -> int:
    return max(1, min(1000, round(BATCH_S / max(call_s, 1e-9))))


def _timed(call: Callable[[], object], size: int, clock: Callable[[], float]) -> float:
    """Seconds of one call, the mean of `size` of them."""
    start = clock()
    for _ in range(size):
        call()
    return (clock() - start) / size
