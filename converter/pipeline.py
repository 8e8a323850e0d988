"""From a source model to a checked `.ms` file: read, optimise, quantize, add training, write, compare."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from converter import check
from converter.errors import ConvertError
from converter.onnx_reader import read_onnx
from converter.passes import PASSES
from converter.report import Agreement, Report, count_nodes
from converter.training import TrainSpec, add_training, choose_weights
from ir import model_file
from ir.graph import Array, Graph, Model

QUANTIZE = ("none", "int8")
KINDS = ("onnx", "ms")
TOLERANCE = {
    "none": 1e-4,
    "int8": 0.25,
}  # default of `tol`: int8 moves results by quantization steps
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Options:
    """What `convert` is asked for; the fields are the flags of ms-convert."""

    kind: str | None = None
    shapes: Mapping[str, Sequence[int | str]] | None = None
    outputs: Sequence[str] = ()
    quantize: str = "none"
    calibration: Arrays | None = None
    keep_float: Sequence[str] = ()
    train: TrainSpec | None = None
    check: int = 4
    check_data: Arrays | None = None
    tol: float | None = None
    sign: bytes | None = None
    metadata: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.quantize not in QUANTIZE:
            raise ConvertError(f"quantize is {self.quantize!r}, want one of {', '.join(QUANTIZE)}")
        if self.kind not in (None, *KINDS):
            raise ConvertError(f"kind is {self.kind!r}, want one of {', '.join(KINDS)}")
        if self.quantize == "int8" and not self.calibration:
            raise ConvertError("quantize int8 needs calibration data: arrays by input name")


def convert(source: str | Path | bytes | Model, target: str | Path, **options: Any) -> Report:
    """Convert `source` (a path, the bytes of a model, or an ir.Model) to the file `target`.

    Options are the fields of `Options`. The file is written only if it loads again and its `infer`
    entry agrees with the source on `check` inputs. Raises ConvertError; then nothing is written.
    """
    start = time.perf_counter()
    asked = Options(**options)
    model, kind, size = read(source, asked)
    entry = _entry(model)
    report = Report(_name(source), str(target), kind, size, quantize=asked.quantize)
    report.nodes_read = len(entry.nodes)
    learns = any(g.updates for g in model.entries.values()) and not asked.train
    if learns and asked.quantize != "none":
        raise ConvertError(
            f"{report.source}: has a training entry; quantize before adding one (--train)"
        )
    optimised = optimise(entry if learns else choose_weights(entry, asked.train), report)
    if asked.quantize == "int8":
        from cloud.compress.quantize import quantize

        optimised = quantize(optimised, dict(asked.calibration or {}), keep_float=asked.keep_float)
    report.nodes = count_nodes(optimised)
    kept = model.entries if learns else {}  # entries over the same weights
    done = Model({**kept, "infer": optimised}, {**model.metadata, **(asked.metadata or {})})
    if asked.train:
        done = add_training(done, asked.train)
        report.trainable = [w.name or "" for w in done.weights if w.trainable]
    report.entries = list(done.entries)
    data = model_file.write(done, sign_with=asked.sign)
    report.target_bytes = len(data)
    _agree(source, entry, kind, data, asked, report)
    _write_whole(Path(target), data)
    report.seconds = time.perf_counter() - start
    return report


def read(source: str | Path | bytes | Model, asked: Options) -> tuple[Model, str, int]:
    """The source as a model, what kind it is, and its size in bytes."""
    if isinstance(source, Model):
        return source, "model", sum(w.data.nbytes for w in source.weights)
    data = _bytes(source)
    kind = asked.kind or kind_of(data)
    if kind == "ms":
        return model_file.read(data), kind, len(data)
    if kind != "onnx":
        raise ConvertError(f"{_name(source)}: {kind} models are not supported; want ONNX or .ms")
    where = source if isinstance(source, (str, Path)) else data  # a path finds external data
    return read_onnx(where, dict(asked.shapes or {}), asked.outputs), kind, len(data)


def kind_of(data: bytes) -> str:
    """onnx, ms or tflite, by content."""
    if data[4:8] == b"MSPN":
        return "ms"
    return "tflite" if data[4:8] == b"TFL3" else "onnx"


def optimise(graph: Graph, report: Report | None = None) -> Graph:
    """Every pass in turn; the report learns what each left."""
    for run in PASSES:
        graph = run(graph)
        if report is not None:
            report.passes.append({"pass": run.__name__, "nodes": len(graph.nodes)})
    return graph


def bisect(source: str | Path | bytes | Model, **options: Any) -> str | None:
    """The name of the first pass after which the graph no longer agrees with what was read."""
    asked = Options(**options)
    model, _, _ = read(source, asked)
    graph = _entry(model)
    inputs = check.sample_inputs(graph, asked.check, asked.check_data)
    want = [check.run_graph(graph, x) for x in inputs]
    for run in PASSES:
        graph = run(graph)
        found = check.compare(graph.output_names, want, [check.run_graph(graph, x) for x in inputs])
        if any(a.relative > _tolerance(asked) for a in found):
            return run.__name__
    return None


def _agree(
    source: Any, entry: Graph, kind: str, data: bytes, asked: Options, report: Report
) -> None:
    """Compare the written bytes, loaded by the runtime, with the source's own reference."""
    reference: Callable[[Arrays], list[Array]]
    if kind == "onnx":
        reference = check.onnx_reference(source, entry)
    else:

        def reference(x: Arrays) -> list[Array]:
            return check.run_graph(entry, x)

    inputs = check.sample_inputs(entry, asked.check, asked.check_data or asked.calibration)
    want = [reference(x) for x in inputs]
    got = check.run_file(data, entry, inputs)
    report.checked_inputs, report.tolerance = len(inputs), _tolerance(asked)
    report.agreement = [replace(a) for a in check.compare(entry.output_names, want, got)]
    worst: Agreement | None = max(report.agreement, key=lambda a: a.relative, default=None)
    if worst is not None and not worst.relative <= report.tolerance:
        raise ConvertError(
            f"{report.source}: output {worst.output} differs from the source by {worst.relative:.3g} "
            f"relative, tolerance {report.tolerance:g}; nothing was written (try --bisect)"
        )


def _tolerance(asked: Options) -> float:
    return TOLERANCE[asked.quantize] if asked.tol is None else asked.tol


def _entry(model: Model) -> Graph:
    if "infer" not in model.entries:
        raise ConvertError(f"no entry infer; has {list(model.entries)}")
    return model.entries["infer"]


def _bytes(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        data = Path(source).read_bytes()
    except OSError as e:
        raise ConvertError(f"{source}: {e.strerror}") from None
    if len(data) < 16:
        raise ConvertError(f"{source}: {len(data)} bytes; too short for any model")
    return data


def _name(source: Any) -> str:
    return str(source) if isinstance(source, (str, Path)) else "model"


def _write_whole(target: Path, data: bytes) -> None:
    """All of the file or none of it."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as e:
        raise ConvertError(f"{target}: {e.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, target)
    except OSError as e:
        os.unlink(temporary)
        raise ConvertError(f"{target}: {e.strerror}") from None
