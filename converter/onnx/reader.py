"""ONNX → graph: walk the nodes in order and let `rules` say what each becomes.

While reading, a name stands for one of three things: a `Value` of the graph under construction, a
`Weight` (a float initializer, which keeps its name), or a numpy array that is known already. Shapes
are such arrays too, with symbolic sizes as elements (dtype object), so that the shape arithmetic
of exporters folds away while it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ConvertError, FixedSize
from converter.items import (
    RULE_ERRORS,
    SMALL,
    Item,
    Items,
    Shapes,
    as_value,
    identifier,
    narrow,
    without_nan,
)
from converter.onnx.functions import all_nodes, graphs_of, written_out
from converter.onnx.rules import RULES, Names, Reader
from converter.onnx.rules.common import READING
from converter.onnx.unsupported import Problems, operator_of
from ir.dtype import DType
from ir.graph import Graph, Model, Value, Weight
from ir.ops.shaping import cast
from ir.symbol import symbol, symbols

SMALL_TYPES = {2: "8 bits", 3: "8 bits", 10: "16 bits", 16: "16 bits"}  # by ONNX's numbers
DOMAINS = ("", "ai.onnx")


def read_onnx(source: Any, shapes: Shapes | None = None, outputs: Sequence[str] = ()) -> Model:
    """The model's graph as entry `infer`. `source`: a path, bytes or an onnx.ModelProto.

    `shapes` replaces input shapes (a name makes a free dimension); `outputs` cuts the graph there.
    Raises ConvertError, or UnsupportedError that lists every node that has no counterpart.
    """
    proto = parse(source)
    fixed: dict[str, int] = {}
    while True:
        try:
            return _read(proto, shapes or {}, outputs, fixed)
        except FixedSize as e:
            if e.name in fixed:
                raise ConvertError(f"size {e.name} is {fixed[e.name]} and {e.size}") from None
            fixed[e.name] = e.size


def _read(proto: Any, shapes: Shapes, outputs: Sequence[str], fixed: Mapping[str, int]) -> Model:
    onnx = import_onnx()
    graph = proto.graph
    wanted = list(outputs) or [o.name for o in graph.output]
    made = [name for node in graph.node for name in node.output if name]
    have = {*made, *(v.name for v in (*graph.input, *graph.initializer, *graph.output))}
    if unknown := [name for name in wanted if name not in have]:
        raise ConvertError(f"no output {unknown}; there are {', '.join(made) or 'none'}")
    nodes = _needed(graph, wanted)
    problems = Problems(RULES, DOMAINS)
    opset = max((o.version for o in proto.opset_import if o.domain in DOMAINS), default=1)
    newest = onnx.defs.onnx_opset_version()
    if (own := max((o.version for o in proto.opset_import if not o.domain), default=1)) > newest:
        raise ConvertError(f"opset {own}: onnx {onnx.__version__} knows none beyond {newest}")
    reader = Reader(opset=opset, read_into=_read_into)
    env = reader.names
    env |= {"": None} | {t.name: _initializer(onnx, t) for t in graph.initializer}
    inputs = [_input(onnx, v, shapes, fixed) for v in graph.input if v.name not in env]
    if unknown := shapes.keys() - {v.name for v in inputs}:
        raise ConvertError(f"no input {sorted(unknown)}; has {[v.name for v in inputs]}")
    env |= {v.name or "": _computed(v) for v in inputs}
    reader.found.names |= {s for v in inputs for d in v.shape for s in symbols(d)}
    for i, node in nodes:
        problems.attempt(i, node, partial(_apply, reader, node, i, env))
    problems.raise_if_any()
    types = {o.name: o.type.tensor_type.elem_type for o in graph.output}
    results = tuple(_declared(onnx, as_value(env.find(n)), types.get(n, 0)) for n in wanted)
    metadata = {"source": f"onnx opset {opset}", "producer": proto.producer_name}
    kept = {SMALL_TYPES.get(t.data_type, "") for t in graph.initializer}
    metadata[SMALL] = ", ".join(sorted(kept - {""}))
    metadata["fixed"] = ", ".join(f"{name} = {size}" for name, size in fixed.items())
    entry = Graph(tuple(inputs), results, tuple(wanted))
    return Model({"infer": entry}, {k: v for k, v in metadata.items() if v})


def parse(source: Any) -> Any:
    """The onnx.ModelProto, with local functions written out. Raises ConvertError."""
    onnx = import_onnx()
    try:
        if isinstance(source, (str, Path)):
            proto = onnx.load(source)
        elif isinstance(source, (bytes, bytearray, memoryview)):
            proto = onnx.load_from_string(bytes(source))
        else:
            proto = source
        if proto.functions:
            proto = written_out(onnx, proto)
    except ConvertError as e:
        name = source if isinstance(source, (str, Path)) else "model"
        raise ConvertError(f"{name}: {e}") from None
    except Exception as e:  # protobuf's and onnx's own error types are not public
        name = source if isinstance(source, (str, Path)) else "model"
        reason = f"{type(e).__name__}: {' '.join(str(e).split())}".removesuffix(": ")
        raise ConvertError(f"{name}: not an ONNX model that can be read ({reason})") from None
    problem = _problem(proto.graph)
    if problem:
        name = source if isinstance(source, (str, Path)) else "model"
        raise ConvertError(f"{name}: not an ONNX model ({problem})")
    return proto


def _problem(graph: Any) -> str | None:
    """What a graph lacks that any model has; damaged text comes as bytes."""
    if not graph.output:
        return "it has no outputs"
    values = (*graph.input, *graph.output, *graph.initializer)
    names = [v.name for v in values]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
    names += [d.dim_param for v in graph.input for d in v.type.tensor_type.shape.dim]
    names += [a.name for node in graph.node for a in node.attribute]
    return None if all(isinstance(n, str) for n in names) else "its names are no text"


def import_onnx() -> Any:
    try:
        import onnx
        import onnx.inliner
    except ImportError:
        message = "reading ONNX needs the package onnx: pip install 'mindspan[onnx]'"
        raise ConvertError(message) from None
    return onnx


def _needed(graph: Any, wanted: Sequence[str]) -> list[tuple[int, Any]]:
    """The nodes, with their places, that the wanted outputs depend on."""
    names, needed = set(wanted), []
    for i, node in reversed(list(enumerate(graph.node))):
        if names.intersection(node.output):
            needed.append((i, node))
            names.update(*(inner.input for inner in all_nodes([node])))
            names.update(v.name for g in graphs_of(node) for v in g.output)
    return needed[::-1]


def _read_into(reader: Reader, graph: Any, names: Names) -> None:
    """Read the nodes of a graph inside; `names` has its inputs, and finds those of the outside."""
    onnx = import_onnx()
    names |= {"": None} | {t.name: _initializer(onnx, t) for t in graph.initializer}
    problems = Problems(RULES, DOMAINS)
    for i, node in enumerate(graph.node):
        problems.attempt(i, node, partial(_apply, reader, node, i, names))
    problems.raise_if_any()


def _apply(reader: Reader, node: Any, number: int, env: Names) -> None:
    """Put what the node's rule makes of its inputs under the names of its outputs."""
    onnx = import_onnx()
    where = f"node {number} {node.op_type} {node.name!r}"
    outer, reader.names = reader.names, env
    token = READING.set(reader)
    try:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
        inputs = [env.find(name) for name in node.input]
        reader.results = len(node.output)
        out = RULES[operator_of(node, DOMAINS)](reader, attrs, *inputs)
    except ConvertError as e:
        raise type(e)(f"{where}: {e}") from None
    except RULE_ERRORS as e:
        reason = " ".join(str(e).split())
        raise ConvertError(f"{where}: {type(e).__name__}: {reason}") from e
    finally:
        READING.reset(token)
        reader.names = outer
    results = out if isinstance(out, (tuple, list)) and not isinstance(out, Items) else (out,)
    for name, item in zip(node.output, results, strict=False):
        if name:
            env[name] = reader.name_nodes(item, node.name or where)


