"""Post-training quantization: a float graph and sample inputs in, a graph on integers out.

The scheme is TFLite's (Jacob et al. 2018; docs/quantization.md): activations have one scale and
zero point each, from what is seen on the samples (`cloud.compress.ranges`); weights one scale a
channel. A layer with a trainable weight stays float32, so a frozen base becomes int8 under a
float32 head that trains on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from cloud.compress.calibrate import Samples, channel_means, observe
from cloud.compress.equalize import equalized
from cloud.compress.forms import INT8, Form
from cloud.compress.ranges import Range, method_from_text
from ir import quantization as q
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Array, Constant, Graph, Node, Value, Weight, is_fixed
from ir.op import OPS
from ir.ops import OUTPUT_AXIS
from ir.ops.activation import Activation, activate, activation_of
from ir.passes.rewrite import fixed_like, rewrite, uses
from ir.walk import walk

CLAMPS = (Activation.none, Activation.relu, Activation.relu6)  # that the stored result's bounds do
BIAS_STEP = 2**-12  # of one in the stored result: how fine the bias of a channel of zeros is
LEAST_MULTIPLIER = np.float16(2**-23)  # kernels' short way shifts no farther (int8/rescale.h)
INSIDE = "layers in branches and loops have no smaller arithmetic, only smaller weights"
MOVES = ("reshape", "transpose", "max_pool2d", "slice", "broadcast_to")  # same scale in and out


@dataclass(frozen=True)
class Stored:
    """A value of integers and what these mean: real = (stored - zero) * scale."""

    value: Value
    scale: float
    zero: int


@dataclass(frozen=True)
class Quantized:
    """A quantized graph, and where each value of the source graph is stored in it.

    `unfit`: nodes that stay float because integers cannot do what they do on the samples, and why.
    """

    source: Graph
    graph: Graph
    stored: Mapping[Value, Stored]
    unfit: Mapping[Node, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Calibrated:
    """A float graph that is ready to be quantized: what its values are on the samples.

    `means` of the channels of layers' inputs: empty where biases are not to be corrected.
    """

    graph: Graph
    ranges: Mapping[Value, Range]
    means: Mapping[Value, Array]
    form: Form = INT8

    def quantized(
        self,
        *,
        keep_float: Sequence[str] = (),
        keep: Container[Node] = (),
    ) -> Quantized:
        """The graph with activations in the form, but for nodes whose source or weight matches a
        pattern, and `keep`.

        Raises GraphError for a pattern that matches nothing.
        """
        check_patterns(self.graph, keep_float)
        made = _Quantizer(self, keep_float, keep)
        return Quantized(self.graph, made.run(), made.stored, made.unfit)


def quantize(
    graph: Graph,
    calibration: Samples,
    *,
    keep_float: Sequence[str] = (),
    method: str = "min-max",
    equalize: bool = False,
    correct_bias: bool = False,
) -> Graph:
    """The graph with int8 layers wherever their weights are fixed.

    `calibration`: sample inputs by name, examples along axis 0. `keep_float`: shell patterns of
    node sources or weight names that stay float32. `method`: how ranges follow from the samples:
    min-max, percentile, mse or kl (`cloud.compress.ranges`). `equalize`: first balance weights
    across layers; `correct_bias`: put what rounded weights move a layer's mean by into its bias
    (both Nagel et al. 2019). Inputs and outputs stay what they were. Raises GraphError for a
    pattern that matches nothing, ShapeError for samples that do not fit, ValueError for a method
    that is none.
    """
    found = calibrated(
        graph, calibration, method=method, equalize=equalize, correct_bias=correct_bias
    )
    return found.quantized(keep_float=keep_float).graph


def calibrated(
    graph: Graph,
    calibration: Samples,
    *,
    method: str = "min-max",
    equalize: bool = False,
    correct_bias: bool = False,
    form: Form = INT8,
) -> Calibrated:
    """What `quantize` has to know of a graph; the same options, and how activations are stored."""
    chosen = method_from_text(method, form.wide)
    plain = _split_activations(equalized(graph) if equalize else graph)
    ranges = observe(plain, calibration, method=chosen, step=form.step)
    inputs = [n.inputs[0] for n in plain.nodes if n.op.name in OUTPUT_AXIS]
    seen = [v for v in dict.fromkeys(inputs) if v is not None and v in ranges]
    means = channel_means(plain, seen, calibration) if correct_bias else {}
    return Calibrated(plain, ranges, means, form)


def check_patterns(graph: Graph, keep_float: Sequence[str]) -> None:
    """Raise GraphError for a pattern that matches no node or weight."""
    names = {n for g in walk([graph]) for node in g.nodes for n in names_of(node)}
    for pattern in keep_float:
        if not any(fnmatchcase(n, pattern) for n in names):
            raise GraphError(f"keep_float: no node or weight matches {pattern!r}")


def _split_activations(graph: Graph) -> Graph:
    """Activations that are no clamp become nodes of their own: they will be look-up tables."""

    def split(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        kind = node.attrs.get("activation", Activation.none)
        if kind in CLAMPS:
            return None
        attrs = {**node.attrs, "activation": Activation.none}
        y = activate(kind, node.op.node(inputs, attrs, node.source).results[0])
        return y  # type: ignore[no-any-return]

    return rewrite(graph, split)


class _Quantizer:
    """Walks the nodes; a value exists as float, stored, or both, each made when first wanted."""

    def __init__(self, found: Calibrated, keep_float: Sequence[str], keep: Container[Node]) -> None:
        self.form = found.form
        self.graph, self.ranges, self.means = found.graph, found.ranges, found.means
        self.keep_float, self.keep = keep_float, keep
        graph = found.graph
        self.float: dict[Value, Value] = {v: v for v in graph.leaves}
        self.stored: dict[Value, Stored] = {}
        self.weights: dict[tuple[Value, bytes], Value] = {}
        self.unfit: dict[Node, str] = {}
        self.count = uses(graph)

    def run(self) -> Graph:
        for node in self.graph.nodes:
            made = None if self.stays_float(node) else self.tried(node)
            if any(n.op.name in OUTPUT_AXIS for g in walk(node.subgraphs()) for n in g.nodes):
                self.unfit[node] = INSIDE
            if made is None:
                inputs = [v and self.as_float(v) for v in node.inputs]
                results = node.op.node(inputs, node.attrs, node.source).results
                self.float.update(zip(node.results, results, strict=True))
            else:
                made.value.node.source = node.source  # type: ignore[union-attr]
                self.stored[node.results[0]] = made
        outputs = tuple(self.as_float(v) for v in self.graph.outputs)
        updates = tuple((w, self.as_float(v)) for w, v in self.graph.updates)
        return Graph(self.graph.inputs, outputs, self.graph.output_names, updates)

    def stays_float(self, node: Node) -> bool:
        kept = any(fnmatchcase(n, p) for n in names_of(node) for p in self.keep_float)
        return (
            kept
            or node in self.keep
            or len(node.results) != 1
            or node.results[0] not in self.ranges
        )

    def tried(self, node: Node) -> Stored | None:
        """The node on integers, or None where these cannot do it or gain nothing."""
        try:
            return self.quantized(node)
        except q.MultiplierError as e:
            self.unfit[node] = str(e)
            return None

    def quantized(self, node: Node) -> Stored | None:
        """The node on int8, or None where it has no int8 form or nothing to gain from one."""
        name, x = node.op.name, node.inputs[0] if node.inputs else None
        if name in OUTPUT_AXIS:
            return self.layer(node)
        if x is None or not any(v in self.stored for v in node.present_inputs):
            return None  # nothing here is int8 yet
        if name in MOVES:
            s = self.as_stored(x)
            return Stored(node.op.node((s.value,), node.attrs).results[0], s.scale, s.zero)
        if name in ("add", "mul"):
            return self.binary(node, node.results[0])
        if name == "concat":
            return self.concat(node)
        if name == "reduce_mean":
            return self.mean(node)
        if name == "avg_pool2d" and not (
            node.attrs["count_include_pad"] and any(node.attrs["pads"])
        ):
            s = self.as_stored(x)
            attrs = {k: a for k, a in node.attrs.items() if k != "count_include_pad"}
            y = OPS["quantized_avg_pool2d"](s.value, **attrs, **self.form.bounds)
            return Stored(y, s.scale, s.zero)
        if node.op.family == "elementwise" and len(node.inputs) == 1:
            return self.lookup(node)
        return None

    def layer(self, node: Node) -> Stored | None:
        x, w, b = node.inputs
        if (
            x is None
            or x not in self.ranges
            or not is_fixed(w)
            or (b is not None and not is_fixed(b))
        ):
            return None
        s, axis = self.as_stored(x), OUTPUT_AXIS[node.op.name]
        y_scale, y_zero = self.scale_of(node.results[0])
        bias = np.zeros(w.shape[axis]) if b is None else b.data  # type: ignore[attr-defined,union-attr]
        w8, w_scale, ends = self.weight(  # type: ignore[arg-type]
            w, axis, np.abs(bias) / (s.scale * self.form.most_bias), s.scale / y_scale
        )
        bias = bias - self.moved_by(node, w8, w_scale)
        attrs = {k: a for k, a in node.attrs.items() if k != "activation"}
        y = OPS[f"quantized_{node.op.name}"](
            s.value,
            w8,
            Constant(self.form.quantized_bias(bias, s.scale, w_scale)),
            *map(Constant, ends),
            **attrs,
            x_zero=s.zero,
            y_zero=y_zero,
            **self.form.clamp_bounds(node.attrs["activation"], y_scale, y_zero),
        )
        return Stored(y, y_scale, y_zero)

    def moved_by(self, node: Node, w8: Value, w_scale: Array) -> Array | float:
        """What rounding the weight adds to the mean of each of the layer's sums."""
        x, w, axis = node.inputs[0], node.inputs[1], OUTPUT_AXIS[node.op.name]
        if x not in self.means:
            return 0.0
        rounded = q.along(w_scale, axis, w8.rank) * w8.data  # type: ignore[attr-defined]
        change = rounded - w.data.astype(np.float64)  # type: ignore[union-attr]
        mean = self.means[x]  # type: ignore[index]
        if node.op.name == "conv2d":
            per_group = np.repeat(
                mean.reshape(node.attrs["groups"], -1), len(change) // node.attrs["groups"], axis=0
            )
            return np.asarray(np.einsum("krsc,kc->k", change, per_group))
        if node.op.name == "depthwise_conv2d":
            return np.asarray(change.sum(axis=(0, 1)) * mean)
        return np.asarray(change @ mean)

    def weight(
        self, w: Weight | Constant, axis: int, least: Array, ratio: float
    ) -> tuple[Value, Array, tuple[Array, ...]]:
        """The int8 weight, its scales, which are at least `least`, and the multipliers: `ratio`
        times the scales.

        A channel of tiny weights (of a batch norm that scales by almost 0) with a bias would need
        a bias beyond 32 bits; a coarser weight is the smaller loss. Scales are a little larger than
        they need be, so that the multipliers are float16: 2 bytes a channel. A weight that several
        layers read has one scale for all of them, but for channels of zeros, whose scale is their
        bias's alone, and those that a layer scales by next to nothing.
        """
        fine = q.symmetric_scale(w.data, axis, BIAS_STEP / ratio)
        scale = np.maximum(fine, least).astype(np.float32)
        self.form.check_multipliers(scale, ratio)
        halves = np.maximum(q.halves_above(scale.astype(np.float64) * ratio), LEAST_MULTIPLIER)
        ends: tuple[Array, ...] = (halves,)
        if self.count[w] > 1 or not np.isfinite(halves).all():
            short = scale * ratio < LEAST_MULTIPLIER
            least_scale = float(LEAST_MULTIPLIER) * (1 + 2**-20) / ratio  # in float32 no less
            scale = np.where(short, least_scale, scale).astype(np.float32)
            ends = q.channel_multipliers(ratio, scale, 1.0)
        else:
            scale = (halves.astype(np.float64) / ratio).astype(np.float32)
        data = q.quantize_weight(w.data, scale, axis)
        key = (w, data.tobytes())
        if key not in self.weights:
            stored = fixed_like(w, data)
            others = sum(other is w for other, _ in self.weights)
            if w.name and others:
                stored.name = f"{w.name}.{others + 1}"
            self.weights[key] = stored
        return self.weights[key], scale, ends

    def binary(self, node: Node, y: Value, kind: Activation = Activation.none) -> Stored | None:
        """a op b in the scale of `y`: the result, or the clamp `kind` of it."""
        a, b = (self.operand(v) for v in node.inputs)
        if a is None or b is None:
            return None
        y_scale, y_zero = self.scale_of(y)
        attrs: dict[str, int] = {"a_zero": a.zero, "b_zero": b.zero, "y_zero": y_zero}
        attrs |= self.form.clamp_bounds(kind, y_scale, y_zero)
        if node.op.name == "add":
            attrs |= q.add_attrs(a.scale, b.scale, y_scale, self.form.left_shift)
        else:
            attrs["multiplier"], attrs["shift"] = q.quantize_multiplier(a.scale * b.scale / y_scale)
        return Stored(OPS[f"quantized_{node.op.name}"](a.value, b.value, **attrs), y_scale, y_zero)

    def operand(self, v: Value | None) -> Stored | None:
        if v is None or v.dtype is not DType.f32:
            return None
        if v in self.ranges:
            return self.as_stored(v)
        if not is_fixed(v):
            return None
        data: Array = v.data  # type: ignore[attr-defined]
        scale, zero = self.form.scale_of(float(data.min(initial=0)), float(data.max(initial=0)))
        return Stored(Constant(self.form.stored(data, scale, zero)), scale, zero)

    def concat(self, node: Node) -> Stored:
        scale, zero = self.scale_of(node.results[0])
        given = [self.as_stored(v) for v in node.present_inputs]
        parts = [self.form.rescaled(s.value, (s.scale, s.zero), (scale, zero)) for s in given]
        return Stored(OPS["concat"](*parts, **node.attrs), scale, zero)

    def mean(self, node: Node) -> Stored | None:
        x, axes = node.inputs[0], node.attrs["axes"]
        assert x is not None
        sizes = [x.shape[i] for i in axes]
        if axes != tuple(range(axes[0], axes[0] + len(axes))) or any(
            not isinstance(d, int) for d in sizes
        ):
            return None
        count = int(np.prod(np.array(sizes, np.int64)))
        if count > self.form.most_mean:
            return None
        s, (scale, zero) = self.as_stored(x), self.scale_of(node.results[0])
        multiplier, shift = q.mean_multiplier(s.scale, scale, count)
        y = OPS["quantized_mean"](
            s.value, **node.attrs, x_zero=s.zero, y_zero=zero, multiplier=multiplier, shift=shift,
            **self.form.bounds,
        )  # fmt: skip
        return Stored(y, scale, zero)

    def lookup(self, node: Node) -> Stored | None:
        x, kind = node.inputs[0], activation_of(node)
        made = x.node if x is not None else None
        if kind in CLAMPS and made and made.op.name in ("add", "mul") and self.count[x] == 1:
            return self.binary(made, node.results[0], kind)
        if self.form is not INT8:
            return self.clamp(node, kind) if kind in CLAMPS else None  # too many for a table
        s = self.as_stored(x)  # type: ignore[arg-type]
        scale, zero = self.scale_of(node.results[0])
        table = q.lookup_table(function_of(node), (s.scale, s.zero), (scale, zero))
        return Stored(OPS["quantized_lookup"](s.value, Constant(table)), scale, zero)

    def clamp(self, node: Node, kind: Activation) -> Stored:
        s = self.as_stored(node.inputs[0])  # type: ignore[arg-type]
        scale, zero = self.scale_of(node.results[0])
        multiplier, shift = q.quantize_multiplier(s.scale / scale)
        numbers = {"x_zero": s.zero, "y_zero": zero, "multiplier": multiplier, "shift": shift}
        limits = self.form.clamp_bounds(kind, scale, zero)
        return Stored(OPS["requantize"](s.value, **numbers, **limits), scale, zero)

    def scale_of(self, v: Value) -> tuple[float, int]:
        return self.form.scale_of(*self.ranges[v])

    def as_stored(self, v: Value) -> Stored:
        if v not in self.stored:
            scale, zero = self.scale_of(v)
            y = self.form.stored(self.float[v], scale, zero)
            self.stored[v] = Stored(y, scale, zero)
        return self.stored[v]

    def as_float(self, v: Value) -> Value:
        if v not in self.float:
            s = self.stored[v]
            self.float[v] = OPS["dequantize"](s.value, scale=s.scale, zero_point=s.zero)
        return self.float[v]


def names_of(node: Node) -> list[str]:
    """What `keep_float` may call a node by."""
    return [node.source, *(v.name or "" for v in node.present_inputs if v.node is None)]


def function_of(node: Node) -> Callable[[Array], Array]:
    return lambda x: np.asarray(node.op.ref(x, **node.attrs))
