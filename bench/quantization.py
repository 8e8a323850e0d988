"""Size, accuracy and latency of quantized nets: python -m bench.quantization MODELS [--only …]

MODELS is a folder with real models and data (data/fashion-mnist, data/images, torch). FashionNet is
trained first, if out/quantization has none. Accuracy is on 10,000 images; that of EfficientNet is
agreement with float32 on crops of photographs, and whether photographs are named right. Latency is
of one example on one thread, of the fastest of many calls in turns. Beside us ONNX Runtime's own
quantizer, and LiteRT's where a Python with TensorFlow is given. Prints tables as
docs/quantization.md has them; of the nets named by --only, as the tables name them, alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from onnxruntime import quantization as ort_quantization

import lite_runtime as lite
from bench.int8 import fastest
from bench.real_nets import Task, efficientnet, fashion, photographs
from converter import convert
from ir.graph import Array

INT8: dict[str, Any] = {"quantize": "int8", "tol": 1.0}
OURS: dict[str, dict[str, Any]] = {
    "float32": {},
    "fp16": {"quantize": "fp16"},
    "int8": INT8,
    "int8, percentile": {**INT8, "calibrate": "percentile"},
    "int8, mse": {**INT8, "calibrate": "mse"},
    "int8, kl": {**INT8, "calibrate": "kl"},
    "int8, mse, corrected": {**INT8, "calibrate": "mse", "equalize": True, "correct_bias": True},
    "int8-weights": {"quantize": "int8-weights", "tol": 1.0},
    "int4-weights": {"quantize": "int4-weights", "tol": 1.0},
    "int16": {"quantize": "int16", "tol": 1.0},
    "int16, corrected": {"quantize": "int16", "tol": 1.0, "correct_bias": True},
    "int8-weights, samples": {"quantize": "int8-weights", "tol": 1.0},
    "int4-weights, samples": {"quantize": "int4-weights", "tol": 1.0},
}
CALIBRATED = ("int8, ", "int16", "samples")  # parts of names of those that see samples
MAX_DROP = 0.005
NETS = {"fashion": fashion, "efficientnet": efficientnet}
Answer = Callable[[Array], Array]


@dataclass(frozen=True)
class Net:
    """A quantized net: its file's size and what answers."""

    name: str
    size_bytes: int
    answer: Answer
    note: str = ""


def main() -> None:
    p = argparse.ArgumentParser(prog="python -m bench.quantization", description=__doc__)
    p.add_argument("models", type=Path, help="folder with the real models and data")
    p.add_argument("--out", type=Path, default=Path("out/quantization"))
    p.add_argument("--quick", action="store_true", help="fewer examples to count on")
    p.add_argument("--nets", nargs="+", choices=NETS, default=[*NETS])
    p.add_argument("--reuse", action="store_true", help="take the files in --out that are there")
    p.add_argument("--only", nargs="+", metavar="NAME", help="ways such as float32 int8 int16")
    p.add_argument("--litert", metavar="PYTHON", help="one with TensorFlow: LiteRT's quantizer too")
    args = p.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.nets:
        task = NETS[name](args.models, args.out)
        only = args.only and {"float32", *args.only}  # what others are compared with
        way = Way(args.out, only, args.reuse)
        nets = [*ours(task, way), *theirs(task, way)]
        named = photographs(args.models) if task.label is None else None
        most = 500 if args.quick else None
        print("\n".join(table(task, nets, most, named)), flush=True)
        if args.litert and task.label is not None:
            print("\n".join(litert(args.litert, task, args.out, most)), flush=True)


@dataclass(frozen=True)
class Way:
    """Where files go, the names of those that are wanted, and whether old ones do."""

    out: Path
    only: Collection[str] | None
    reuse: bool

    def leaves_out(self, name: str) -> bool:
        return bool(self.only) and name not in self.only  # type: ignore[operator]

    def has(self, target: Path) -> bool:
        return self.reuse and target.exists()


def ours(task: Task, way: Way) -> Iterator[Net]:
    given = {"calibration": task.calibration, "check_data": _checked(task)}
    for name, options in OURS.items():
        if way.leaves_out(name):
            continue
        sees = name == "int8" or any(part in name for part in CALIBRATED)
        data = given if sees else {"check_data": given["check_data"]}
        yield _converted(name, task, way, {**data, **options})
    if task.label is not None and not way.only:
        drop = {**given, **INT8, "max_drop": MAX_DROP}
        yield _converted(f"int8, --max-drop {MAX_DROP}", task, way, drop)


def _checked(task: Task) -> dict[str, Array]:
    """A part of the data to check on, with labels where there are some."""
    count = min(2000, len(task.test["x"]))
    part = {"x": task.test["x"][:count]}
    return part if task.label is None else {**part, "label": task.label[:count]}


