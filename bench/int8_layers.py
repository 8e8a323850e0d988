"""Single layers on int8, or with --int16 on int16, beside float32 of the same sizes:
python -m bench.int8_layers [--int16] [ISA ...]

Ratios of float32's time to theirs for one thread and for two; below 1, integers are slower. Each
layer is a model of its own that runs in turns with the other type's; times are those of the kernel,
of the fastest of many short bursts. ISA: instruction sets to keep to, as backends are named;
without one, the processor's own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import lite_runtime as lite
from cloud import ops
from ir.dtype import DType
from ir.graph import Array, Constant, Graph, Model, Value, Weight
from ir.model_file import write
from ir.quantization import (
    ADD_LEFT_SHIFT,
    ADD_LEFT_SHIFT_16,
    HIGHEST_16,
    LOWEST_16,
    add_attrs,
    quantize_multiplier,
)

ROUNDS, BURST_US, THREADS = 200, 50.0, (1, 2)
SCALE = 0.05  # of every stored value
BOUNDS_16 = {"low": LOWEST_16, "high": HIGHEST_16}


@dataclass(frozen=True)
class Layer:
    """A layer of any type: `make(values)` gives its result."""

    make: Callable[[tuple[Value, ...]], Value]
    shapes: tuple[tuple[int, ...], ...]


def conv(name: str, w_shape: tuple[int, ...], k: int, **attrs: Any) -> Callable[..., Value]:
    """conv2d, depthwise_conv2d or linear with relu6, by weights at random."""
    rng = np.random.default_rng(0)
    w, depth = rng.standard_normal(w_shape).clip(-2.5, 2.5), np.prod(w_shape) / k
    multiplier, shift = quantize_multiplier(0.01 / np.sqrt(depth))

    def make(x: tuple[Value, ...]) -> Value:
        if x[0].dtype is DType.f32:
            f32 = Weight(w.astype(np.float32), name="w", trainable=False)
            bias = Constant(np.zeros(k, np.float32))
            y = getattr(ops, name)(x[0], f32, bias, activation="relu6", **attrs)
            return y  # type: ignore[no-any-return]
        i8 = Weight(np.round(w * 127 / 2.5).astype(np.int8), name="w", trainable=False)
        wide = x[0].dtype is DType.i16
        bias = Constant(np.full(k, 7, np.int64 if wide else np.int32))
        ends = (Constant(np.full(k, n, np.int32)) for n in (multiplier, shift))
        stored = BOUNDS_16 if wide else {"x_zero": -128, "y_zero": -128}
        return getattr(ops, f"quantized_{name}")(x[0], i8, bias, *ends, **stored, **attrs)  # type: ignore[no-any-return]

    return make


def image(op: str, size: int, c: int, k: int, r: int, stride: int = 1) -> Layer:
    """A layer with windows of r by r over an image of size by size."""
    w = (r, r, c) if op == "depthwise_conv2d" else (k, r, r, c)
    attrs = {"pads": (r // 2,) * 4, "strides": (stride, stride)}
    return Layer(conv(op, w, k, **attrs), ((1, size, size, c),))


def binary(name: str, *shapes: tuple[int, ...]) -> Layer:
    multiplier, shift = quantize_multiplier(SCALE * 0.7)

    def make(x: tuple[Value, ...]) -> Value:
        if x[0].dtype is DType.f32:
            return getattr(ops, name)(*x)  # type: ignore[no-any-return]
        wide = x[0].dtype is DType.i16
        left = ADD_LEFT_SHIFT_16 if wide else ADD_LEFT_SHIFT
        attrs = {"mul": {"multiplier": multiplier, "shift": shift}}
        attrs["add"] = add_attrs(SCALE, SCALE * 0.7134, SCALE * 1.3171, left)
        return getattr(ops, f"quantized_{name}")(*x, **attrs[name], **(BOUNDS_16 if wide else {}))  # type: ignore[no-any-return]

    return Layer(make, shapes)


def mean(x: tuple[Value, ...]) -> Value:
    if x[0].dtype is DType.f32:
        return ops.reduce_mean(x[0], axes=(1, 2))  # type: ignore[no-any-return]
    multiplier, shift = quantize_multiplier(1 / 49)
    bounds = BOUNDS_16 if x[0].dtype is DType.i16 else {}
    return ops.quantized_mean(x[0], multiplier=multiplier, shift=shift, **bounds)  # type: ignore[no-any-return]


def pooled(name: str, x: tuple[Value, ...]) -> Value:
    window = {"size": (2, 2), "strides": (2, 2)}
    if x[0].dtype is DType.f32 or name == "max_pool2d":
        return getattr(ops, name)(x[0], **window)  # type: ignore[no-any-return]
    bounds = BOUNDS_16 if x[0].dtype is DType.i16 else {}
    return getattr(ops, f"quantized_{name}")(x[0], **window, **bounds)  # type: ignore[no-any-return]


def looked_up(x: tuple[Value, ...]) -> Value:
    if x[0].dtype is DType.f32:
        return ops.hard_swish(x[0])  # type: ignore[no-any-return]
    table = Constant(np.arange(-128, 128).astype(np.int8))
    return ops.quantized_lookup(x[0], table)  # type: ignore[no-any-return]


LAYERS = {
    **{
        f"depthwise {r} x {r}, {c}, {size} x {size}, stride {stride}": image(
            "depthwise_conv2d", size, c, c, r, stride
        )
        for size, c, r, stride in [
            (7, 960, 3, 1), (14, 64, 3, 1), (14, 96, 3, 2), (14, 576, 3, 1), (28, 48, 3, 1),
            (28, 192, 3, 1), (56, 144, 3, 2), (112, 32, 3, 1), (112, 16, 3, 1), (25, 64, 3, 1),
            (14, 120, 5, 1), (28, 72, 5, 2),
        ]
    },
    **{
        f"conv {r} x {r}, {c} to {k}, {size} x {size}, stride {stride}": image(
            "conv2d", size, c, k, r, stride
        )
        for size, c, k, r, stride in [
            (112, 16, 96, 1, 1), (56, 96, 24, 1, 1), (28, 32, 192, 1, 1), (14, 64, 384, 1, 1),
            (14, 384, 64, 1, 1), (7, 160, 960, 1, 1), (7, 960, 160, 1, 1), (48, 8, 48, 1, 1),
            (224, 3, 32, 3, 2), (96, 3, 16, 3, 2), (28, 1, 6, 5, 1), (16, 16, 16, 3, 1),
            (56, 64, 64, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1),
        ]
    },
    **{
        f"linear {rows} x {c} to {k}": Layer(conv("linear", (k, c), k), ((rows, c),))
        for rows, c, k in [(1, 1280, 1000), (1, 400, 120), (1, 84, 10), (64, 256, 256)]
    },
    **{
        f"add {', '.join(' x '.join(map(str, s)) for s in shapes)}": binary("add", *shapes)
        for shapes in [
            [(1, 7, 7, 160)] * 2, [(1, 14, 14, 64)] * 2, [(1, 28, 28, 32)] * 2,
            [(1, 56, 56, 24)] * 2, [(1, 16, 16, 16)] * 2, [(1, 4, 4, 64)] * 2,
            [(1, 56, 56, 256)] * 2,
        ]
    },
    "mul 14 x 14 x 96 by channel": binary("mul", (1, 14, 14, 96), (1, 1, 1, 96)),
    "mul 14 x 14 x 96": binary("mul", (1, 14, 14, 96), (1, 14, 14, 96)),
    "mean of 7 x 7 x 1280": Layer(mean, ((1, 7, 7, 1280),)),
    "max pool 2 x 2, 56 x 56 x 64": Layer(partial(pooled, "max_pool2d"), ((1, 56, 56, 64),)),
    "average pool 2 x 2, 56 x 56 x 64": Layer(partial(pooled, "avg_pool2d"), ((1, 56, 56, 64),)),
    "hard swish, 28 x 28 x 72": Layer(looked_up, ((1, 28, 28, 72),)),  # on int8 alone
}  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(prog="python -m bench.int8_layers", description=__doc__)
    p.add_argument("--int16", action="store_true", help="layers on int16")
    p.add_argument("isas", nargs="*", metavar="ISA", default=["auto"])
    args = p.parse_args()
    dtype = DType.i16 if args.int16 else DType.i8
    heads = (f"{b + ' us':>16}{'f32 / ' + dtype.name:>16}" for b in args.isas)
    print(f"{'':44}" + "".join(heads))
    for name, layer in LAYERS.items():
        if dtype is DType.i16 and layer.make is looked_up:
            continue
        cells = [found for backend in args.isas for found in row(layer, dtype, backend)]
        print(f"{name:44}" + "".join(f"{c:>16}" for c in cells), flush=True)


def row(layer: Layer, dtype: DType, backend: str) -> tuple[str, str]:
    """Microseconds of the type, and how many times longer float32 takes, by number of threads."""
    found = [fastest(layer, dtype, backend, n) for n in THREADS]
    times = (f"{stored:.1f}" for _, stored in found)
    return " / ".join(times), " / ".join(f"{f32 / stored:.2f}" for f32, stored in found)


def fastest(layer: Layer, dtype: DType, backend: str, threads: int) -> list[float]:
    """Microseconds of float32 and of the type: the fastest of many bursts in turns."""
    runs = [_burst(layer, t, backend, threads) for t in (DType.f32, dtype)]
    times = [[run() for run in runs] for _ in range(ROUNDS)]
    return [min(t[i] for t in times) for i in range(2)]


def _burst(layer: Layer, dtype: DType, backend: str, threads: int) -> Callable[[], float]:
    values = tuple(Value(s, dtype, name=f"x{i}") for i, s in enumerate(layer.shapes))
    graph = Graph(values, (layer.make(values),), ("y",))
    session = lite.load(write(Model({"infer": graph})), threads=threads, backend=backend)
    rng = np.random.default_rng(1)
    feed: dict[str, Array] = {
        f"x{i}": rng.integers(-128, 128, s).astype(dtype.numpy) for i, s in enumerate(layer.shapes)
    }
    once_us = min(session.profile(feed, runs=1).time_us for _ in range(5))
    runs = max(1, round(BURST_US / once_us))
    return lambda: session.profile(feed, runs=runs).time_us


if __name__ == "__main__":
    main()
