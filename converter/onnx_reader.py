"""ONNX → graph: walk the nodes in order and let `onnx_rules` say what each becomes.

While reading, a name stands for one of three things: a `Value` of the graph under construction, a
`Weight` (a float initializer, which keeps its name), or a numpy array that is known already. Shapes
are such arrays too, with symbolic sizes as elements (dtype object), so that the shape arithmetic
of exporters folds away while it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ConvertError, UnsupportedError
from ir.dtype import DType
from ir.errors import IrError
from ir.graph import Array, Constant, Graph, Model, Value, Weight
from ir.symbol import symbol

Item = Value | Array | None  # what an ONNX name stands for


@dataclass
class Reader:
    """What rules see of the model: its opset, and weights that were rearranged once for all uses."""

    opset: int
    arranged: dict[tuple[Weight, str], Weight] = field(default_factory=dict)

    def arrange(self, item: Item, how: str, change: Callable[[Array], Array]) -> Item:
        """A weight in our layout. A weight that several nodes use in one way is kept single."""
        if isinstance(item, Weight):
            if (item, how) not in self.arranged:
                data = np.ascontiguousarray(change(item.data))
                self.arranged[item, how] = Weight(data, name=item.name or "", trainable=False)
            return self.arranged[item, how]
        if isinstance(item, np.ndarray):
            return np.ascontiguousarray(change(item))
        raise ConvertError(f"a weight that the graph computes ({item!r}); want an initializer")


def read_onnx(
    source: str | Path | bytes | Any,
    shapes: dict[str, Sequence[int | str]] | None = None,
    outputs: Sequence[str] = (),
) -> Model:
    """The model's graph as entry `infer`. `source`: a path, bytes or an onnx.ModelProto.

    `shapes` replaces input shapes (a name makes a free dimension); `outputs` cuts the graph there.
    Raises ConvertError, or UnsupportedError that lists every operator without a rule.
    """
    onnx = _import_onnx()
    proto = _parse(onnx, source)
    from converter.onnx_rules import RULES

    graph = proto.graph
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1)
    _refuse_unknown(graph, RULES)
    reader = Reader(opset)
    env: dict[str, Item] = {"": None}
    for tensor in graph.initializer:
        env[tensor.name] = _initializer(onnx, tensor)
    inputs = [_input(onnx, v, shapes or {}) for v in graph.input if v.name not in env]
    if unknown := (shapes or {}).keys() - {v.name for v in inputs}:
        raise ConvertError(f"no input {sorted(unknown)}; has {[v.name for v in inputs]}")
    env |= {v.name: v for v in inputs}  # type: ignore[misc]
    for i, node in enumerate(graph.node):
        _apply(onnx, reader, RULES, node, f"node {i} {node.op_type} {node.name!r}", env)
    wanted = list(outputs) or [o.name for o in graph.output]
    results = tuple(as_value(_find(env, name)) for name in wanted)
    metadata = {"source": f"onnx opset {opset}", "producer": proto.producer_name}
    entry = Graph(tuple(inputs), results, tuple(wanted))
    return Model({"infer": entry}, {k: v for k, v in metadata.items() if v})


def as_value(item: Item) -> Value:
    """A value of the graph; an array that is known becomes a constant."""
    if isinstance(item, Value):
        return item
    if item is None:
        raise ConvertError("an input that is left out is used")
    array = np.asarray(item)
    if array.dtype == object:
        raise ConvertError(f"a shape that depends on free dimensions ({array.tolist()}) is used as data")
    return Constant(array)


def _apply(onnx: Any, reader: Reader, rules: Any, node: Any, where: str, env: dict[str, Item]) -> None:
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
    try:
        inputs = [_find(env, name) for name in node.input]
        out = rules[node.op_type](reader, attrs, *inputs)
    except ConvertError as e:
        raise type(e)(f"{where}: {e}") from None
    except (IrError, IndexError, ValueError, TypeError, KeyError) as e:
        raise ConvertError(f"{where}: {type(e).__name__}: {e}") from e
    results = out if isinstance(out, (tuple, list)) else (out,)
    for name, item in zip(node.output, results, strict=False):
        env[name] = item
        if isinstance(item, Value) and item.node is not None:
            item.node.source = node.name or where


def _find(env: dict[str, Item], name: str) -> Item:
    if name not in env:
        raise ConvertError(f"{name!r} is read before anything makes it")
    return env[name]


def _parse(onnx: Any, source: Any) -> Any:
    try:
        if isinstance(source, (str, Path)):
            return onnx.load(source)
        if isinstance(source, (bytes, bytearray, memoryview)):
            return onnx.load_from_string(bytes(source))
    except FileNotFoundError:
        raise ConvertError(f"{source}: no such file") from None
    except Exception as e:  # protobuf's own error types are not public
        name = source if isinstance(source, (str, Path)) else "model"
        raise ConvertError(f"{name}: not an ONNX model ({type(e).__name__})") from None
    return source


def _refuse_unknown(graph: Any, rules: Any) -> None:
    unknown = Counter(n.op_type for n in graph.node if n.op_type not in rules or n.domain not in ("", "ai.onnx"))
    if unknown:
        first = {n.op_type: n.name or f"node {i}" for i, n in reversed(list(enumerate(graph.node)))}
        texts = [f"{kind} ×{count} (first: {first[kind]})" for kind, count in sorted(unknown.items())]
        raise UnsupportedError("unsupported operators: " + ", ".join(texts))


def _initializer(onnx: Any, tensor: Any) -> Item:
    array = onnx.numpy_helper.to_array(tensor)
    if array.dtype in (np.float16, np.float64):
        array = array.astype(np.float32)
    if array.dtype == np.float32 and array.size > 1:
        return Weight(array, name=tensor.name, trainable=False)
    return array


def _input(onnx: Any, info: Any, shapes: dict[str, Sequence[int | str]]) -> Value:
    kind = info.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type) if kind.elem_type else np.dtype("f4")
    if info.name in shapes:
        dims: list[int | str] = list(shapes[info.name])
    else:
        if not kind.HasField("shape"):
            raise ConvertError(f"input {info.name!r} has no shape; give one with --input")
        dims = [d.dim_value or d.dim_param or f"{info.name}_{i}" for i, d in enumerate(kind.shape.dim)]
    shape = [d if isinstance(d, int) else symbol(_identifier(d)) for d in dims]
    ours = DType.of(np.zeros(0, np.int32 if dtype == np.int64 else dtype))
    return Value(shape, ours, name=info.name)


def _identifier(name: str) -> str:
    text = "".join(c if c.isalnum() else "_" for c in name)
    return text if text.isidentifier() else f"d{text}"


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ConvertError("reading ONNX needs the package onnx: pip install 'mindspan[onnx]'") from None
    return onnx
