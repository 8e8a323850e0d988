"""What each ONNX operator becomes. One-to-one operators come from the table's `onnx` names; the
rest is a rule here: (reader, attributes, *inputs) -> result(s). ONNX images are [n,c,h,w]; ours are
[n,h,w,c], so rules put transposes around what depends on it, and the layout pass cancels them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from cloud import ops
from converter.errors import ConvertError
from converter.onnx_reader import Item, Reader, as_value
from ir.dtype import DType
from ir.graph import Value, Weight
from ir.op import OPS, Op
from ir.symbol import Dim, Expr

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def declare(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, fn))
        return fn

    return declare


def compute(op: Op | Callable[..., Any], *items: Item, **attrs: Any) -> Item:
    """The operator on values, or its reference at once when every input is known."""
    if not any(isinstance(i, Value) for i in items):
        return np.asarray(op(*items, **attrs))
    return op(*(None if i is None else as_value(i) for i in items), **attrs)


def known(item: Item, what: str) -> np.ndarray:
    """An input that must be known while reading (axes, shapes, pads)."""
    if isinstance(item, Weight):
        return item.data
    if not isinstance(item, np.ndarray):
        raise ConvertError(f"{what} is computed by the model; want a constant")
    return item


def shape_of(item: Item) -> tuple[Dim, ...]:
    return item.shape if isinstance(item, (Value, np.ndarray)) else ()


def integers(item: Item, what: str) -> list[Any]:
    return [d if isinstance(d, Expr) else int(d) for d in known(item, what).ravel().tolist()]


def axes_of(attrs: dict[str, Any], item: Item, rank: int, default: Any = ()) -> tuple[int, ...]:
    """Axes from the attribute (old opsets) or the input (new ones), counted from the front."""
    axes = attrs.get("axes", default) if item is None else integers(item, "axes")
    return tuple(sorted(int(a) % rank for a in axes)) if rank else ()


def static(shape: tuple[Dim, ...], what: str) -> tuple[int, ...]:
    if any(isinstance(d, Expr) for d in shape):
        raise ConvertError(f"{what}: size {list(map(str, shape))} is free; want a fixed one (--input)")
    return tuple(int(d) for d in shape if not isinstance(d, Expr))


# --- elementwise -------------------------------------------------------------------------------


def _direct(op: Op) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
        if unknown := attrs.keys() - op.attrs.keys():
            raise ConvertError(f"attributes {sorted(unknown)} have no counterpart in {op.name}")
        return compute(op, *items, **attrs)

    return apply


@rule("Div")
def div(_: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind in "iO":
        return np.asarray(a // b)
    return compute(OPS["div"], a, b)


@rule("Clip")
def clip(_: Reader, attrs: dict[str, Any], x: Item, low: Item = None, high: Item = None) -> Item:
    lowest = attrs.get("min", -np.inf) if low is None else float(known(low, "min"))
    highest = attrs.get("max", np.inf) if high is None else float(known(high, "max"))
    return compute(OPS["clip"], x, low=lowest, high=highest)


@rule("LeakyRelu")
def leaky_relu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(OPS["leaky_relu"], x, alpha=attrs.get("alpha", 0.01))


@rule("Elu")
def elu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(OPS["elu"], x, alpha=attrs.get("alpha", 1.0))


@rule("HardSigmoid")
def hard_sigmoid(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(OPS["hard_sigmoid"], x, alpha=attrs.get("alpha", 0.2), beta=attrs.get("beta", 0.5))


@rule("Gelu")
def gelu(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return compute(OPS["gelu"], x, approximate=attrs.get("approximate", "none"))


def _fold(op: str) -> Rule:
    return lambda _, attrs, *items: reduce(lambda a, b: compute(OPS[op], a, b), items)


RULES |= {"Sum": _fold("add"), "Max": _fold("maximum"), "Min": _fold("minimum")}


@rule("Mean")
def mean(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
    total = reduce(lambda a, b: compute(OPS["add"], a, b), items)
    return compute(OPS["mul"], total, np.float32(1 / len(items)))


@rule("Identity", "Dropout")
def identity(_: Reader, attrs: dict[str, Any], x: Item, *rest: Item) -> Item:
    return x


@rule("Cast")
def cast(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    import onnx

    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(attrs["to"]))
    if isinstance(x, np.ndarray):
        return x if x.dtype == object else x.astype(dtype)
    narrow = {"float64": "float32", "float16": "float32", "int64": "int32"}.get(dtype.name, dtype.name)
    return compute(OPS["cast"], x, to=DType.of(np.zeros(0, narrow)).name)


# --- layers ------------------------------------------------------------------------------------


def to_channels_last(x: Item) -> Value:
    """[n,c,h,w] -> [n,h,w,c]; [n,c,l] -> [n,l,1,c]"""
    v = as_value(x)
    if v.rank == 3:
        return OPS["reshape"](OPS["transpose"](v, perm=(0, 2, 1)), shape=(v.shape[0], v.shape[2], 1, v.shape[1]))
    if v.rank != 4:
        raise ConvertError(f"input of rank {v.rank}; want [n,c,l] or [n,c,h,w]")
    return OPS["transpose"](v, perm=(0, 2, 3, 1))


def to_channels_first(y: Value, rank: int) -> Value:
    if rank == 3:
        return OPS["transpose"](OPS["reshape"](y, shape=(y.shape[0], y.shape[1], y.shape[3])), perm=(0, 2, 1))
    return OPS["transpose"](y, perm=(0, 3, 1, 2))


def window(attrs: dict[str, Any], x: Value, size: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """strides, pads (top, left, bottom, right) and dilations of a 1-D or 2-D window over x NHWC."""
    n = len(size)
    strides = tuple(attrs.get("strides", (1,) * n)) + (1,) * (2 - n)
    dilations = tuple(attrs.get("dilations", (1,) * n)) + (1,) * (2 - n)
    auto = attrs.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        spatial = static(x.shape[1:3], f"auto_pad {auto}")
        ends = [same_pads(*z, auto) for z in zip(spatial, (*size, 1), strides, dilations, strict=False)]
        pads = tuple(p[i] for i in (0, 1) for p in ends)
    else:
        given = tuple(attrs.get("pads", (0,) * 2 * n)) if auto == "NOTSET" else (0,) * 2 * n
        pads = given if n == 2 else (given[0], 0, given[1], 0)
    return {"strides": strides, "pads": pads, "dilations": dilations}


def same_pads(size: int, k: int, stride: int, dilation: int, auto: str) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)


@rule("Conv")
def conv(reader: Reader, attrs: dict[str, Any], x: Item, w: Item, b: Item = None) -> Item:
    shape = shape_of(w)
    rank, groups = len(shape), attrs.get("group", 1)
    xt = to_channels_last(x)
    size = static(shape[2:], "kernel")
    options = window(attrs, xt, size)
    four = (lambda a: a[..., None]) if rank == 3 else (lambda a: a)
    bias = None if b is None else as_value(b)
    if groups > 1 and groups == xt.shape[3] == shape[0]:
        w = reader.arrange(w, "depthwise", lambda a: four(a)[:, 0].transpose(1, 2, 0))
        y = OPS["depthwise_conv2d"](xt, as_value(w), bias, **options)
    else:
        w = reader.arrange(w, "conv", lambda a: four(a).transpose(0, 2, 3, 1))
        y = OPS["conv2d"](xt, as_value(w), bias, groups=groups, **options)
    return to_channels_first(y, rank)


@rule("BatchNormalization")
def batch_norm(
    _: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item, mean: Item, variance: Item
) -> Item:
    v = as_value(x)
    parts = [as_value(p) for p in (scale, bias, mean, variance)]
    epsilon = attrs.get("epsilon", 1e-5)
    if v.rank == 2:
        return OPS["batch_norm"](v, *parts, epsilon=epsilon)
    return to_channels_first(OPS["batch_norm"](to_channels_last(v), *parts, epsilon=epsilon), v.rank)


@rule("LayerNormalization")
def layer_norm(_: Reader, attrs: dict[str, Any], x: Item, scale: Item, bias: Item = None) -> Item:
    v = as_value(x)
    if attrs.get("axis", -1) % v.rank != v.rank - 1:
        raise ConvertError(f"axis {attrs['axis']} of rank {v.rank}; want the last axis")
    if bias is None:
        bias = np.zeros(static(shape_of(scale), "scale"), np.float32)
    return OPS["layer_norm"](v, as_value(scale), as_value(bias), epsilon=attrs.get("epsilon", 1e-5))


@rule("Gemm")
def gemm(reader: Reader, attrs: dict[str, Any], a: Item, b: Item, c: Item = None) -> Item:
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    x = OPS["transpose"](as_value(a), perm=(1, 0)) if attrs.get("transA") else as_value(a)
    transposed = bool(attrs.get("transB"))
    if c is not None and beta != 1.0:
        c = compute(OPS["mul"], c, np.float32(beta))
    if isinstance(b, (Weight, np.ndarray)):
        how = f"linear {transposed} {alpha}"
        w = reader.arrange(b, how, lambda m: (m if transposed else m.T) * np.float32(alpha))
        if c is None or shape_of(c) == (shape_of(w)[0],):
            return OPS["linear"](x, as_value(w), None if c is None else as_value(c))
        return compute(OPS["add"], OPS["linear"](x, as_value(w)), c)
    y = OPS["matmul"](x, as_value(b), transpose_b=transposed)
    y = y if alpha == 1.0 else y * alpha
    return y if c is None else compute(OPS["add"], y, c)


@rule("MatMul")
def matmul(reader: Reader, attrs: dict[str, Any], a: Item, b: Item) -> Item:
    if isinstance(a, Value) and isinstance(b, (Weight, np.ndarray)) and len(shape_of(b)) == 2:
        return OPS["linear"](a, as_value(reader.arrange(b, "linear False 1.0", lambda m: m.T)))
    return compute(OPS["matmul"], a, b)


def _pool(attrs: dict[str, Any], x: Item) -> tuple[Value, dict[str, Any], bool]:
    """(x NHWC, attributes of our pooling, whether ceil mode padded it further)"""
    xt = to_channels_last(x)
    size = tuple(attrs["kernel_shape"])
    options: dict[str, Any] = window(attrs, xt, size)
    options["size"] = size + (1,) * (2 - len(size))
    grown = False
    if attrs.get("ceil_mode"):
        spatial = static(xt.shape[1:3], "ceil_mode")
        pads = list(options["pads"])
        for i in (0, 1):
            reach = (options["size"][i] - 1) * options["dilations"][i] + 1
            extent, stride = spatial[i] + pads[i] + pads[i + 2], options["strides"][i]
            steps = -(-(extent - reach) // stride)
            if steps * stride >= spatial[i] + pads[i]:  # the last window must start inside
                steps -= 1
            more = max(steps * stride + reach - extent, 0)
            pads[i + 2] += more
            grown |= more > 0
        options["pads"] = tuple(pads)
    return xt, options, grown


@rule("MaxPool")
def max_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    xt, options, _grown = _pool(attrs, x)
    return to_channels_first(OPS["max_pool2d"](xt, **options), len(shape_of(x)))


@rule("AveragePool")
def average_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    xt, options, grown = _pool(attrs, x)
    include = bool(attrs.get("count_include_pad", 0))
    if options["dilations"] != (1, 1) or (grown and include):
        raise ConvertError("AveragePool with dilations, or with ceil_mode and count_include_pad")
    del options["dilations"]
    return to_channels_first(OPS["avg_pool2d"](xt, count_include_pad=include, **options), len(shape_of(x)))


@rule("GlobalAveragePool")
def global_average_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = as_value(x)
    return OPS["reduce_mean"](v, axes=tuple(range(2, v.rank)), keep_dims=True)


@rule("GlobalMaxPool")
def global_max_pool(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = as_value(x)
    return OPS["reduce_max"](v, axes=tuple(range(2, v.rank)), keep_dims=True)


@rule("Softmax")
def softmax(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _softmax("softmax", reader, attrs, as_value(x))


@rule("LogSoftmax")
def log_softmax(reader: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _softmax("log_softmax", reader, attrs, as_value(x))


def _softmax(name: str, reader: Reader, attrs: dict[str, Any], x: Value) -> Value:
    """Before opset 13 everything from `axis` on is one axis."""
    axis = attrs.get("axis", -1 if reader.opset >= 13 else 1) % x.rank
    if reader.opset >= 13 or axis == x.rank - 1:
        return OPS[name](x, axis=axis)
    flat = OPS["reshape"](x, shape=(*x.shape[:axis], _product(x.shape[axis:])))
    return OPS["reshape"](OPS[name](flat, axis=axis), shape=x.shape)


# --- reductions --------------------------------------------------------------------------------


def _reduction(op: str) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
        rank = len(shape_of(x))
        chosen = axes_of(attrs, axes, rank)
        if not chosen and attrs.get("noop_with_empty_axes"):
            return x
        return compute(OPS[op], x, axes=chosen or tuple(range(rank)), keep_dims=bool(attrs.get("keepdims", 1)))

    return apply


RULES |= {
    f"Reduce{onnx}": _reduction(f"reduce_{ours}")
    for onnx, ours in (("Sum", "sum"), ("Mean", "mean"), ("Max", "max"), ("Min", "min"), ("Prod", "prod"))
}


def _index_reduction(op: str) -> Rule:
    def apply(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
        if attrs.get("select_last_index"):
            raise ConvertError("select_last_index")
        axis = attrs.get("axis", 0) % len(shape_of(x))
        return compute(OPS[op], x, axis=axis, keep_dims=bool(attrs.get("keepdims", 1)))

    return apply


RULES |= {"ArgMax": _index_reduction("argmax"), "ArgMin": _index_reduction("argmin")}


# --- shapes ------------------------------------------------------------------------------------


def _product(dims: Any) -> Any:
    return reduce(lambda a, b: a * b, dims, 1)


def _shape_array(dims: Any) -> np.ndarray:
    """A shape as data: int64 where all sizes are known, else an array of symbolic sizes."""
    out = np.array(list(dims), dtype=object)
    return out.astype(np.int64) if all(isinstance(d, int) for d in out) else out


@rule("Shape")
def shape(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _shape_array(shape_of(x)[attrs.get("start", 0) : attrs.get("end")])


@rule("Size")
def size(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _shape_array([_product(shape_of(x))])[0:1].reshape(())


@rule("Constant")
def constant(_: Reader, attrs: dict[str, Any]) -> Item:
    import onnx

    if "value" in attrs:
        array = onnx.numpy_helper.to_array(attrs["value"])
        return array.astype(np.float32) if array.dtype in (np.float64, np.float16) else array
    for key, dtype in (("value_float", "f4"), ("value_floats", "f4"), ("value_int", "i8"), ("value_ints", "i8")):
        if key in attrs:
            return np.array(attrs[key], dtype)
    raise ConvertError(f"constant of kind {sorted(attrs)}")


@rule("ConstantOfShape")
def constant_of_shape(_: Reader, attrs: dict[str, Any], dims: Item) -> Item:
    import onnx

    value = onnx.numpy_helper.to_array(attrs["value"]) if "value" in attrs else np.zeros(1, np.float32)
    wanted = tuple(integers(dims, "shape"))
    if any(isinstance(d, Expr) for d in wanted):
        return OPS["broadcast_to"](as_value(value.reshape(())), shape=wanted)
    return np.full(wanted, value.ravel()[0])


@rule("Reshape")
def reshape(_: Reader, attrs: dict[str, Any], x: Item, dims: Item = None) -> Item:
    given = list(attrs["shape"]) if dims is None else integers(dims, "shape")
    old = shape_of(x)
    if not attrs.get("allowzero"):
        given = [old[i] if not isinstance(d, Expr) and d == 0 else d for i, d in enumerate(given)]
    if -1 in given:
        rest = _product(d for d in given if isinstance(d, Expr) or d != -1)
        given[given.index(-1)] = _product(old) // rest
    return compute(OPS["reshape"], x, shape=tuple(given)) if isinstance(x, Value) else known(x, "x").reshape(given)


@rule("Flatten")
def flatten(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = as_value(x)
    axis = attrs.get("axis", 1)
    axis = axis + v.rank if axis < 0 else axis
    return OPS["reshape"](v, shape=(_product(v.shape[:axis]), _product(v.shape[axis:])))


@rule("Transpose")
def transpose(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    rank = len(shape_of(x))
    return compute(OPS["transpose"], x, perm=tuple(attrs.get("perm", reversed(range(rank)))))


@rule("Squeeze")
def squeeze(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
    old = shape_of(x)
    chosen = axes_of(attrs, axes, len(old)) or tuple(i for i, d in enumerate(old) if d == 1)
    return _reshaped(x, [d for i, d in enumerate(old) if i not in chosen])


@rule("Unsqueeze")
def unsqueeze(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
    dims = list(shape_of(x))
    raw = attrs["axes"] if axes is None else integers(axes, "axes")
    for axis in sorted(int(a) % (len(dims) + len(raw)) for a in raw):
        dims.insert(axis, 1)
    return _reshaped(x, dims)


def _reshaped(x: Item, dims: list[Dim]) -> Item:
    if isinstance(x, Value):
        return OPS["reshape"](x, shape=tuple(dims))
    return known(x, "x").reshape(dims)


@rule("Concat")
def concat(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
    axis = attrs["axis"] % len(shape_of(items[0]))
    if not any(isinstance(i, Value) for i in items):
        arrays = [known(i, "part") for i in items]
        symbolic = any(a.dtype == object for a in arrays)
        return np.concatenate([a.astype(object) if symbolic else a for a in arrays], axis)
    return compute(OPS["concat"], *items, axis=axis)


@rule("Slice")
def slice_(_: Reader, attrs: dict[str, Any], x: Item, *parts: Item) -> Item:
    names = ("starts", "ends", "axes", "steps")
    given = {n: integers(p, n) for n, p in zip(names, parts, strict=False) if p is not None}
    given = {n: given.get(n, attrs.get(n)) for n in names}
    dims = shape_of(x)
    count = len(given["starts"])
    axes = [a % len(dims) for a in given["axes"] or range(count)]
    steps = given["steps"] or [1] * count
    begin, end, step = [0] * len(dims), list(dims), [1] * len(dims)
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = _bounds(given["starts"][i], given["ends"][i], steps[i], dims[axis])
        step[axis] = steps[i]
    if isinstance(x, np.ndarray):
        return x[tuple(slice(b, None if s < 0 and e < 0 else e, s) for b, e, s in zip(begin, end, step, strict=True))]
    return compute(OPS["slice"], x, begin=tuple(begin), end=tuple(end), step=tuple(step))


def _bounds(start: Any, end: Any, step: int, size: Dim) -> tuple[Dim, Dim]:
    """Begin and end counted from the front and inside the axis; a free size counts as very large."""
    if not isinstance(size, int):
        begin = start if isinstance(start, Expr) or start >= 0 else size + start
        far = not isinstance(end, Expr) and end >= 2**31 - 1
        return begin, size if far else end if isinstance(end, Expr) or end >= 0 else size + end
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (v + size if v < 0 else v for v in (start, end))
    return min(max(start, max(low, 0)), high), min(max(end, low), size)


@rule("Split")
def split(reader: Reader, attrs: dict[str, Any], x: Item, sizes: Item = None) -> list[Item]:
    dims = shape_of(x)
    axis = attrs.get("axis", 0) % len(dims)
    parts = attrs.get("split") if sizes is None else integers(sizes, "split")
    if parts is None:
        (total,) = static((dims[axis],), "split")
        count = attrs.get("num_outputs", 2)
        most = -(-total // count)
        parts = [min(most, total - i * most) for i in range(count)]
    out, at = [], 0
    for n in parts:
        bounds = (np.array([v]) for v in (at, at + n, axis))
        out.append(slice_(reader, {}, x, *bounds))
        at += n
    return out


@rule("Gather")
def gather(_: Reader, attrs: dict[str, Any], x: Item, indices: Item) -> Item:
    axis = attrs.get("axis", 0) % len(shape_of(x))
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray):
        return np.asarray(np.take(x, indices, axis=axis))
    if isinstance(indices, np.ndarray):
        (n,) = static((shape_of(x)[axis],), "gather") if (indices < 0).any() else (0,)
        indices = np.where(indices < 0, indices + n, indices).astype(np.int32)
    return compute(OPS["gather"], x, indices, axis=axis)


@rule("Expand")
def expand(_: Reader, attrs: dict[str, Any], x: Item, dims: Item) -> Item:
    from ir.ops.rules import broadcast

    wanted = broadcast(shape_of(x), tuple(integers(dims, "shape")))
    return compute(OPS["broadcast_to"], x, shape=wanted)


@rule("Pad")
def pad(_: Reader, attrs: dict[str, Any], x: Item, pads: Item = None, value: Item = None, axes: Item = None) -> Item:
    rank = len(shape_of(x))
    amounts = list(attrs.get("pads", attrs.get("paddings", ()))) if pads is None else integers(pads, "pads")
    chosen = [a % rank for a in integers(axes, "axes")] if axes is not None else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(chosen):
        before[axis], after[axis] = amounts[i], amounts[i + len(chosen)]
    number = float(attrs.get("value", 0.0)) if value is None else float(known(value, "value").ravel()[0])
    mode = attrs.get("mode", "constant")
    return compute(OPS["pad"], x, before=tuple(before), after=tuple(after), mode=mode, value=number)


@rule("Range")
def range_(_: Reader, attrs: dict[str, Any], start: Item, limit: Item, delta: Item) -> Item:
    a, b, step = (known(v, "bound").item() for v in (start, limit, delta))
    return np.arange(a, b, step, dtype=known(start, "start").dtype)


RULES = {o.onnx: _direct(o) for o in OPS.values() if o.onnx} | RULES
