"""What a model costs on this device, measured on the runtime that will run it."""

from __future__ import annotations

import platform
import time
from pathlib import Path

import numpy as np

from ir.dtype import DType


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


def measure_latency_ms(model: bytes | str | Path, *, threads: int = 1, runs: int = 50) -> float:
    """The median time of one example through `infer`, in milliseconds, after warm-up runs."""
    import lite_runtime as lite

    session = lite.load(model, threads=threads)
    rng = np.random.default_rng(0)
    inputs = {}
    for spec in session.inputs("infer"):
        shape = tuple(d if isinstance(d, int) else 1 for d in spec.shape)
        dtype = DType[spec.dtype].numpy if spec.dtype in DType.__members__ else np.dtype(spec.dtype)
        floats = dtype.kind == "f"
        inputs[spec.name] = (
            rng.standard_normal(shape).astype(dtype) if floats else np.zeros(shape, dtype)
        )
    for _ in range(max(3, runs // 10)):
        session.run(inputs)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(inputs)
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3
