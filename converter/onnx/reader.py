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
    narrow,
    without_nan,
)
from converter.onnx.ends import read_input, read_result
from converter.onnx.functions import all_nodes, graphs_of, written_out
from converter.onnx.rules import RULES, Names, Reader
from converter.onnx.rules.common import READING
from converter.onnx.types import KINDS, check_order, kind_of_value, kinds_of_results, wrapped
from converter.onnx.unsupported import Problems, operator_of
from ir.dtype import ElementError
from ir.graph import Graph, Model, Weight
from ir.op import from_source
from ir.symbol import symbols

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
            with from_source(""):
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
    if (newer := max((o.version for o in proto.opset_import if not o.domain), default=1)) > newest:
        raise ConvertError(f"opset {newer}: onnx {onnx.__version__} knows none beyond {newest}")
    reader = Reader(opset=opset, read_into=_read_into)
    env = reader.names
    env |= {"": None} | {t.name: _initializer(onnx, t) for t in graph.initializer}
    given = {v.name: read_input(onnx, v, shapes, fixed) for v in graph.input if v.name not in env}
    inputs = [v for values, _ in given.values() for v in values]
    if unknown := shapes.keys() - given.keys() - {v.name for v in inputs}:
        raise ConvertError(f"no input {sorted(unknown)}; has {[v.name for v in inputs]}")
    env |= {name: item for name, (_, item) in given.items()}
    env.kinds |= {v.name: kind_of_value(v) for v in graph.input}
    env.kinds |= {t.name: KINDS.get(t.data_type) for t in graph.initializer}
    reader.found.names |= {s for v in inputs for d in v.shape for s in symbols(d)}
    for i, node in nodes:
        problems.attempt(i, node, partial(_apply, reader, node, i, env))
    problems.raise_if_any()
    infos = {o.name: o for o in graph.output}
    ends = [e for n in wanted for e in read_result(onnx, n, infos.get(n), env.find(n))]
    if not ends:
        raise ConvertError(f"output {wanted}: no elements in a sequence; want at least one")
    metadata = {"source": f"onnx opset {opset}", "producer": proto.producer_name}
    kept = {SMALL_TYPES.get(t.data_type, "") for t in graph.initializer}
    metadata[SMALL] = ", ".join(sorted(kept - {""}))
    metadata["fixed"] = ", ".join(f"{name} = {size}" for name, size in fixed.items())
    names, results = zip(*ends, strict=True)
    entry = Graph(tuple(inputs), results, names)
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
    names.kinds |= {t.name: KINDS.get(t.data_type) for t in graph.initializer}
    problems = Problems(RULES, DOMAINS)
    for i, node in enumerate(graph.node):
        problems.attempt(i, node, partial(_apply, reader, node, i, names))
    problems.raise_if_any()


def _apply(reader: Reader, node: Any, number: int, env: Names) -> None:
    """Put what the node's rule makes of its inputs under the names of its outputs."""
    onnx = import_onnx()
    where = f"node {number} {node.op_type} {node.name!r}"
    outer, reader.names = (reader.names, reader.kinds), env
    token = READING.set(reader)
    try:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
        inputs = [env.find(name) for name in node.input]
        reader.results = len(node.output)
        reader.kinds = given = [env.kind(name) for name in node.input]
        reader.inner_kinds = []
        check_order(node.op_type, given, inputs)
        with from_source(node.name or where):
            out = RULES[operator_of(node, DOMAINS)](reader, attrs, *inputs)
            results = out if _is_many(out) else (out,)
            kinds = kinds_of_results(onnx, node, reader.opset, given, reader.inner_kinds)
            named = list(zip(node.output, results, kinds, strict=False))
            ends = {name: wrapped(node.op_type, item, kind) for name, item, kind in named if name}
    except ConvertError as e:
        raise type(e)(f"{where}: {e}") from None
    except ElementError as e:
        raise ConvertError(f"{where}: {e}") from None
    except RULE_ERRORS as e:
        reason = " ".join(str(e).split())
        raise ConvertError(f"{where}: {type(e).__name__}: {reason}") from e
    finally:
        READING.reset(token)
        reader.names, reader.kinds = outer
    env |= zip(ends, reader.name_nodes([*ends.values()], node.name or where), strict=True)
    env.kinds |= {name: kind for name, _, kind in named}


def _is_many(out: Any) -> bool:
    """Whether a rule gave several results, and no sequence, which is one."""
    return isinstance(out, (tuple, list)) and not isinstance(out, Items)


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
