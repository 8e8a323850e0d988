"""Layers between quantizers and dequantizers, as QDQ models have them, become layers on int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloud.compress.forms import INT8
from cloud.compress.quantize import CLAMPS, MOVES, Stored, function_of
from ir import quantization as q
from ir.compression import exact_levels
from ir.dtype import DType
from ir.graph import Array, Constant, Graph, Node, Value, Weight, is_fixed
from ir.op import OPS
from ir.ops import OUTPUT_AXIS
from ir.ops.activation import Activation, activation_of
from ir.passes.rewrite import uses

BYTES = {DType.i8: 0, DType.u8: 128}  # by how much their numbers are moved to be int8
FLIP = (np.arange(-128, 128) ^ -128).astype(np.int8)  # adds 128, and wraps around


def find_int8(graph: Graph) -> Graph:
    """quantize(layer(dequantize(x), w)) -> quantized_layer(x, w), and so for sums, products, joins,
    means, pools, what moves numbers and functions of one number.

    Only where all inputs are dequantized, each by one scale, and nothing else reads the result
    before it is quantized. Weights of layers are fixed and hold what int8 holds. Rounding is that
    of our layers: a number may be one step off where the source's is close to a half.
    """
    walk = _Finder(graph)
    return walk.run() if walk.real and walk.whole else graph


@dataclass(frozen=True)
class _Scale:
    """Of whole numbers and real ones: `value` is the one that is given. In numbers of int8."""

    value: Value
    scale: float
    zero: int


class _Finder:
    """Walks the nodes; whole numbers of the source may exist as int8 of ours."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.count = graph, uses(graph)
        self.whole: dict[Value, _Scale] = {}  # of quantizers' results: what they quantize
        self.real: dict[Value, _Scale] = {}  # of dequantizers' results: what they read
        for node in graph.nodes:
            if (found := _quantizer(node)) is not None:
                self.whole[node.results[0]] = found
            elif (found := _dequantizer(node)) is not None:
                self.real[node.results[0]] = found
        self.now: dict[Value, Value] = {}
        self.stored: dict[Value, Stored] = {}  # by quantizers' results: made on int8
        self.entered: dict[Value, Value] = {}  # whole numbers that were made by others, as int8
        self.moved: dict[Value, Stored] = {}  # results of what moves dequantized numbers

    def run(self) -> Graph:
        for node in self.graph.nodes:
            y = node.results[0]
            made = self.quantized(self.whole[y]) if y in self.whole else None
            if made is not None:
                self.stored[y] = made
                self.now[y] = _as_source(made.value, y.dtype)
            elif y in self.real and self.real[y].value in self.stored:
                s = self.as_stored(y)
                assert s is not None
                self.now[y] = OPS["dequantize"](s.value, scale=s.scale, zero_point=s.zero)
            else:
                inputs = [v and self.now.get(v, v) for v in node.inputs]
                if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
                    new = node.op.node(inputs, node.attrs, node.source).results
                    self.now.update(zip(node.results, new, strict=True))
        outputs = tuple(self.now.get(v, v) for v in self.graph.outputs)
        updates = tuple((w, self.now.get(v, v)) for w, v in self.graph.updates)
        return Graph(self.graph.inputs, outputs, self.graph.output_names, updates)

    def as_stored(self, v: Value | None) -> Stored | None:
        """A dequantized value, or what moves one, as the int8 that it was."""
        moves: list[Node] = []
        while v is not None and v not in self.real and v not in self.moved:
            if v.node is None or v.node.op.name not in MOVES:
                return None
            moves.append(v.node)
            v = v.node.inputs[0]
        if v is None:
            return None
        s = self.moved[v] if v in self.moved else self.dequantized(self.real[v])
        for node in reversed(moves):
            (y,) = node.op.node([s.value], node.attrs, node.source).results
            s = self.moved[node.results[0]] = Stored(y, s.scale, s.zero)
        return s

    def dequantized(self, known: _Scale) -> Stored:
        if known.value in self.stored:
            return Stored(self.stored[known.value].value, known.scale, known.zero)
        if known.value not in self.entered:
            self.entered[known.value] = self.enter(known.value)
        return Stored(self.entered[known.value], known.scale, known.zero)

    def enter(self, whole: Value) -> Value:
        """Whole numbers that no int8 node of ours made."""
        if whole in self.whole:
            of = self.whole[whole]
            x = self.now.get(of.value, of.value)
            return OPS["quantize"](x, scale=of.scale, zero_point=of.zero)  # type: ignore[no-any-return]
        given = self.now.get(whole, whole)
        return _from_source(given) if whole.dtype is DType.u8 else given

    def quantized(self, end: _Scale) -> Stored | None:
        """What makes the quantized value on int8, or None where nothing does."""
        s = self.as_stored(end.value)
        y = self.computed(end) if s is None else _rescaled(s, end)
        if y is None:
            return None
        made, of = y.node, end.value.node
        if made is not None and of is not None and (s is None or y is not s.value):
            made.source = of.source  # the layer's, not that of what quantizes its result
        return Stored(y, end.scale, end.zero)

    def computed(self, end: _Scale) -> Value | None:
        node, kind = end.value.node, Activation.none
        if node is None or len(node.results) != 1 or self.count[end.value] > 1:
            return None
        first = node.inputs[0] if node.inputs else None
        clamp = activation_of(node)
        behind = first is not None and first not in self.real and self.count[first] == 1
        if clamp in CLAMPS and behind and first.node is not None:  # type: ignore[union-attr]
            node, kind = first.node, clamp  # type: ignore[union-attr]
        return self.made(node, kind, end)

    def made(self, node: Node, kind: Activation, end: _Scale) -> Value | None:
        """The node, and a clamp behind it, on int8."""
        name = node.op.name
        bounds = INT8.clamp_bounds(kind, end.scale, end.zero)
        if name in OUTPUT_AXIS:
            return self.layer(node, kind, end)
        inputs = [self.as_stored(v) for v in node.inputs]
        given = [s for s in inputs if s is not None]
        if not given or len(given) != len(inputs):
            return None
        if name in ("add", "mul"):
            return _binary(name, given, end, bounds)
        if kind is not Activation.none:
            return None
        if name == "concat":
            parts = [_rescaled(s, end) for s in given]
            return None if None in parts else OPS["concat"](*parts, **node.attrs)
        if name == "reduce_mean":
            return _mean(node, given[0], end)
        if name == "avg_pool2d" and not (
            node.attrs["count_include_pad"] and any(node.attrs["pads"])
        ):
            attrs = {k: a for k, a in node.attrs.items() if k != "count_include_pad"}
            y = OPS["quantized_avg_pool2d"](given[0].value, **attrs)
            return _rescaled(Stored(y, given[0].scale, given[0].zero), end)
        if node.op.family == "elementwise" and len(inputs) == 1:
            s = given[0]
            table = q.lookup_table(function_of(node), (s.scale, s.zero), (end.scale, end.zero))
            return OPS["quantized_lookup"](s.value, Constant(table))  # type: ignore[no-any-return]
        return None

    def layer(self, node: Node, kind: Activation, end: _Scale) -> Value | None:
        x, w, b = node.inputs
        own = node.attrs["activation"]
        if kind is not Activation.none and own is not Activation.none:
            return None
        kind = own if kind is Activation.none else kind
        s = self.as_stored(x)
        if s is None or w is None or not is_fixed(w) or not is_fixed(*([] if b is None else [b])):
            return None
        axis = OUTPUT_AXIS[node.op.name]
        found = _levels(w, axis)
        if kind not in CLAMPS or found is None:
            return None
        w8, scale = found
        bias = np.zeros(len(scale)) if b is None else b.data  # type: ignore[attr-defined]
        if (np.abs(bias) > s.scale * scale.astype(np.float64) * INT8.most_bias).any():
            return None
        reals = s.scale * scale.astype(np.float64) / end.scale
        if not (reals < q.MOST_MULTIPLIER).all():
            return None
        attrs = {k: a for k, a in node.attrs.items() if k != "activation"}
        bounds = INT8.clamp_bounds(kind, end.scale, end.zero)
        ends = (
            q.quantize_bias(bias, s.scale, scale),
            *q.rounded_once(reals),
        )
        return OPS[f"quantized_{node.op.name}"](  # type: ignore[no-any-return]
            s.value, Weight(w8, name=w.name or "weight", trainable=False), *map(Constant, ends),
            **attrs, x_zero=s.zero, y_zero=end.zero, **bounds,
        )  # fmt: skip


