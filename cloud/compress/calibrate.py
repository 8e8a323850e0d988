"""The range of every value of a graph, seen on sample inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from cloud.train.engine import engine_for
from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import Array, Graph, Model, Value

Range = tuple[float, float]
BATCH = 32


def observe(
    graph: Graph, samples: Mapping[str, Array], *, engine: str = "lite"
) -> dict[Value, Range]:
    """The smallest and largest number in each float32 input and intermediate value.

    `samples`: arrays by input name, examples along axis 0. Raises ShapeError where a name or the
    number of examples does not fit, or a value is not finite.
    """
    values = [v for v in graph.inputs if v.dtype is DType.f32]
    values += [v for n in graph.nodes for v in n.results if v.dtype is DType.f32]
    names = tuple(f"v{i}" for i in range(len(values)))
    watched = Graph(graph.inputs, tuple(values), names)
    low, high = np.full(len(values), np.inf), np.full(len(values), -np.inf)
    runner = engine_for(Model({"infer": watched}), engine)
    for batch in _batches(graph, samples):
        seen = runner.run("infer", batch)
        for i, array in enumerate(seen[name] for name in names):
            if array.size:
                low[i], high[i] = min(low[i], array.min()), max(high[i], array.max())
    if not np.isfinite([low, high]).all():
        bad = values[int(np.argmin(np.isfinite(low) & np.isfinite(high)))]
        raise ShapeError(f"calibration: {bad!r} is empty or not finite on the samples")
    return {v: (float(a), float(b)) for v, a, b in zip(values, low, high, strict=True)}


def _batches(graph: Graph, samples: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    names = [v.name or "" for v in graph.inputs]
    if missing := [n for n in names if n not in samples]:
        raise ShapeError(f"calibration: no samples for input {missing}; have {sorted(samples)}")
    counts = {len(samples[n]) for n in names}
    if len(counts) != 1 or 0 in counts:
        raise ShapeError(f"calibration: {sorted(counts)} examples; want one number above 0 for all")
    fixed = {v.shape[0] for v in graph.inputs if v.rank and isinstance(v.shape[0], int)}
    size = int(min(fixed, default=BATCH))
    for at in range(0, counts.pop() - (size - 1 if fixed else 0), size):
        yield {v.name or "": samples[v.name or ""][at : at + size].astype(v.dtype.numpy) for v in graph.inputs}
