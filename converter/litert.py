"""The answers of LiteRT's reference kernels, which say what a TFLite model computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.tflite_file import Tensor, parse_tflite
from converter.tflite_reader import entries_of, names_of, wanted_tensors
from ir.graph import Array

REFERENCE, OPTIMISED = "LiteRT's reference kernels", "LiteRT's optimised kernels"
LACKS = ("Didn't find op", "unresolved custom op")  # in its errors
Reference = Callable[[Mapping[str, Array]], list[Array]]


def litert_reference(data: bytes, outputs: Sequence[str]) -> tuple[str, Reference] | None:
    """What kernels they are, and a function that runs the model on arrays by input name; its
    variables live from call to call.

    Optimised kernels are asked where the reference ones lack an operator. None where LiteRT is not
    installed, or lacks an operator of the model (a custom one). `outputs`: tensors to give instead
    of the model's own. Raises ConvertError, also from the function, where the model does not run.
    """
    try:
        from ai_edge_litert.interpreter import OpResolverType
    except ImportError:
        return None
    file = parse_tflite(data)
    signature = entries_of(file)["infer"]
    if signature.subgraph:
        return None  # its plain interface runs the first graph alone
    graph = file.subgraphs[0]
    names = names_of(graph, signature)
    wanted = wanted_tensors(graph, names, outputs)
    name, found = REFERENCE, _loaded(data, OpResolverType.BUILTIN_REF, bool(outputs))
    if found is None:
        kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        name, found = OPTIMISED, _loaded(data, kind, bool(outputs))
    if found is None:
        return None
    interpreter, ready = found

    given = [(names[i], i) for i in graph.inputs]

    def run(x: Mapping[str, Array]) -> list[Array]:
        try:
            return _run(interpreter, ready, graph.tensors, given, wanted, x)
        except (RuntimeError, ValueError) as e:
            raise ConvertError(f"the source model does not run: {_reason(e)}") from None

    return name, run


def _loaded(data: bytes, kind: Any, keep_all: bool) -> tuple[Any, bool] | None:
    """An interpreter, and whether it is ready to run as it is; or None where these kernels lack an
    operator of the model."""
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(
            model_content=data,
            experimental_op_resolver_type=kind,
            experimental_preserve_all_tensors=keep_all,
        )
        ready = _is_ready(interpreter)
    except (RuntimeError, ValueError) as e:
        if any(text in str(e) for text in LACKS):
            return None
        raise ConvertError(f"the source model does not load: {_reason(e)}") from None
    return interpreter, ready


def _is_ready(interpreter: Any) -> bool:
    """Whether it runs with the sizes that the file gives to free dimensions."""
    try:
        interpreter.allocate_tensors()
    except RuntimeError as e:
        if any(text in str(e) for text in LACKS):
            raise
        return False
    return True


def _run(
    interpreter: Any, ready: bool, tensors: Sequence[Tensor], inputs: Sequence[tuple[str, int]],
    wanted: Sequence[tuple[str, int]], x: Mapping[str, Array],
) -> list[Array]:  # fmt: skip
    shapes = {d["index"]: tuple(d["shape"]) for d in interpreter.get_input_details()}
    changed = [(i, x[name].shape) for name, i in inputs if shapes[i] != x[name].shape]
    for i, shape in changed:
        interpreter.resize_tensor_input(i, shape)
    if changed or not ready:
        interpreter.allocate_tensors()
    for name, i in inputs:
        interpreter.set_tensor(i, x[name].astype(tensors[i].element))
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(i)) for _, i in wanted]


def _reason(e: Exception) -> str:
    return f"{type(e).__name__}: {' '.join(str(e).split())}"