def _levels(w: Value, axis: int) -> tuple[Array, Array] | None:
    """A weight as int8 and a scale for each place along `axis`, if nothing is lost."""
    data = np.moveaxis(w.data, axis, 0)  # type: ignore[attr-defined]
    found = exact_levels(data.reshape(len(data), -1))
    if found is None:
        return None
    levels, scale = found
    return np.ascontiguousarray(np.moveaxis(levels.reshape(data.shape), 0, axis)), scale


def _binary(
    name: str, given: Sequence[Stored], end: _Scale, bounds: dict[str, int]
) -> Value | None:
    a, b = given
    most = (
        a.scale * b.scale if name == "mul" else max(a.scale, b.scale) / 2 ** (q.ADD_LEFT_SHIFT - 1)
    )
    if not most / end.scale < q.MOST_MULTIPLIER:
        return None
    attrs = {"a_zero": a.zero, "b_zero": b.zero, "y_zero": end.zero, **bounds}
    if name == "add":
        attrs |= q.add_attrs(a.scale, b.scale, end.scale)
    else:
        attrs["multiplier"], attrs["shift"] = q.quantize_multiplier(a.scale * b.scale / end.scale)
    return OPS[f"quantized_{name}"](a.value, b.value, **attrs)  # type: ignore[no-any-return]


