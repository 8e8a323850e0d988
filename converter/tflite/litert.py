"""The answers of LiteRT's reference kernels, which say what a TFLite model computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from converter.child import in_a_child, reason
from converter.errors import ConvertError
from converter.tflite.file import parse_tflite
from converter.tflite.reader import entries_of, names_of, wanted_tensors
from ir.graph import Array

REFERENCE, OPTIMISED = "LiteRT's reference kernels", "LiteRT's optimised kernels"
LACKS = ("Didn't find op", "unresolved custom op")  # in its errors
Answers = list[list[Array]]


def litert_answers(
    data: bytes, outputs: Sequence[str], inputs: Sequence[Mapping[str, Array]], most_s: int
) -> tuple[str, Answers] | None:
    """What kernels ran, and the outputs for one input after the other: arrays by input name.

    The model's variables live from input to input. Optimised kernels run where the reference ones
    lack an operator. None where LiteRT is not installed, or lacks an operator of the model (a
    custom one). `outputs`: tensors to give instead of the model's own. Raises ConvertError where
    the model does not run, or not in `most_s` seconds.
    """
    try:
        import ai_edge_litert.interpreter  # noqa: F401
    except ImportError:
        return None
    if entries_of(parse_tflite(data))["infer"].subgraph:
        return None  # its plain interface runs the first graph alone
    found = in_a_child("LiteRT", lambda: _answers(data, outputs, inputs), most_s)
    return None if found is None else (str(found[0]), found[1])


def _answers(
    data: bytes, outputs: Sequence[str], inputs: Sequence[Mapping[str, Array]]
) -> tuple[str, Answers] | None:
    from ai_edge_litert.interpreter import OpResolverType

    file = parse_tflite(data)
    graph, signature = file.subgraphs[0], entries_of(file)["infer"]
    names = names_of(graph, signature)
    wanted = [i for _, i in wanted_tensors(graph, names, outputs)]
    given = [(names[i], i, graph.tensors[i].element) for i in graph.inputs]
    name, found = REFERENCE, _loaded(data, OpResolverType.BUILTIN_REF, bool(outputs))
    if found is None:
        kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        name, found = OPTIMISED, _loaded(data, kind, bool(outputs))
    if found is None:
        return None
    interpreter, ready = found
    answers = []
    try:
        for x in inputs:
            arrays = {i: x[n].astype(element) for n, i, element in given}
            answers.append(_run(interpreter, ready, arrays, wanted))
    except (RuntimeError, ValueError) as e:
        raise ConvertError(f"the source model does not run: {reason(e)}") from None
    return name, answers


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
        raise ConvertError(f"the source model does not load: {reason(e)}") from None
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
    interpreter: Any, ready: bool, arrays: Mapping[int, Array], wanted: Sequence[int]
) -> list[Array]:
    shapes = {d["index"]: tuple(d["shape"]) for d in interpreter.get_input_details()}
    changed = {i: x.shape for i, x in arrays.items() if shapes[i] != x.shape}
    for i, shape in changed.items():
        interpreter.resize_tensor_input(i, shape)
    if changed or not ready:
        interpreter.allocate_tensors()
    for i, x in arrays.items():
        interpreter.set_tensor(i, x)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(i)) for i in wanted]
