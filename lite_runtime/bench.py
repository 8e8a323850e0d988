"""How long a model takes and how much memory it wants."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lite_runtime.console import lines_text
from lite_runtime.profile import Profile
from lite_runtime.session import Array, Session, TensorInfo

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Bench:
    """Latency of one entry, and its memory."""

    entry: str
    runs: int
    latency_ms: dict[str, float]  # p50, p90, p99, mean, min
    planned_bytes: int  # results and scratch of the entry
    peak_bytes: int  # of those, with tapes: what the runs took at most
    weight_bytes: int
    peak_process_bytes: int
    profile: Profile | None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        latency = "  ".join(f"{name} {ms:.3f}" for name, ms in self.latency_ms.items())
        lines = [
            f"entry {self.entry}, {self.runs} runs",
            f"latency ms      {latency}",
            f"memory          planned {kilobytes(self.planned_bytes)}, "
            f"taken {kilobytes(self.peak_bytes)}, "
            f"weights {kilobytes(self.weight_bytes)}, "
            f"process at most {kilobytes(self.peak_process_bytes)}",
        ]
        return "\n".join([lines_text(lines), *([str(self.profile)] if self.profile else [])])


def measure(
    session: Session,
    entry: str | None = None,
    *,
    runs: int = 100,
    warmup: int = 5,
    profile: bool = False,
) -> Bench:
    """Time `runs` runs of an entry on random inputs, after `warmup` others. Raises LiteError."""
    inputs = random_inputs(session, entry)
    for _ in range(warmup):
        session.run(inputs, entry)
    times_ms = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(inputs, entry)
        times_ms.append(1e3 * (time.perf_counter() - start))
    latency = {f"p{p}": float(np.percentile(times_ms, p)) for p in PERCENTILES}
    return Bench(
        entry=session.entry_name(entry),
        runs=runs,
        latency_ms=latency | {"mean": float(np.mean(times_ms)), "min": min(times_ms)},
        planned_bytes=session.planned_bytes(entry),
        peak_bytes=session.peak_bytes(entry),
        weight_bytes=sum(w.size_bytes for w in session.weight_infos),
        peak_process_bytes=peak_bytes(),
        profile=session.profile(inputs, entry) if profile else None,
    )


def random_inputs(session: Session, entry: str | None = None, seed: int = 0) -> dict[str, Array]:
    """An array for every input of an entry, at the present sizes of its free dimensions: floats in
    [0, 1); integers and bools are zero, which no operator takes for an index out of range."""
    rng = np.random.default_rng(seed)

    def array(info: TensorInfo, shape: tuple[int, ...]) -> Array:
        if info.dtype.kind == "f":
            return rng.random(shape, np.float32).astype(info.dtype)
        return np.zeros(shape, info.dtype)

    takes = session.inputs(entry)
    return {i.name: array(i, s) for i, s in zip(takes, session.input_shapes(entry), strict=True)}


def kilobytes(size_bytes: int) -> str:
    return f"{size_bytes / 1000:,.1f} kB"


def peak_bytes() -> int:
    """The most memory that this process had resident."""
    with contextlib.suppress(OSError):  # Linux: a rusage has what the program's parent had, too
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
