"""Weight-only compression: weights are stored in 16, 8 or 4 bits, arithmetic stays float32.

Needs no samples. A linear layer and a look-up in an embedding read stored rows as they are
(`compressed_linear`, `compressed_gather`); what else has a large fixed weight gets it from a node
that reads it back (`decompress`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from cloud.compress.quantize import Quantized, Stored, check_patterns, names_of
from cloud.compress.rounding import Rounding, read_back
from ir.compression import BLOCK, LARGEST_HALF, compress, exact_levels
from ir.dtype import DType
from ir.graph import Array, Constant, Graph, Node, Value, Weight, is_fixed
from ir.op import OPS
from ir.passes.rewrite import rewrite

LEAST = 256  # elements of a weight that is worth it
SHORT = 4  # a row of as many saves little beside its scale, and one number alone fits any
SMALL_SHARE = 0.02  # of all numbers: the smallest weights of so many have 8 bits, not 4
DEFAULT_GROUP = {16: 0, 8: 0, 4: BLOCK}  # weights that share a scale; 0: a whole row


@dataclass(frozen=True)
class Scheme:
    """How weights are stored: `bits` 16, 8 or 4, and how many neighbours share a scale."""

    bits: int
    group: int = 0

    def __post_init__(self) -> None:
        if self.bits not in DEFAULT_GROUP:
            raise ValueError(f"{self.bits} bits, want one of {sorted(DEFAULT_GROUP)}")
        if self.group < 0 or (self.bits == 4 and self.group % BLOCK):
            want = f"a multiple of {BLOCK}" if self.bits == 4 else "at least 0"
            raise ValueError(f"group {self.group} of {self.bits} bits, want {want}")


def compressed_weights(
    graph: Graph,
    scheme: Scheme,
    *,
    keep_float: Sequence[str] = (),
    keep: Container[Node] = (),
    exactly: bool = False,
    store: WeightStore | None = None,
    rounding: Rounding | None = None,
) -> Quantized:
    """The graph with its large fixed weights stored as `scheme` says; `exactly`: those alone that
    lose nothing by that, in rows of one scale. `store`: one for all graphs that share weights.
    `rounding`: what samples say of layers' inputs, which their weights are then rounded for.

    Nodes in `keep`, and those whose source or weight matches a pattern of `keep_float`, keep
    theirs. With 8 and 4 bits so do depthwise convolutions, whose weights are few, and vectors; of
    4 bits the smallest weights have 8, for they cost little and the first layers are among them.
    So are those in branches and loops. Raises GraphError for a pattern that matches nothing.
    """
    check_patterns(graph, keep_float)
    walk = store or WeightStore(scheme, exactly, rounding)
    walk.spare_small(graph)
    stored: dict[Value, Value] = {}
    inside: dict[Graph, Graph] = {}

    def change(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        if node in keep or any(fnmatchcase(n, p) for n in names_of(node) for p in keep_float):
            return None
        attrs = {k: compressed(a) for k, a in node.attrs.items()}
        if any(attrs[k] is not a for k, a in node.attrs.items()):
            return node.op.node(inputs, attrs, node.source).results
        y = walk.changed(node, inputs) if len(node.results) == 1 else None
        return None if y is None else (y,)

    def compressed(attr: Any) -> Any:
        if not isinstance(attr, Graph):
            return attr
        if attr not in inside:
            new = rewrite(attr, change)
            same = all(a is b for a, b in zip(new.nodes, attr.nodes, strict=False))
            inside[attr] = attr if same and len(new.nodes) == len(attr.nodes) else new
        return inside[attr]

    def told(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value] | None:
        made = change(node, inputs)
        pairs = zip(node.results, made or (), strict=False)
        floats = [(v, y) for v, y in pairs if v.dtype is DType.f32]
        stored.update(floats[:1])
        return made

    new = rewrite(graph, told)
    return Quantized(graph, new, {v: Stored(y, 1.0, 0) for v, y in stored.items()})


class WeightStore:
    """Makes nodes on stored weights; a weight that several nodes read, be it in several graphs, is
    stored once."""

    def __init__(self, scheme: Scheme, exactly: bool, rounding: Rounding | None = None) -> None:
        self.scheme, self.exactly = scheme, exactly
        self.rounding = None if scheme.bits == 16 else rounding
        self.made: dict[tuple[Value, int], tuple[Value, Value | None] | None] = {}
        self.names: Counter[str] = Counter()
        self.small: set[Value] = set()

    def spare_small(self, graph: Graph) -> None:
        """Find the weights that have 8 bits in place of 4."""
        if self.scheme.bits != 4 or self.exactly:
            return
        weights = sorted(graph.weights, key=lambda w: w.data.size)
        total = np.cumsum([w.data.size for w in weights])
        most = SMALL_SHARE * total[-1] if weights else 0
        self.small = {w for w, n in zip(weights, total, strict=True) if n <= most}

    def scheme_of(self, v: Value | None) -> Scheme:
        return Scheme(8) if v in self.small else self.scheme

    def attrs_of(self, v: Value | None) -> dict[str, int]:
        scheme = self.scheme_of(v)
        return {"bits": scheme.bits, "group": scheme.group}

    def changed(self, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        name = node.op.name
        if name == "linear" and (found := self.stored(inputs[1], 1)):
            attrs = {**self.attrs_of(inputs[1]), "activation": node.attrs["activation"]}
            bias = self.corrected(node, inputs, found)
            return OPS["compressed_linear"](inputs[0], *found, bias, **attrs)  # type: ignore[no-any-return]
        if name == "gather" and node.attrs["axis"] == 0 and (found := self.stored(inputs[0], 1)):
            w, scale = found
            size = inputs[0].shape[1] if inputs[0] is not None else 0
            attrs = self.attrs_of(inputs[0])
            return OPS["compressed_gather"](w, inputs[1], scale, **attrs, size=size)  # type: ignore[no-any-return]
        new = [self.read_back(node, v) for v in inputs]
        if name == "conv2d" and new[1] is not inputs[1]:
            new[2] = self.corrected(node, inputs, self.made[inputs[1], 1])  # type: ignore[index, arg-type]
        if all(a is b for a, b in zip(new, inputs, strict=True)):
            return None
        return node.op.node(new, node.attrs, node.source).results[0]

    def read_back(self, node: Node, v: Value | None) -> Value | None:
        """The value, or a node that reads it back from what is stored."""
        if v is None or v.rank < 2:
            return v
        few = self.scheme.bits != 16 and node.op.name == "depthwise_conv2d"
        found = None if few else self.stored(v, 1 if node.op.name == "conv2d" else v.rank - 1)
        return v if found is None else OPS["decompress"](*found, **self.attrs_of(v), shape=v.shape)

    def corrected(
        self, node: Node, inputs: Sequence[Value | None], found: tuple[Value, Value | None]
    ) -> Value | None:
        """The layer's bias, without what rounding its weight adds to the mean of its results."""
        w, bias = inputs[1], inputs[2]
        if self.rounding is None or w not in self.rounding.moments or found[1] is None:
            return bias
        scheme, n = self.scheme_of(w), int(w.shape[-1])  # type: ignore[union-attr, arg-type]
        ends = (v.data for v in found)  # type: ignore[union-attr]
        rows = read_back(*ends, n, scheme.bits, scheme.group)
        return Constant(self.rounding.corrected(node, rows))

    def stored(self, v: Value | None, axes: int) -> tuple[Value, Value | None] | None:
        """Stored rows, over the first `axes` axes, and their scales. None: not this one."""
        if not isinstance(v, (Weight, Constant)) or not is_fixed(v) or v.dtype is not DType.f32:
            return None
        if v.data.size < LEAST or v.rank < 2:
            return None
        if (v, axes) not in self.made:
            self.made[v, axes] = self._store(v, axes)
        return self.made[v, axes]

    def _store(self, v: Weight | Constant, axes: int) -> tuple[Value, Value | None] | None:
        rows = v.data.reshape(int(np.prod(v.shape[:axes])), -1)
        if not np.isfinite(rows).all():
            return None  # the masks of attention
        if self.scheme.bits == 16 and np.abs(rows).max() > LARGEST_HALF:
            return None
        found = self._exact(rows) if self.exactly else self._compressed(v, rows)
        if found is None:
            return None
        data, scale = found
        name = v.name or "weight"
        self.names[name] += 1  # more than once where it is stored in two ways
        name += f".{self.names[name]}" if self.names[name] > 1 else ""
        return _leaf(name, data), None if scale is None else _leaf(f"{name}.scale", scale)

    def _compressed(self, v: Value, rows: Array) -> tuple[Array, Array | None]:
        scheme = self.scheme_of(v)
        if self.rounding is not None and v in self.rounding.moments:
            return self.rounding.compressed(v, rows, scheme.bits, scheme.group)
        return compress(rows, scheme.bits, scheme.group)

    def _exact(self, rows: Array) -> tuple[Array, Array | None] | None:
        """The same for rows that are such numbers already."""
        if self.scheme.bits == 16:
            data, _ = compress(rows, 16)
            return (data, None) if np.array_equal(data.astype(np.float32), rows) else None
        if rows.shape[1] <= SHORT:
            return None
        found = exact_levels(rows)
        if found is None or not np.array_equal(found[0] * found[1][:, None], rows):
            return None
        return found[0], found[1][:, None]


def _leaf(name: str, data: Array) -> Weight:
    return Weight(np.ascontiguousarray(data), name=name, trainable=False)
