"""Does the converted model give the source's answers? Inputs to try, references to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cloud import interpreter
from converter.errors import ConvertError
from converter.report import Agreement
from ir.graph import Array, Graph
from ir.symbol import evaluate

Arrays = Mapping[str, Array]
FREE_SIZE = 2  # what a free dimension is set to for random inputs


def sample_inputs(graph: Graph, count: int, data: Arrays | None = None) -> list[dict[str, Array]]:
    """`count` inputs: rows of `data` (arrays by input name, examples along axis 0), else random."""
    if data:
        if missing := [v.name for v in graph.inputs if v.name not in data]:
            raise ConvertError(f"no data for input {missing}; have {sorted(data)}")
        rows = min(len(data[v.name or ""]) for v in graph.inputs)
        return [
            {
                v.name or "": data[v.name or ""][i : i + 1].astype(v.dtype.numpy)
                for v in graph.inputs
            }
            for i in range(min(count, rows))
        ]
    rng = np.random.default_rng(0)
    sizes = dict.fromkeys(graph.symbols, FREE_SIZE)
    return [{v.name or "": _random(v, sizes, rng) for v in graph.inputs} for _ in range(count)]


def run_graph(graph: Graph, inputs: Arrays) -> list[Array]:
    return interpreter.run(graph, *(inputs[v.name or ""] for v in graph.inputs))


def run_file(data: bytes, graph: Graph, inputs: Sequence[Arrays]) -> list[list[Array]]:
    """The answers of the file on the lite runtime."""
    import lite_runtime as lite

    session = lite.load(data, threads=1)
    out = []
    for x in inputs:
        y = session.run(dict(x), entry="infer")
        out.append([y[name] for name in graph.output_names])
    return out


def onnx_reference(source: Any, graph: Graph) -> Callable[[Arrays], list[Array]]:
    """The source model on ONNX Runtime where it is installed, else on onnx's own reference."""
    import onnx

    model = source if not isinstance(source, (str, Path)) else str(source)
    wanted = list(graph.output_names)
    try:
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        kinds = {i.name: i.type for i in session.get_inputs()}
        known = {o.name for o in session.get_outputs()}
        if set(wanted) <= known:
            return lambda x: session.run(wanted, {k: _cast(a, kinds[k]) for k, a in x.items()})
    except ImportError:
        pass
    proto = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(proto)
    return lambda x: list(evaluator.run(wanted, dict(x)))


def compare(
    names: Sequence[str], want: Sequence[Sequence[Array]], got: Sequence[Sequence[Array]]
) -> list[Agreement]:
    """For each output, the largest difference over all inputs; a NaN on one side is infinite."""
    found = []
    for i, name in enumerate(names):
        worst = largest = 0.0
        for a, b in zip(want, got, strict=True):
            x, y = np.asarray(a[i], np.float64), np.asarray(b[i], np.float64)
            if x.shape != y.shape:
                raise ConvertError(
                    f"output {name} is {list(y.shape)}, the source gives {list(x.shape)}"
                )
            difference = np.abs(x - y)[~(np.isnan(x) & np.isnan(y)) & (x != y)]
            worst = max(worst, float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0)))
            largest = max(largest, float(np.nan_to_num(np.abs(x)).max(initial=0.0)))
        found.append(Agreement(name, worst, worst / max(largest, 1e-6)))
    return found


def _random(v: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> Array:
    shape = tuple(evaluate(d, sizes) for d in v.shape)
    if v.dtype.is_float:
        return rng.standard_normal(shape).astype(v.dtype.numpy)
    high = 2 if v.dtype.name in ("bool", "i32") else 100
    return rng.integers(0, high, shape).astype(v.dtype.numpy)


def _cast(a: Array, kind: str) -> Array:
    names = {"tensor(int64)": "i8", "tensor(double)": "f8", "tensor(float16)": "f2"}
    return a.astype(names[kind]) if kind in names else a
