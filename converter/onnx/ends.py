"""The ends of an ONNX model: its inputs and results as tensors of ours.

The elements of a sequence `s` are tensors `s.0`, `s.1` … of their own; of one that a loop fills the
elements are rows of one tensor `s`. An optional value is one that is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, takewhile
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Items, Shapes, as_value, identifier
from ir.dtype import DType
from ir.graph import Array, Graph, Value
from ir.ops.shaping import cast
from ir.symbol import symbol


def read_input(
    onnx: Any, info: Any, shapes: Shapes, fixed: Mapping[str, int]
) -> tuple[list[Value], Any]:
    """The tensors of an input, and what its name stands for."""
    kind, is_list = tensors_of(info.type)
    if not is_list:
        v = _tensor(onnx, info.name, kind, shapes.get(info.name), fixed)
        return [v], _computed(v)
    names = _elements(info.name, shapes)
    values = [_tensor(onnx, n, kind, shapes[n], fixed) for n in names]
    return values, Items(map(_computed, values))


def read_result(onnx: Any, name: str, info: Any, item: Any) -> Iterator[tuple[str, Value]]:
    """The tensors of a result, with their names, in the type that the model declares for it."""
    number = tensors_of(info.type)[0].elem_type if info is not None else 0
    if not isinstance(item, Items):
        yield name, _declared(onnx, as_value(item), number)
    elif item.rows is not None:
        yield name, _declared(onnx, item.rows, number)
    else:
        for i, element in enumerate(item):
            yield f"{name}.{i}", _declared(onnx, as_value(element), number)


def with_sequences(names: Sequence[str], feed: Mapping[str, Array]) -> dict[str, Any]:
    """What the model itself is fed, whose inputs have these names."""
    return {n: feed[n] if n in feed else _list(n, feed) for n in names}


def of_sequences(graph: Graph, names: Sequence[str], found: Sequence[Any]) -> list[Array]:
    """The answers of the model itself, whose results have these names, as those of the graph."""
    known = dict(zip(names, found, strict=True))
    answers = []
    for name, v in zip(graph.output_names, graph.outputs, strict=True):
        if name not in known:
            whole, _, i = name.rpartition(".")
            answers.append(np.asarray(known[whole][int(i)]))
        elif isinstance(known[name], list):
            none = np.zeros((0, *(d if isinstance(d, int) else 0 for d in v.shape[1:])))
            answers.append(np.stack(known[name]) if known[name] else none)
        else:
            answers.append(np.asarray(known[name]))
    return answers


def own_inputs(proto: Any) -> list[str]:
    """The names of what a model is fed: old ones list their weights among inputs."""
    known = {t.name for t in proto.initializer}
    return [v.name for v in proto.input if v.name not in known]


def tensors_of(of: Any) -> tuple[Any, bool]:
    """A type's tensors, and whether it is a sequence of them."""
    kind = of.optional_type.elem_type if of.HasField("optional_type") else of
    if kind.HasField("sequence_type"):
        return kind.sequence_type.elem_type.tensor_type, True
    return kind.tensor_type, False


def _list(name: str, feed: Mapping[str, Array]) -> list[Array]:
    places = (f"{name}.{i}" for i in count())
    return [feed[n] for n in takewhile(feed.__contains__, places)]


def _elements(name: str, shapes: Shapes) -> list[str]:
    """The names of a sequence's elements, which are as many as have shapes."""
    given = [n for n in shapes if n.rpartition(".")[0] == name and n.rpartition(".")[2].isdecimal()]
    names = [f"{name}.{i}" for i in range(len(given))]
    if set(names) != set(given):
        raise ConvertError(f"input {name!r}: elements {given}; want {names}")
    if not given and name not in shapes:
        raise ConvertError(
            f"input {name!r} is a sequence: say of how many elements by their shapes, "
            f"--input {name}.0=…, {name}.1=…, or --input {name}= for none"
        )
    return names


def _tensor(
    onnx: Any, name: str, kind: Any, given: Sequence[int | str] | None, fixed: Mapping[str, int]
) -> Value:
    ours = _dtype(onnx, kind.elem_type)
    if ours is None:
        types = {n: t.lower() for t, n in onnx.TensorProto.DataType.items()}
        odd = types.get(kind.elem_type, f"type {kind.elem_type}")
        raise ConvertError(f"input {name!r}: elements of {odd}; no model file holds these")
    if given is not None:
        dims = list(given)
    else:
        if not kind.HasField("shape"):
            raise ConvertError(f"input {name!r} has no shape; give one with --input")
        dims = [_size(d, f"{name}_{i}") for i, d in enumerate(kind.shape.dim)]
    if any(isinstance(d, int) and d < 0 for d in dims):
        raise ConvertError(f"input {name!r} has shape {dims}; want sizes of at least 0")
    names = [d if isinstance(d, int) else identifier(d) for d in dims]
    sizes = [d if isinstance(d, int) else fixed.get(d) or symbol(d) for d in names]
    return Value(sizes, ours, name=name)


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
    """A result in the type that the model declares for it."""
    dtype = _dtype(onnx, kind)
    return v if dtype in (None, v.dtype) else cast(v, to=dtype)


def _dtype(onnx: Any, kind: int) -> DType | None:
    """Our type of an ONNX type's number; None: there is none."""
    try:
        twin = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        return None if twin.kind == "O" else DType.of(np.zeros(0, twin))
    except (KeyError, TypeError):
        return None