def _mean(node: Node, s: Stored, end: _Scale) -> Value | None:
    axes = node.attrs["axes"]
    sizes = [node.inputs[0].shape[i] for i in axes]  # type: ignore[union-attr]
    neighbours = axes == tuple(range(axes[0], axes[0] + len(axes))) if axes else False
    if not neighbours or any(not isinstance(d, int) for d in sizes):
        return None
    count = int(np.prod(np.array(sizes, np.int64)))
    if not count or not s.scale / end.scale < q.MOST_MULTIPLIER:
        return None
    multiplier, shift = q.mean_multiplier(s.scale, end.scale, count)
    return OPS["quantized_mean"](  # type: ignore[no-any-return]
        s.value, **node.attrs, x_zero=s.zero, y_zero=end.zero, multiplier=multiplier, shift=shift
    )


def _rescaled(s: Stored, end: _Scale) -> Value | None:
    if (s.scale, s.zero) == (end.scale, end.zero):
        return s.value
    if not s.scale / end.scale < q.MOST_MULTIPLIER:
        return None
    multiplier, shift = q.quantize_multiplier(s.scale / end.scale)
    return OPS["requantize"](  # type: ignore[no-any-return]
        s.value, x_zero=s.zero, y_zero=end.zero, multiplier=multiplier, shift=shift
    )


def _from_source(x: Value) -> Value:
    """Numbers of uint8 moved to int8."""
    return OPS["quantized_lookup"](OPS["cast"](x, to="i8"), Constant(FLIP))  # type: ignore[no-any-return]


def _as_source(x: Value, dtype: DType) -> Value:
    """The inverse, where the source has uint8."""
    if dtype is DType.i8:
        return x
    return OPS["cast"](OPS["quantized_lookup"](x, Constant(FLIP)), to="u8")  # type: ignore[no-any-return]


def _quantizer(node: Node) -> _Scale | None:
    """cast(clip(round(x / scale) + zero)), as the reader writes it out."""
    if node.op.name != "cast" or node.results[0].dtype not in BYTES:
        return None
    clip = node.inputs[0].node  # type: ignore[union-attr]
    dtype = node.results[0].dtype
    limits = np.iinfo(dtype.numpy)
    bounds = {"low": float(limits.min), "high": float(limits.max)}
    if clip is None or clip.op.name != "clip" or clip.attrs != bounds:
        return None
    x, zero = _with_number(clip.inputs[0], "add")
    step = x.node if x is not None else None
    if step is None or step.op.name != "round" or step.results[0].dtype is not DType.f32:
        return None
    x, scale = _with_number(step.inputs[0], "div")
    return _scale(x, scale, zero, dtype) if x is not step.inputs[0] else None


def _dequantizer(node: Node) -> _Scale | None:
    """(cast(x) - zero) * scale, as the reader writes it out."""
    if node.op.name != "mul":
        return None
    x, scale = _with_number(node.results[0], "mul")
    x, zero = _with_number(x, "sub")
    made = x.node if x is not None else None
    if made is None or made.op.name != "cast" or made.inputs[0] is None:
        return None
    if node.results[0].dtype is not DType.f32:
        return None
    whole = made.inputs[0]
    return _scale(whole, scale, zero, whole.dtype) if whole.dtype in BYTES else None


def _scale(x: Value | None, scale: float, zero: float, dtype: DType) -> _Scale | None:
    moved = zero - BYTES[dtype]
    fine = moved == round(moved) and q.LOWEST <= moved <= q.HIGHEST
    return _Scale(x, scale, int(moved)) if x is not None and fine and 0 < scale < np.inf else None


def _with_number(v: Value | None, name: str) -> tuple[Value | None, float]:
    """What a node of that name does with a number, and the number; the value itself, and 0, where
    it is none."""
    node = v.node if v is not None else None
    if node is None or node.op.name != name:
        return v, 0.0
    x, number = node.inputs
    if not isinstance(number, Constant) or number.rank:
        return v, 0.0
    return x, float(number.data)
