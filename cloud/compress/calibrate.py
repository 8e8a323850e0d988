"""The range of every value of a graph, seen on sample inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from tqdm import tqdm

from cloud.compress.ranges import BINS, Histogram, Method, MinMax, Range, Step, byte_step
from cloud.train.engine import engine_for
from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import Array, Graph, Model, Value
from ir.symbol import evaluate

# Arrays by input name: examples along axis 0 or, with an axis more than the input, whole inputs
# along that, which may be states, shapes or single numbers.
Samples = Mapping[str, Array]
BATCH = 32
BATCH_BYTES = 256 << 20  # of watched values, so that a batch of large images is a smaller one


def observe(
    graph: Graph,
    samples: Samples,
    *,
    method: Method | None = None,
    step: Step = byte_step,
    engine: str = "lite",
) -> dict[Value, Range]:
    """The range to store each float32 input and intermediate value in, by default from its
    smallest to its largest number. `step`: how far apart stored numbers are.

    Raises ShapeError where a name or the number of examples does not fit, or a value is not finite.
    """
    values = [v for v in graph.inputs if v.dtype is DType.f32]
    values += [v for n in graph.nodes for v in n.results if v.dtype is DType.f32]
    low, high = np.full(len(values), np.inf), np.full(len(values), -np.inf)
    for i, array in _shown(graph, values, samples, engine):
        low[i], high[i] = np.minimum(low[i], array.min()), np.maximum(high[i], array.max())
    if not np.isfinite([low, high]).all():
        bad = values[int(np.argmin(np.isfinite(low) & np.isfinite(high)))]
        raise ShapeError(f"calibration: {bad!r} is empty or not finite on the samples")
    if method is None or not method.needs_histogram:
        method = MinMax()
    bins = BINS if method.needs_histogram else 1
    counts = np.zeros((len(values), bins), np.int64)
    seen = [Histogram(float(a), float(b), c) for a, b, c in zip(low, high, counts, strict=True)]
    if method.needs_histogram:
        for i, array in _shown(graph, values, samples, engine):
            if low[i] < high[i]:
                counts[i] += np.bincount(seen[i].places(array.reshape(-1)), minlength=bins)
    return {
        v: (h.low, h.high) if h.low == h.high else method.range(h, step)
        for v, h in zip(values, seen, strict=True)
    }


def channel_means(
    graph: Graph, values: Sequence[Value], samples: Samples, *, engine: str = "lite"
) -> dict[Value, Array]:
    """The mean of each channel (last axis) of `values` over the samples, float64 [c]."""
    sums = [np.zeros(int(v.shape[-1])) for v in values]  # type: ignore[arg-type]
    counts = [0] * len(values)
    for i, array in _shown(graph, values, samples, engine):
        rows = array.reshape(-1, array.shape[-1])
        sums[i] += rows.sum(0, dtype=np.float64)
        counts[i] += len(rows)
    return {v: s / max(n, 1) for v, s, n in zip(values, sums, counts, strict=True)}


def _shown(
    graph: Graph, values: Sequence[Value], samples: Samples, engine: str
) -> Iterator[tuple[int, Array]]:
    """(place in `values`, array) for each batch, with progress; empty arrays are left out."""
    seen = watch(graph, values, samples, engine=engine)
    for arrays in tqdm(seen, "calibrating", leave=False, disable=None):
        yield from ((i, a) for i, a in enumerate(arrays) if a.size)


def watch(
    graph: Graph,
    values: Sequence[Value],
    samples: Samples,
    *,
    most: int | None = None,
    size: int | None = None,
    engine: str = "lite",
) -> Iterator[list[Array]]:
    """What `values`, computed from the graph's inputs, are for each batch of the samples.

    `most`: as many examples are enough. `size`: of a batch, by default `batch_size`.
    """
    names = tuple(f"v{i}" for i in range(len(values)))
    watched = Graph(graph.inputs, tuple(values), names)
    runner = engine_for(Model({"infer": watched}), engine)
    for batch in _batches(graph, samples, size or batch_size(graph, values), most):
        seen = runner.run("infer", batch)
        yield [seen[name] for name in names]


def batch_size(graph: Graph, values: Sequence[Value]) -> int:
    """How many examples a batch has, so that the values of all take no more than BATCH_BYTES."""
    ones = dict.fromkeys(graph.symbols, 1)
    example = sum(
        v.dtype.size_bytes * int(np.prod([float(evaluate(d, ones)) for d in v.shape]))
        for v in values
    )
    return max(1, min(BATCH, BATCH_BYTES // max(example, 1)))


def _batches(
    graph: Graph, samples: Samples, size: int, most: int | None
) -> Iterator[dict[str, Array]]:
    names = [v.name or "" for v in graph.inputs]
    if missing := [n for n in names if n not in samples]:
        raise ShapeError(f"calibration: no samples for input {missing}; have {sorted(samples)}")
    if any(samples[v.name or ""].ndim > v.rank for v in graph.inputs):
        yield from _whole(graph, samples, most)
        return
    counts = {len(samples[n]) for n in names}
    if len(counts) != 1 or 0 in counts:
        raise ShapeError(f"calibration: {sorted(counts)} examples; want one number above 0 for all")
    count = counts.pop()
    fixed = {v.shape[0] for v in graph.inputs if v.rank and isinstance(v.shape[0], int)}
    if fixed:
        size = int(min(fixed))
        if count < size:
            raise ShapeError(f"calibration: {count} examples; the model takes {size} at once")
        count -= count % size
    for at in range(0, min(count, most or count), size):
        yield {
            v.name or "": samples[v.name or ""][at : at + size].astype(v.dtype.numpy)
            for v in graph.inputs
        }


def _whole(graph: Graph, samples: Samples, most: int | None) -> Iterator[dict[str, Array]]:
    """One run after the other: whole inputs, beside as many examples as the model takes at once."""
    sizes = [v.shape[0] for v in graph.inputs if v.rank]
    size = max((d for d in sizes if isinstance(d, int)), default=1)
    steps = {v: 0 if samples[v.name or ""].ndim > v.rank else size for v in graph.inputs}
    count = min(len(samples[v.name or ""]) // (step or 1) for v, step in steps.items())
    if not count:
        raise ShapeError("calibration: 0 whole inputs; want one at least")
    for i in range(min(count, most or count)):
        batch = {}
        for v, step in steps.items():
            array = samples[v.name or ""]
            chosen = array[i * step : (i + 1) * step] if step else array[i]
            batch[v.name or ""] = np.asarray(chosen, v.dtype.numpy)
        yield batch