def _converted(name: str, task: Task, way: Way, options: dict[str, Any]) -> Net:
    target, kept = way.out / f"{task.name} {name}.ms", ""
    if "max_drop" in options or not way.has(target):
        report = convert(task.onnx, target, **options)
        kept = f"{len(report.kept_float)} layers float" if "max_drop" in options else ""
    session = lite.load(target, threads=1)
    return Net(f"ours, {name}", target.stat().st_size, session.run, kept)


def theirs(task: Task, way: Way) -> Iterator[Net]:
    """ONNX Runtime: float32, and its static quantizer in 8 bits by two methods and in 16."""
    kinds = ort_quantization.QuantType
    yield _onnx("float32", task.onnx)
    ready = way.out / f"{task.name} ready.onnx"
    if not way.has(ready):
        ort_quantization.quant_pre_process(str(task.onnx), str(ready))
    for name, method, kind in (
        ("int8, min-max", "MinMax", kinds.QInt8),
        ("int8, percentile", "Percentile", kinds.QInt8),
        ("int16, min-max", "MinMax", kinds.QInt16),
    ):
        if way.leaves_out(name):
            continue
        target = way.out / f"{task.name} ort {name}.onnx"
        if way.has(target):
            yield _onnx(name, target)
            continue
        ort_quantization.quantize_static(
            str(ready),
            str(target),
            _Reader(task.calibration["x"]),
            quant_format=ort_quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=kind,
            weight_type=kinds.QInt8,
            calibrate_method=getattr(ort_quantization.CalibrationMethod, method),
            # ONNX itself has no quantizers of 16 bits before opset 21.
            extra_options={"UseQDQContribOps": kind is kinds.QInt16},
        )
        yield _onnx(name, target)


class _Reader(ort_quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, x: Array) -> None:
        self.left = iter(x[i : i + 16] for i in range(0, len(x), 16))

    def get_next(self) -> dict[str, Array] | None:
        x = next(self.left, None)
        return None if x is None else {"x": x}


def _onnx(name: str, path: Path) -> Net:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    answer = partial(_first, session)
    return Net(f"ONNX Runtime, {name}", path.stat().st_size, answer)


def _first(session: ort.InferenceSession, x: Array) -> Array:
    return session.run(None, {"x": x})[0]  # type: ignore[no-any-return]


def table(
    task: Task,
    nets: Sequence[Net],
    most: int | None,
    named: tuple[dict[str, Array], list[tuple[int, ...]]] | None,
) -> Iterator[str]:
    x = task.test["x"][:most]
    want = classes(nets[0], x) if task.label is None else task.label[: len(x)]
    times = fastest({net.name: partial(net.answer, x[:1]) for net in nets})
    counted = "agreement" if task.label is None else "accuracy"
    yield f"\n{task.name}, {len(x)} examples\n"
    yield f"| net | kB | of float32 | {counted} | ms | float32 / this | |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    for net in nets:
        first = next(n for n in nets if n.name.partition(",")[0] == net.name.partition(",")[0])
        right = np.mean(classes(net, x) == want)
        note = net.note
        if named is not None:
            found = classes(net, named[0]["x"])
            hits = sum(int(c) in right_ones for c, right_ones in zip(found, named[1], strict=True))
            note = f"{hits} of {len(found)} photographs"
        share = net.size_bytes / nets[0].size_bytes
        faster = times[first.name] / times[net.name]
        numbers = f"{net.size_bytes / 1000:.0f} | {share:.3f} | {right:.4f}"
        yield f"| {net.name} | {numbers} | {1e3 * times[net.name]:.2f} | {faster:.2f} | {note} |"


def litert(python: str, task: Task, out: Path, most: int | None) -> Iterator[str]:
    """Rows of LiteRT's own converter on the same weights, measured in its own process."""
    state = {k: v.numpy() for k, v in torch.load(task.onnx.with_suffix(".pt")).items()}
    last = {
        "x": task.test["x"][:most].transpose(0, 2, 3, 1),
        "calibration": task.calibration["x"].transpose(0, 2, 3, 1),
        "label": task.label[:most] if task.label is not None else np.zeros(0),
    }
    np.savez(out / "litert.npz", **state, **last)
    command = [python, str(Path(__file__).with_name("litert_twin.py")), str(out / "litert.npz")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for row in found:
        share = row["size_bytes"] / found[0]["size_bytes"]
        numbers = f"{row['size_bytes'] / 1000:.0f} | {share:.3f} | {row['accuracy']:.4f}"
        faster = found[0]["ms"] / row["ms"]
        yield f"| LiteRT, {row['name']} | {numbers} | {row['ms']:.2f} | {faster:.2f} | |"


def classes(net: Net, x: Array) -> Array:
    parts = [np.argmax(net.answer(x[i : i + 16]), axis=1) for i in range(0, len(x), 16)]
    return np.concatenate(parts)


if __name__ == "__main__":
    main()
