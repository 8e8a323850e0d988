"""Does the converted model give the source's answers? Inputs to try, references to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cloud import interpreter
from converter.child import in_a_child, reason
from converter.errors import ConvertError
from converter.items import Shapes
from converter.onnx.ends import of_sequences, own_inputs, with_sequences
from converter.onnx.reader import import_onnx, parse
from converter.report import Agreement
from ir.dtype import DType
from ir.graph import Array, Graph, Model, Value, Weight, shape_text
from ir.symbol import evaluate, symbols

Arrays = Mapping[str, Array]
Reference = Callable[[Mapping[str, Any]], list[Any]]
FREE_BATCH = 2  # what free dimensions are for random inputs: first axes
FREE_SIZES = (64, 512, 1024, 16384)  # and others: the first that does
MOST = 2**28  # elements of a value that is computed for a check
MOST_RANDOM = 2**26  # numbers that are drawn for a check
TINY = 1e-6
PART = 2**20  # numbers that are compared at once
STEP_ROUNDING = 1e-3  # of the difference of two float32 that are one step apart
THROUGH = ("reshape", "transpose", "cast", "quantized_lookup")  # 8 bits stay 8 bits


def sample_inputs(
    graph: Graph,
    count: int,
    data: Arrays | None = None,
    model: Model | None = None,
    below: int = 2,
    free: int = FREE_SIZES[0],
) -> list[dict[str, Array]]:
    """`count` inputs: examples of `data` (arrays by input name), else random numbers, integers
    `below` a bound, free sizes but those of first axes at least `free`.

    An array of `data` has examples along the input's own first axis, or, with an axis more than the
    input, whole inputs along that.
    """
    if data:
        check_data(graph, data, "check data")
        size = _batch(graph)
        arrays = [(v, data[v.name or ""]) for v in graph.inputs]
        rows = min((len(a) // (1 if a.ndim > v.rank else size) for v, a in arrays), default=1)
        return [
            {v.name or "": _example(v, a, i, size) for v, a in arrays}
            for i in range(min(count, rows))
        ]
    sizes = _free_sizes(graph, model, free)
    _check_sizes(graph, sizes)
    elements = sum(math.prod(evaluate(d, sizes) for d in v.shape) for v in graph.inputs)
    if count * elements > MOST_RANDOM:
        raise ConvertError(
            f"{count} inputs of {elements} numbers each, want at most {MOST_RANDOM} in all"
        )
    rng = np.random.default_rng(0)
    return [
        {v.name or "": _random(v, sizes, rng, below) for v in graph.inputs} for _ in range(count)
    ]


def origin(calibration: Arrays | None, data: Arrays | None) -> str:
    """What inputs are, in a report."""
    if not (data or calibration):
        return "random inputs"
    return f"inputs of the {'check' if data else 'calibration'} data"


def _example(v: Value, array: Array, i: int, size: int) -> Array:
    chosen = array[i] if array.ndim > v.rank else array[i * size : (i + 1) * size]
    return np.asarray(chosen, v.dtype.numpy)


def check_data(graph: Graph, data: Arrays, what: str) -> None:
    """Raise ConvertError unless `data` holds examples for every input."""
    if missing := [v.name for v in graph.inputs if v.name not in data]:
        raise ConvertError(f"{what}: nothing for input {missing}; has {sorted(data)}")
    for v in graph.inputs:
        array = data[v.name or ""]
        wanted = v.shape if array.ndim > v.rank else v.shape[1:]
        fits = array.ndim == len(wanted) + 1 and all(
            not isinstance(d, int) or d == n for d, n in zip(wanted, array.shape[1:], strict=True)
        )
        if not fits:
            raise ConvertError(
                f"{what}: {v.name} is {list(array.shape)}, want any number of {shape_text(wanted)}"
            )
        if len(array) < (1 if array.ndim > v.rank else _batch(graph)):
            raise ConvertError(f"{what}: {len(array)} examples, the model takes {_batch(graph)}")
        if array.dtype.kind not in "biuf":
            raise ConvertError(f"{what}: {v.name} holds {array.dtype}, want real numbers")


def unchanging(data: Arrays, graph: Graph) -> list[str]:
    """The inputs whose examples, more than one, are all the same."""
    arrays = [(v.name or "", data[v.name or ""]) for v in graph.inputs if v.name in data]
    return [name for name, a in arrays if len(a) > 1 and bool((a == a[:1]).all())]


def run_stream(graph: Graph, inputs: Sequence[Arrays]) -> list[list[Array]]:
    """The answers to one input after the other; what the graph writes is there for the next."""
    weights: dict[Weight, Array] = {}
    answers = []
    for x in inputs:
        found, new = interpreter.step(
            graph, *(x[v.name or ""] for v in graph.inputs), weights=weights
        )
        weights |= new
        answers.append(found)
    return answers


def run_file(data: bytes, graph: Graph, inputs: Sequence[Arrays]) -> list[list[Array]]:
    """The answers of the file on the lite runtime."""
    import lite_runtime as lite

    session = lite.load(data, threads=1)
    out = []
    for x in inputs:
        y = session.run(dict(x), entry="infer")
        out.append([y[name] for name in graph.output_names])
    return out


def onnx_answers(
    source: Any,
    graph: Graph,
    shapes: Shapes,
    outputs: Sequence[str],
    inputs: Sequence[Arrays],
    most_s: int,
) -> tuple[str, list[list[Array]]]:
    """What ran the source model, ONNX Runtime where it is installed, else onnx's own reference, and
    its answers to the inputs. Raises ConvertError where it does not run, or not in `most_s`."""
    model = str(source) if isinstance(source, (str, Path)) else source
    try:
        import onnxruntime  # noqa: F401

        name, make = "ONNX Runtime", _session
    except ImportError:
        name, make = "onnx's reference evaluator", _evaluator

    def work() -> list[list[Array]]:
        try:
            proto = parse(model).graph
            given, wanted = own_inputs(proto), list(outputs) or [o.name for o in proto.output]
            run = make(model, wanted, shapes)
        except Exception as e:  # whatever the two think of the model; their types are not public
            raise ConvertError(f"the source model does not load: {reason(e)}") from None
        return [of_sequences(graph, wanted, run(with_sequences(given, x))) for x in inputs]

    return name, in_a_child(name, work, most_s)


def steps_of(graph: Graph) -> list[float]:
    """For each output that 8 or 16 bits hold, what one step is worth: two right models may differ
    by that, for they round. 0 for all others."""
    found = []
    for v in graph.outputs:
        while v.node is not None and v.node.op.name in THROUGH:
            v = v.node.present_inputs[0]
        made = v.node.op.name if v.node else ""
        step = 1.0 if v.dtype in (DType.i8, DType.i16) else 0.0
        if v.node is not None and made in ("dequantize", "fake_quantize"):
            step = v.node.attrs["scale"]
        found.append(step)
    return found


def rounds(graph: Graph) -> bool:
    """Whether floats become integers of 8 bits on the way, as in models that were quantized."""
    return any(
        n.op.name == "cast" and n.results[0].dtype in (DType.i8, DType.u8) and x.dtype.is_float
        for n in graph.nodes
        for x in n.present_inputs
    )


def compare(
    names: Sequence[str],
    want: Sequence[Sequence[Array]],
    got: Sequence[Sequence[Array]],
    steps: Sequence[float] = (),
    reach: Sequence[float] = (),
) -> list[Agreement]:
    """For each output, how far it is off; a NaN or infinity on one side alone is infinitely far.

    `steps`: of each output, how much a difference may be before it counts (`steps_of`). Errors are
    relative to the largest number of an output, or to its `reach` (`reach_of`), if that is larger.
    Raises ConvertError for another shape, and where no number of an output can be compared, for the
    source gives nothing but NaN and infinities.
    """
    return [
        _compare(name, [w[i] for w in want], [g[i] for g in got], step, r)
        for i, (name, step, r) in enumerate(
            zip(names, steps or [0.0] * len(names), reach or [TINY] * len(names), strict=True)
        )
    ]


def reach_of(v: Value) -> float:
    """What the largest number of an output is taken to be at least: 1 for what a function gives
    that reaches from 0 to 1."""
    while v.node is not None and v.node.op.name in ("reshape", "transpose", "slice", "after"):
        v = v.node.present_inputs[0]
    is_share = v.node is not None and v.node.op.name in ("sigmoid", "hard_sigmoid", "softmax")
    return 1.0 if is_share else TINY


def _compare(
    name: str, want: Sequence[Array], got: Sequence[Array], step: float, reach: float
) -> Agreement:
    worst = noise = signal = 0.0
    largest = reach
    odd = count = 0
    for a, b in zip(want, got, strict=True):
        if np.shape(a) != np.shape(b) and not _are_no_rows(a, b):
            shapes = f"{list(np.shape(b))}, the source gives {list(np.shape(a))}"
            raise ConvertError(f"output {name} is {shapes}")
        for x, y in _parts(a, b):
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            with np.errstate(invalid="ignore"):  # infinity minus infinity
                difference = np.where(same, 0.0, np.abs(x - y))
            difference = np.where(np.isnan(difference), np.inf, difference)
            size = np.abs(np.where(np.isfinite(x), x, 0.0))
            worst = max(worst, float(difference.max(initial=0.0)))
            largest = max(largest, float(size.max(initial=0.0)))
            noise += float(np.square(difference).sum())
            signal += float(np.square(size).sum())
            odd, count = odd + int(x.size - np.isfinite(x).sum()), count + x.size
    if odd and odd == count:
        raise ConvertError(
            f"output {name}: all {count} numbers of the source's own answers are NaN or infinite, "
            "which agrees with anything; want inputs that it can answer (check data)"
        )
    rms = np.sqrt(noise / max(signal, TINY**2)) if noise else 0.0
    relative = 0.0 if worst <= step * (1 + STEP_ROUNDING) else worst / largest
    return Agreement(name, worst, relative, float(rms), odd, count, step)


def _are_no_rows(a: Array, b: Array) -> bool:
    """Whether both have no rows at all: what size these would be, ONNX Runtime does not always say,
    as of what a loop collects in no turn."""
    return np.ndim(a) == np.ndim(b) > 0 and len(a) == len(b) == 0


def _parts(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    """Both arrays as float64, a part at a time: all of it would be twice as large as they are."""
    x, y = np.ravel(a), np.ravel(b)
    for at in range(0, max(x.size, 1), PART):
        yield x[at : at + PART].astype(np.float64), y[at : at + PART].astype(np.float64)


def _batch(graph: Graph) -> int:
    """The number of examples that the model takes at once: 1 where it is free."""
    first = [v.shape[0] for v in graph.inputs if v.rank]
    return max((d for d in first if isinstance(d, int)), default=1)


def _free_sizes(graph: Graph, model: Model | None, least: int) -> dict[str, int]:
    """For each free dimension the first of FREE_SIZES, from `least` on, that leaves something of
    every value."""
    sizes: dict[str, int] = {}
    for free in (n for n in FREE_SIZES if n >= least):
        sizes = dict.fromkeys(graph.symbols, free)
        sizes |= {s: FREE_BATCH for v in graph.inputs for s in map(str, v.shape[:1]) if s in sizes}
        for name, (low, high) in (model.symbol_ranges if model else {}).items():
            sizes[name] = min(max(sizes.get(name, low), low), high)
        made = (
            d for n in graph.nodes for v in n.results for d in v.shape if not isinstance(d, int)
        )
        if all(evaluate(d, sizes) > 0 for d in made if symbols(d) <= sizes.keys()):
            break
    return sizes


def _check_sizes(graph: Graph, sizes: Mapping[str, int]) -> None:
    for v in (*graph.inputs, *(r for n in graph.nodes for r in n.results)):
        count = 1
        for d in v.shape:  # those that a run finds are bounded by the run
            count *= evaluate(d, sizes) if symbols(d) <= sizes.keys() else 1
        if not 0 <= count <= MOST:
            raise ConvertError(f"{v!r} has {count} elements at {sizes}; want at most {MOST}")


def _session(model: Any, wanted: Sequence[str], shapes: Shapes) -> Reference:
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # the sums of one thread are the same every time
    proto = _changed(model, wanted, shapes)
    integers = ("QuantizeLinear", "DequantizeLinear")
    if any(n.op_type in integers for n in (proto or parse(model)).graph.node):
        # Its optimised kernels on integers are off where the processor saturates.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = model if proto is None else proto.SerializeToString()
    session = ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(wanted, dict(x))


def _evaluator(model: Any, wanted: Sequence[str], shapes: Shapes) -> Reference:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(_changed(model, wanted, shapes) or parse(model))
    return lambda x: list(evaluator.run(wanted, dict(x)))


def _changed(model: Any, wanted: Sequence[str], shapes: Shapes) -> Any:
    """The model with other outputs and input shapes; None where it has these already."""
    onnx = import_onnx()
    proto = parse(model)
    if [o.name for o in proto.graph.output] == list(wanted) and not shapes:
        return None
    if [o.name for o in proto.graph.output] != list(wanted):
        del proto.graph.output[:]
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    for v in proto.graph.input:
        if v.name in shapes:
            kind = v.type.tensor_type.elem_type
            v.CopyFrom(onnx.helper.make_tensor_value_info(v.name, kind, list(shapes[v.name])))
    del proto.graph.value_info[:]  # sizes that were inferred from the old ones
    return proto


def _random(v: Value, sizes: Mapping[str, int], rng: np.random.Generator, below: int) -> Array:
    shape = tuple(evaluate(d, sizes) for d in v.shape)
    if v.dtype.is_float:
        return rng.standard_normal(shape).astype(v.dtype.numpy)
    if v.dtype in (DType.i8, DType.u8, DType.i16):  # stored numbers: all that there are
        limits = np.iinfo(v.dtype.numpy)
        return rng.integers(limits.min, limits.max + 1, shape).astype(v.dtype.numpy)
    high = {"bool": 2, "i32": below, "i64": below}.get(v.dtype.name, 100)
    return rng.integers(0, high, shape).astype(v.dtype.numpy)