def _initializer(onnx: Any, tensor: Any) -> Item:
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception as e:  # of whatever kind: the tensor's bytes do not fit its shape or type
        reason = " ".join(str(e).split())
        raise ConvertError(f"initializer {tensor.name!r}: {reason}") from None
    if array.dtype.kind != "f":
        return array  # type: ignore[no-any-return]
    array = without_nan(narrow(array), f"initializer {tensor.name!r}")
    if array.dtype == np.float32 and array.size > 1:
        return Weight(array, name=tensor.name, trainable=False)
    return array


def _input(onnx: Any, info: Any, shapes: Shapes, fixed: Mapping[str, int]) -> Value:
    kind = info.type.tensor_type
    ours = _dtype(onnx, kind.elem_type)
    if ours is None:
        raise ConvertError(f"input {info.name!r}: elements of type {kind.elem_type}")
    if info.name in shapes:
        dims = list(shapes[info.name])
    else:
        if not kind.HasField("shape"):
            raise ConvertError(f"input {info.name!r} has no shape; give one with --input")
        dims = [_size(d, f"{info.name}_{i}") for i, d in enumerate(kind.shape.dim)]
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise ConvertError(f"input {info.name!r} has shape {dims}; want sizes of at least 0")
    names = [d if isinstance(d, int) else identifier(d) for d in dims]
    sizes = [d if isinstance(d, int) else fixed.get(d) or symbol(d) for d in names]
    return Value(sizes, ours, name=info.name)


def _size(dim: Any, name: str) -> int | str:
    """A size, or what a free one is called: `name` where it has none of its own."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    own = str(dim.dim_param)
    return own if any(map(str.isalnum, own)) and own != "-1" else name


def _computed(v: Value) -> Value:
    """An input in the type that is computed in: float32, and int32 for int16."""
    if v.dtype is DType.i16:
        return cast(v, to=DType.i32)
    return cast(v, to=DType.f32) if v.dtype.is_float and v.dtype is not DType.f32 else v


def _declared(onnx: Any, v: Value, kind: int) -> Value:
    """A result in the type that the model declares for it; numbers of int16 come as int32."""
    dtype = _dtype(onnx, kind)
    return v if dtype in (None, DType.i16, v.dtype) else cast(v, to=dtype)


def _dtype(onnx: Any, kind: int) -> DType | None:
    """Our type of an ONNX type's number; None: there is none."""
    try:
        twin = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        return None if twin.kind == "O" else DType.of(np.zeros(0, twin))
    except (KeyError, TypeError):
        return None
