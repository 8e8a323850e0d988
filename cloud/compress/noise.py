"""How much quantization adds to each value of a graph, in decibels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloud.compress.calibrate import Samples, watch
from cloud.compress.quantize import MOVES, Quantized
from ir.graph import Array

EXAMPLES = 8  # enough to rank layers


@dataclass(frozen=True)
class LayerNoise:
    """`sqnr_db`: signal to quantization noise of the result, after all layers up to this one."""

    source: str
    operator: str
    sqnr_db: float


def layer_noise(quantized: Quantized, samples: Samples) -> list[LayerNoise]:
    """The noise of every int8 node's result, in order of the graph.

    The value of the float graph is the signal; what the int8 graph differs by is the noise.
    """
    stored = [(v, s) for v, s in quantized.stored.items() if v.node and v.node.op.name not in MOVES]
    floats = watch(quantized.source, [v for v, _ in stored], samples, most=EXAMPLES)
    ints = watch(quantized.graph, [s.value for _, s in stored], samples, most=EXAMPLES)
    signal, noise = np.zeros(len(stored)), np.zeros(len(stored))
    for want, got in zip(floats, ints, strict=False):
        for i, (_, s) in enumerate(stored):
            real = (got[i].astype(np.float64) - s.zero) * s.scale
            signal[i] += np.square(want[i], dtype=np.float64).sum()
            noise[i] += np.square(want[i] - real).sum()
    return [
        LayerNoise(v.node.source, v.node.op.name, decibels(a, b))  # type: ignore[union-attr]
        for (v, _), a, b in zip(stored, signal, noise, strict=True)
    ]


def sqnr_db(want: Sequence[Array], got: Sequence[Array]) -> float:
    """10 log10 of the signal's power over that of the difference, over all arrays together."""
    signal = sum(float(np.square(a, dtype=np.float64).sum()) for a in want)
    noise = sum(
        float(np.square(np.subtract(a, b, dtype=np.float64)).sum())
        for a, b in zip(want, got, strict=True)
    )
    return decibels(signal, noise)


def decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
