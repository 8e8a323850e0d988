"""How much quantization adds to each value of a graph, in decibels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloud.compress.calibrate import Samples, batch_size, watch
from cloud.compress.quantize import MOVES, Quantized
from ir.graph import Array, Node

EXAMPLES = 8  # enough to rank layers


@dataclass(frozen=True)
class LayerNoise:
    """Of the result of `node`: `sqnr_db`, signal to quantization noise after all layers up to this
    one; `added`, the share of noise to signal (of powers) beyond that of its noisiest input."""

    node: Node
    sqnr_db: float
    added: float

    @property
    def source(self) -> str:
        return self.node.source

    @property
    def operator(self) -> str:
        return self.node.op.name


def layer_noise(quantized: Quantized, samples: Samples) -> list[LayerNoise]:
    """The noise of every changed node's result, in order of the graph.

    The value of the float graph is the signal; what the quantized graph differs by is the noise.
    """
    stored = [(v, s) for v, s in quantized.stored.items() if v.node]
    values = [v for v, _ in stored]
    batch = {"most": EXAMPLES, "size": batch_size(quantized.source, values)}
    floats = watch(quantized.source, values, samples, **batch)
    ints = watch(quantized.graph, [s.value for _, s in stored], samples, **batch)
    signal, noise = np.zeros(len(stored)), np.zeros(len(stored))
    for want, got in zip(floats, ints, strict=True):
        for i, (_, s) in enumerate(stored):
            real = (got[i].astype(np.float64) - s.zero) * s.scale
            signal[i] += np.square(want[i], dtype=np.float64).sum()
            noise[i] += np.square(want[i] - real).sum()
    share = {
        v: b / a if a else float(b > 0) for (v, _), a, b in zip(stored, signal, noise, strict=True)
    }
    found = []
    for (v, _), a, b in zip(stored, signal, noise, strict=True):
        node = v.node
        assert node is not None
        if node.op.name in MOVES:
            continue
        before = max((share.get(x, 0.0) for x in node.present_inputs), default=0.0)
        found.append(LayerNoise(node, decibels(a, b), max(share[v] - before, 0.0)))
    return found


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
