"""Rounding of weights that follows samples: what one weight is off by, the others of its row take
back, as far as the layer's inputs go together (GPTQ, Frantar et al. 2022)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cloud.compress.calibrate import Samples, watch
from ir.compression import compress, expand, pack_levels, row_levels
from ir.graph import Array, Graph, Node, Value, is_fixed
from ir.passes.rewrite import uses

MOST_INPUTS = 4096  # of a layer whose inputs are compared with each other
MOST_ROWS = 2048  # of a layer's inputs in a batch of samples, at random
BLOCK = 32  # columns that are rounded before the others hear of it
DAMPING = 0.01  # of the mean variance, on the diagonal
CONSTANT = 1e-12  # of an input's mean square: a variance of less is the rounding of a constant


@dataclass
class Moments:
    """Of a layer's inputs: how many, their mean [n] and the sum of the products of what each is
    off from it [n, n]."""

    count: int
    mean: Array
    scatter: Array

    @classmethod
    def none(cls, n: int) -> Moments:
        return cls(0, np.zeros(n), np.zeros((n, n)))

    def add(self, rows: Array) -> None:
        """Merge with the moments of rows (Chan et al. 1979): where means are large beside what
        inputs differ by, a difference of squares would leave nothing of that."""
        wide, both = rows.astype(np.float64), self.count + len(rows)
        if not len(rows):
            return
        with np.errstate(invalid="ignore"):  # of infinity; it is left out in the end
            mean = wide.mean(0)
            off, apart = wide - mean, mean - self.mean
            self.scatter += off.T @ off
            self.scatter += np.outer(apart, apart) * (self.count * len(rows) / both)
            self.mean = self.mean + apart * (len(rows) / both)
        self.count = both

    @property
    def covariance(self) -> Array:
        """What is believed of it: the fewer the rows, the less of how inputs go together, down to
        their variances alone (Schaefer and Strimmer 2005)."""
        found = self.scatter / max(self.count, 1)
        found += np.diag(np.square(self.mean) * CONSTANT)
        deviation = np.sqrt(np.maximum(np.diag(found), np.finfo(np.float64).tiny))
        square = np.square(found / np.outer(deviation, deviation))
        np.fill_diagonal(square, 0)
        chance = len(square) * (len(square) - 1) / max(self.count - 1, 1)  # of unlike inputs
        share = min(1.0, chance / max(square.sum(), 1e-300))
        diagonal = np.diag(found).copy()
        found *= 1 - share
        np.fill_diagonal(found, diagonal)
        return np.asarray(found)

    @property
    def sure_mean(self) -> Array:
        """The mean where there is more to it than chance, else 0, as of a single row."""
        chance = np.trace(self.scatter) / max(self.count - 1, 1) / max(self.count, 1)
        sure = self.count > 1 and np.square(self.mean).sum() > 2 * chance
        return self.mean if sure else np.zeros_like(self.mean)


@dataclass
class Rounding:
    """What samples say of the inputs of layers, by their weights, and what became of these."""

    moments: Mapping[Value, Moments]
    done: dict[tuple[Value, int, int], tuple[Array, Array]] = field(default_factory=dict)

    def compressed(self, w: Value, rows: Array, bits: int, group: int) -> tuple[Array, Array]:
        """(stored, scale) as `compress` gives them, of the rows of weight `w`."""
        key = w, bits, group
        if key not in self.done:
            self.done[key] = rounded(rows, self.moments[w].covariance, bits, group)
        return self.done[key]

    def corrected(self, node: Node, rows: Array) -> Array:
        """The layer's bias, less what the stored weight, read back as `rows`, adds to its mean."""
        w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
        assert w is not None
        own = w.data.reshape(rows.shape).astype(np.float64)  # type: ignore[attr-defined]
        bias = np.zeros(len(rows)) if b is None else b.data  # type: ignore[attr-defined]
        moved = (rows - own) @ self.moments[w].sure_mean
        most = np.finfo(np.float32).max  # as of inputs that are almost as large
        return np.asarray(np.clip(bias - moved, -most, most), np.float32)


