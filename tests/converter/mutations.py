"""Damaged and hostile sources: `python -m tests.converter.mutations COUNT [SEED] [FILE…]`.

Converts COUNT mutated models: bytes that were changed, cut or copied, and ONNX models whose parts
were (operators, names, sizes, types, attributes). Each must be written and agree, or be refused by
one line, within time and memory. FILEs are mutated instead of the ONNX models here, byte by byte.
Prints counts as JSON; exit code 1, with seed and number, where something else happened.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from converter import ConvertError, convert
from lite_runtime.bench import peak_bytes
from tests.converter.onnx_graphs import floats, inner, ints, model, quantized_net

SECONDS_EACH = 30
MOST_BYTES = 6 << 30  # of addresses, in which ONNX Runtime's threads and ours have their stacks
FEW = np.array([True, False, False, True])
NUMBERS = (0, 1, -1, 2, 7, 255, 65536, 2**31 - 1, -(2**31), 2**40, 2**63 - 1)
Rng = np.random.Generator
Change = Callable[[bytes, Rng], bytes]


def originals() -> list[bytes]:
    """Small models that between them have most families of operators."""
    conv = model(
        [("Conv", ["x", "w", "b"], ["a"], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
         ("BatchNormalization", ["a", "s", "b", "b", "s"], ["c"], {}), ("Relu", ["c"], ["d"], {}),
         ("MaxPool", ["d"], ["e"], {"kernel_shape": [2, 2]}), ("Flatten", ["e"], ["f"], {}),
         ("Gemm", ["f", "g"], ["h"], {"transB": 1}), ("Softmax", ["h"], ["y"], {"axis": -1})],
        {"x": (2, 3, 8, 8)}, ["y"],
        {"w": floats(4, 3, 3, 3), "b": floats(4), "s": np.abs(floats(4)) + 1, "g": floats(5, 36)},
    )  # fmt: skip
    shapes = model(
        [("Shape", ["x"], ["s"], {}), ("Gather", ["s", "zero"], ["n"], {}),
         ("Concat", ["n", "rest"], ["to"], {"axis": 0}), ("Reshape", ["x", "to"], ["r"], {}),
         ("Transpose", ["r"], ["t"], {"perm": [0, 2, 1]}), ("MatMul", ["r", "t"], ["m"], {}),
         ("Slice", ["m", "zero", "one"], ["c"], {}), ("ReduceMean", ["c"], ["d"], {"axes": [1]}),
         ("Pad", ["d", "pads"], ["y"], {"mode": "constant"})],
        {"x": ("n", 4, 6)}, ["y"],
        {"zero": ints(0), "one": ints(1), "rest": ints(3, 8), "pads": ints(0, 0, 1, 0, 1, 0)},
    )  # fmt: skip
    norms = model(
        [("Gather", ["table", "x"], ["a"], {}),
         ("LayerNormalization", ["a", "s", "b"], ["c"], {"epsilon": 1e-5}),
         ("MatMul", ["c", "w"], ["d"], {}), ("Erf", ["d"], ["e"], {}),
         ("Mul", ["d", "e"], ["f"], {}),
         ("Split", ["f"], ["g", "h"], {"axis": -1}), ("Sub", ["g", "h"], ["y"], {})],
        {"x": (2, 5)}, ["y"],
        {"table": floats(9, 6), "s": floats(6), "b": floats(6), "w": floats(6, 8)},
        input_type=TensorProto.INT64,
    )  # fmt: skip
    found = model(
        [("Greater", ["x", "low"], ["m"], {}), ("NonZero", ["m"], ["at"], {}),
         ("Transpose", ["at"], ["rows"], {"perm": [1, 0]}), ("GatherND", ["x", "rows"], ["v"], {}),
         ("Compress", ["v", "few"], ["c"], {"axis": 0}), ("Unique", ["c"], ["u"], {"axis": 0}),
         ("Shape", ["v"], ["n"], {}), ("Expand", ["low", "n"], ["e"], {}),
         ("Add", ["v", "e"], ["w"], {}), ("Concat", ["w", "u"], ["y"], {"axis": 0})],
        {"x": (3, 4)}, ["y"], {"low": np.float32(-9), "few": np.array([True, False, True])},
    )  # fmt: skip
    attention = model(
        [("MatMul", ["x", f"w{i}"], [f"p{i}"], {}) for i in "qkv"]
        + [("Reshape", [f"p{i}", "heads"], [f"h{i}"], {}) for i in "qkv"]
        + [("Transpose", ["hq"], ["q"], {"perm": [0, 2, 1, 3]}),
           ("Transpose", ["hk"], ["k"], {"perm": [0, 2, 3, 1]}),
           ("Transpose", ["hv"], ["v"], {"perm": [0, 2, 1, 3]}),
           ("MatMul", ["q", "k"], ["s"], {}), ("Mul", ["s", "scale"], ["t"], {}),
           ("Add", ["t", "mask"], ["u"], {}), ("Softmax", ["u"], ["a"], {"axis": -1}),
           ("MatMul", ["a", "v"], ["o"], {}),
           ("Transpose", ["o"], ["r"], {"perm": [0, 2, 1, 3]}),
           ("Reshape", ["r", "flat"], ["y"], {})],
        {"x": ("n", 5, 8)}, ["y"],
        {**{f"w{i}": floats(8, 8) for i in "qkv"}, "scale": np.float32(0.5),
         "mask": np.float32(np.triu(np.full((5, 5), -1e9), 1)), "heads": ints(0, 5, 2, 4),
         "flat": ints(0, 5, 8)},
    )  # fmt: skip
    return [conv, shapes, norms, quantized_net(), *_with_graphs_inside(), found, attention]


def _with_graphs_inside() -> list[bytes]:
    """A branch, and a loop that collects and stops where it says."""
    then = inner([("Mul", ["x", "two"], ["t"], {})], {}, ["t"], {"two": np.float32(2)})
    other = inner([("Compress", ["z", "m"], ["e"], {"axis": 0})], {}, ["e"], {"m": FEW})
    branch = model(
        [("Neg", ["x"], ["z"], {}), ("ReduceMax", ["x"], ["high"], {"keepdims": 0}),
         ("Greater", ["high", "one"], ["c"], {}),
         ("If", ["c"], ["b"], {"then_branch": then, "else_branch": other}),
         ("Tanh", ["b"], ["y"], {})],
        {"x": (4, 3)}, ["y"], {"one": np.float32(1)},
    )  # fmt: skip
    body = inner(
        [("Mul", ["v", "half"], ["h"], {}), ("Add", ["h", "bias"], ["w"], {}),
         ("ReduceMax", ["w"], ["high"], {"keepdims": 0}), ("Greater", ["high", "low"], ["d"], {}),
         ("Identity", ["w"], ["k"], {})],
        {"i": "i", "c": "b", "v": "f"}, ["d", "w", "k"], {"half": np.float32(0.5)},
    )  # fmt: skip
    loop = model(
        [("Loop", ["n", "", "x"], ["last", "all"], {"body": body}),
         ("ReduceSum", ["all"], ["sum"], {"keepdims": 0}), ("Add", ["last", "sum"], ["y"], {})],
        {"x": (2, 3)}, ["y"], {"n": np.array(6), "low": np.float32(0.1), "bias": floats(3)},
    )  # fmt: skip
    return [branch, loop]


def change_bytes(file: bytes, rng: Rng) -> bytes:
    """A few bytes changed, a part cut out, or one copied to elsewhere."""
    out = bytearray(file)
    match rng.integers(3):
        case 0:
            for _ in range(rng.integers(1, 6)):
                out[rng.integers(len(out))] = int(rng.integers(256))
        case 1:
            at = int(rng.integers(len(out)))
            del out[at : at + int(rng.integers(1, len(out)))]
        case _:
            at, to, n = (int(rng.integers(len(out))) for _ in range(3))
            out[to : to + n] = out[at : at + n]
    return bytes(out)


def change_parts(file: bytes, rng: Rng) -> bytes:
    """An ONNX model one or two of whose parts were changed."""
    proto = onnx.load_from_string(file)
    for _ in range(rng.integers(1, 3)):
        PARTS[rng.integers(len(PARTS))](proto, rng)
    return proto.SerializeToString()  # type: ignore[no-any-return]


def _pick(items: Sequence[object], rng: Rng) -> object:
    return items[int(rng.integers(len(items)))]


def _operator(proto: onnx.ModelProto, rng: Rng) -> None:
    kinds = [n.op_type for n in proto.graph.node] + ["If", "Loop", "Mystery", "Cast", "Expand", ""]
    _pick(proto.graph.node, rng).op_type = _pick(kinds, rng)  # type: ignore[attr-defined]


def _wiring(proto: onnx.ModelProto, rng: Rng) -> None:
    node = _pick(proto.graph.node, rng)
    names = [o for n in proto.graph.node for o in n.output]  # also later ones: cycles
    names += [t.name for t in proto.graph.initializer] + ["x", "", "nowhere"]
    if node.input:  # type: ignore[attr-defined]
        node.input[int(rng.integers(len(node.input)))] = _pick(names, rng)  # type: ignore[attr-defined]


def _missing(proto: onnx.ModelProto, rng: Rng) -> None:
    parts = _pick([proto.graph.node, proto.graph.initializer, proto.graph.input], rng)
    if len(parts):  # type: ignore[arg-type]
        del parts[int(rng.integers(len(parts)))]  # type: ignore[attr-defined, arg-type]


def _attribute(proto: onnx.ModelProto, rng: Rng) -> None:
    held = [a for n in proto.graph.node for a in n.attribute]
    if not held:
        return
    a = _pick(held, rng)
    assert isinstance(a, AttributeProto)
    number = int(_pick(NUMBERS, rng))  # type: ignore[call-overload]
    if a.ints and rng.random() < 0.7:
        a.ints[int(rng.integers(len(a.ints)))] = number
    elif rng.random() < 0.5:
        a.i = number
    else:
        a.type, a.f = AttributeProto.FLOAT, float(_pick([0, -1, np.nan, np.inf, 1e38], rng))  # type: ignore[arg-type]


def _size(proto: onnx.ModelProto, rng: Rng) -> None:
    number = int(_pick(NUMBERS, rng))  # type: ignore[call-overload]
    if rng.random() < 0.5 and proto.graph.input:
        dims = _pick(proto.graph.input, rng).type.tensor_type.shape.dim  # type: ignore[attr-defined]
        if dims:
            _pick(dims, rng).dim_value = number  # type: ignore[attr-defined]
    elif proto.graph.initializer:
        tensor = _pick(proto.graph.initializer, rng)
        if tensor.dims:  # type: ignore[attr-defined]
            tensor.dims[int(rng.integers(len(tensor.dims)))] = number  # type: ignore[attr-defined]


def _type(proto: onnx.ModelProto, rng: Rng) -> None:
    kind = int(rng.integers(-1, 30))
    if rng.random() < 0.5 and proto.graph.initializer:
        _pick(proto.graph.initializer, rng).data_type = kind  # type: ignore[attr-defined]
    elif proto.graph.input:
        _pick(proto.graph.input, rng).type.tensor_type.elem_type = kind  # type: ignore[attr-defined]


def _data(proto: onnx.ModelProto, rng: Rng) -> None:
    if not proto.graph.initializer:
        return
    tensor = _pick(proto.graph.initializer, rng)
    raw = bytearray(tensor.raw_data)  # type: ignore[attr-defined]
    if raw:
        at = int(rng.integers(len(raw) // 4 + 1)) * 4
        raw[at : at + 4] = _pick([b"\0\0\xc0\x7f", b"\xff" * 4, b"\0\0\x80\x7f", b""], rng)  # type: ignore[call-overload]
    tensor.raw_data = bytes(raw)  # type: ignore[attr-defined]


def _opset(proto: onnx.ModelProto, rng: Rng) -> None:
    proto.opset_import[0].version = int(rng.integers(-1, 30))


PARTS: tuple[Callable[[onnx.ModelProto, Rng], None], ...] = (
    _operator, _wiring, _missing, _attribute, _attribute, _size, _type, _data, _opset,
)  # fmt: skip


def outcome(file: bytes, target: Path) -> str:
    """written, refused, or what else happened, as text."""
    signal.alarm(SECONDS_EACH)
    try:
        convert(file, target, check=1, check_seconds=10)
        return "written"
    except ConvertError as e:
        left = [p.name for p in target.parent.iterdir()]
        return "refused" if "\n" not in str(e) and str(e) and not left else f"refused, {e!r} {left}"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
        target.unlink(missing_ok=True)


def main(count: int, seed: int, files: Sequence[Path]) -> int:
    if files:
        return run(count, seed, [p.read_bytes() for p in files], [change_bytes])
    return run(count, seed, originals(), [change_bytes] * 2 + [change_parts] * 3)


def run(count: int, seed: int, sources: Sequence[bytes], changes: Sequence[Change]) -> int:
    """Convert `count` of the sources, each after one of the changes; the exit code of a command."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            rng = np.random.default_rng([seed, number])
            change = changes[int(rng.integers(len(changes)))]
            print(f"seed {seed}, number {number}", file=sys.stderr)  # the last one, after a crash
            found = outcome(change(sources[number % len(sources)], rng), Path(folder) / "m.ms")
            kind = found if found in ("written", "refused") else "failed"
            counts[f"{change.__name__} {kind}"] += 1
            failures += [f"seed {seed}, number {number}: {found}"] if kind == "failed" else []
    print(json.dumps({"counts": counts, "peak_bytes": peak_bytes(), "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    seed = int(given[1]) if len(given) > 1 else 0
    sys.exit(main(int(given[0]), seed, [Path(p) for p in given[2:]]))
