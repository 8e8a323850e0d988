"""Inference beside ONNX Runtime: the same ONNX files, float32 and int8, by our converter."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

import lite_runtime as lite
from bench.timing import Row, Turns, rows, take_turns, timed
from converter import convert
from ir.graph import Array
from tests.converter.torch_models import (
    dscnn,
    export,
    lenet,
    mobilenet_v2,
    quiet,
    randomised,
    resnet18,
)

CALIBRATION = 16  # examples, of the distribution that is measured


@dataclass(frozen=True)
class Case:
    make: Callable[[], torch.nn.Module]
    shape: tuple[int, ...]  # of one example, channels first


CASES = {
    "lenet": Case(lenet, (1, 28, 28)),
    "dscnn 64": Case(partial(dscnn, 64), (1, 49, 10)),
    "mobilenet_v2 0.5 96": Case(partial(mobilenet_v2, 0.5, 1000), (3, 96, 96)),
    "resnet18 16 64": Case(partial(resnet18, 16), (3, 64, 64)),
    "mobilenet_v2 0.5 160": Case(partial(mobilenet_v2, 0.5, 1000), (3, 160, 160)),
    "mobilenet_v2 1.0 224": Case(partial(mobilenet_v2, 1.0, 1000), (3, 224, 224)),
}
QUICK_CASES = ("lenet", "dscnn 64", "mobilenet_v2 0.5 96")


def measure(
    turns: Turns, threads: Sequence[int], cases: Sequence[str] = tuple(CASES)
) -> Iterator[Row]:
    """Rows of every case: float32 and int8, by number of threads."""
    for name in cases:
        with tempfile.TemporaryDirectory() as folder:
            yield from Prepared(name, CASES[name], Path(folder)).measure(turns, threads)


class Prepared:
    """One model as files of both runtimes."""

    def __init__(self, name: str, case: Case, folder: Path) -> None:
        self.name, self.folder = name, folder
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((1, *case.shape)).astype(np.float32)
        samples = rng.standard_normal((CALIBRATION, *case.shape)).astype(np.float32)
        torch.manual_seed(0)
        source = export(
            randomised(case.make()), folder / "float32.onnx", case.shape, free_batch=False
        )
        self.theirs = {"float32": source, "int8": quantized_onnx(source, samples)}
        self.ours = {p: folder / f"{p}.ms" for p in self.theirs}
        convert(source, self.ours["float32"], check=1)
        # How well weights at random survive int8 says nothing: the noise is reported, not refused.
        calibration = {"x": samples}
        convert(
            source, self.ours["int8"], quantize="int8", calibration=calibration, check=1, tol=1.0
        )

    def measure(self, turns: Turns, threads: Sequence[int]) -> Iterator[Row]:
        exact = onnx_runner(self.theirs["float32"], self.x, 1)()
        for precision in self.theirs:
            for n in threads:
                session = lite.load(self.ours[precision], threads=n)
                contenders = {
                    "ours": partial(session.run, self.x),
                    "onnxruntime": onnx_runner(self.theirs[precision], self.x, n),
                }
                note = ", ".join(
                    f"{who} {_difference(run(), exact, precision)}"
                    for who, run in contenders.items()
                    if precision == "int8" or who == "ours"
                )
                found = take_turns({who: timed(run) for who, run in contenders.items()}, turns)
                yield from rows("inference", f"{self.name} {precision}", n, found, note)


def onnx_runner(path: Path, x: Array, threads: int) -> Callable[[], Array]:
    """One inference by ONNX Runtime, all optimisations on."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)[0]


def quantized_onnx(source: Path, samples: Array) -> Path:
    """Static int8 as it is fastest on AVX2: 8-bit activations without sign, 7-bit weights by
    channel, which cannot overflow the 16-bit sums of its instructions."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.feeds = iter([{"x": x[None]} for x in samples])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.feeds, None)

    clean, target = source.with_name("clean.onnx"), source.with_name("int8.onnx")
    logging.getLogger().setLevel(logging.ERROR)
    with quiet():
        quant_pre_process(source, clean)
        q.quantize_static(
            clean,
            target,
            Samples(),
            quant_format=q.QuantFormat.QDQ,
            per_channel=True,
            reduce_range=True,
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
        )
    return target


def _difference(found: Array, exact: Array, precision: str) -> str:
    if precision == "float32":
        return f"off by {np.abs(found - exact).max() / np.abs(exact).max():.0e}"
    noise = np.square(found - exact).mean() / np.square(exact).mean()
    return f"{-10 * np.log10(noise):.0f} dB"