def learned(graph: Graph, samples: Samples) -> Rounding:
    """What the samples say of linear layers and convolutions of one place, in one group, whose
    weights nothing else reads."""
    layers = [n for n in graph.nodes if _is_product(n)]
    readers, count = Counter(n.inputs[1] for n in layers), uses(graph)
    layers = [n for n in layers if readers[n.inputs[1]] == count[n.inputs[1]]]  # type: ignore[index]
    sizes = {n.inputs[1]: int(n.inputs[1].shape[-1]) for n in layers}  # type: ignore[union-attr, arg-type]
    found = {w: Moments.none(n) for w, n in sizes.items()}
    rng = np.random.default_rng(0)
    for seen in watch(graph, [n.inputs[0] for n in layers], samples) if layers else ():  # type: ignore[misc]
        for node, x in zip(layers, seen, strict=True):
            rows = _rows(node, x)
            if len(rows) > MOST_ROWS:
                rows = rows[rng.choice(len(rows), MOST_ROWS, replace=False)]
            found[node.inputs[1]].add(rows)
    sound = {w: m for w, m in found.items() if m.count and np.isfinite(m.scatter).all()}
    return Rounding(sound)  # type: ignore[arg-type]


def rounded(rows: Array, covariance: Array, bits: int, group: int) -> tuple[Array, Array]:
    """(stored, scale) of rows [k, n] for inputs of this covariance [n, n].

    Column by column: each is rounded, and what it is off by is taken from those behind it, as far
    as the inputs go together. A group's scale is that of its weights when it is reached.
    """
    left, n = rows.astype(np.float64), rows.shape[1]
    size = group or n
    damped = covariance + np.eye(n) * (DAMPING * np.trace(covariance) / n or 1.0)
    factor = np.linalg.cholesky(np.linalg.inv(damped)).T
    levels, scales = np.zeros(rows.shape, np.int8), []
    for first in range(0, n, size):
        end = min(first + size, n)
        _, scale = compress(left[:, first:end].astype(np.float32), bits, group)
        assert scale is not None
        for start in range(first, end, BLOCK):
            columns = slice(start, min(start + BLOCK, end))
            _round_columns(left, levels, columns, scale[:, 0].astype(np.float64), factor, bits)
        scales.append(scale)
    one_type = np.result_type(*scales)
    return pack_levels(levels, bits), np.concatenate([s.astype(one_type) for s in scales], axis=1)


def _round_columns(
    left: Array, levels: Array, columns: slice, scale: Array, factor: Array, bits: int
) -> None:
    """Round some columns of what is left of the weights, which the others behind them then make
    up for at once."""
    off = np.zeros((len(left), columns.stop - columns.start))
    for i, j in enumerate(range(columns.start, columns.stop)):
        levels[:, j] = row_levels(left[:, j], scale, bits)
        off[:, i] = (left[:, j] - levels[:, j] * scale) / factor[j, j]
        left[:, j : columns.stop] -= np.outer(off[:, i], factor[j, j : columns.stop])
    left[:, columns.stop :] -= off @ factor[columns, columns.stop :]


def read_back(stored: Array, scale: Array, n: int, bits: int, group: int) -> Array:
    """Rows of n numbers, float64."""
    return expand(stored, scale, n, bits, group).astype(np.float64)


def _is_product(node: Node) -> bool:
    """Whether a layer's results are rows of its input times its weight."""
    if node.op.name not in ("linear", "conv2d") or node.inputs[0] is None:
        return False
    w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    if w is None or not is_fixed(w) or (b is not None and not is_fixed(b)):
        return False
    one = node.op.name == "linear" or (
        w.shape[1:3] == (1, 1) and node.attrs["groups"] == 1 and not any(node.attrs["pads"])
    )
    return one and int(w.shape[-1]) <= MOST_INPUTS  # type: ignore[arg-type]


def _rows(node: Node, x: Array) -> Array:
    if node.op.name == "conv2d":
        down, across = node.attrs["strides"]
        x = x[:, ::down, ::across]
    return x.reshape(-1, x.shape[-1])
