"""Shapes: reading them, changing them, moving elements about."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.found_sizes import traced
from converter.items import (
    Item,
    as_value,
    axis_of,
    check_count,
    compute,
    indices,
    iota,
    known,
    length,
    number,
    product,
    shape_of,
    static,
    without_nan,
)
from converter.onnx.rules.common import Reader, axes_of, integers, rule
from converter.onnx.rules.found import (
    expand_to_found,
    fitted,
    range_found,
    reshape_to_found,
    slice_found,
)
from converter.onnx.rules.found_axes import FoundAxes, is_open, squeezed, unsqueezed
from ir.graph import Constant, Value
from ir.op import OPS
from ir.ops.rules import broadcast
from ir.ops.shaping import split as split_at
from ir.ops.shaping import tile
from ir.symbol import Dim, Expr, maximum

FAR = 2**29  # elements: no axis of a model is longer, exporters mean its end


def _shape_array(dims: Any) -> np.ndarray:
    """A shape as data: int64 where all sizes are known, else an array of symbolic sizes."""
    out = np.array(list(dims), dtype=object)
    return out.astype(np.int64) if all(isinstance(d, int) for d in out) else out


@rule("Shape")
def shape(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _shape_array(shape_of(x)[attrs.get("start", 0) : attrs.get("end")])


@rule("Size")
def size(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    return _shape_array([product(shape_of(x))])[0:1].reshape(())


@rule("Constant")
def constant(_: Reader, attrs: dict[str, Any]) -> Item:
    import onnx

    if "value" in attrs:
        array = onnx.numpy_helper.to_array(attrs["value"])
        wide = array.dtype in (np.float64, np.float16)
        return without_nan(array.astype(np.float32) if wide else array, "constant")
    for key in attrs.keys() & {"value_float", "value_floats", "value_int", "value_ints"}:
        return without_nan(
            np.array(attrs[key], np.float32 if "float" in key else np.int64), "constant"
        )
    raise ConvertError(f"constant of kind {sorted(attrs)}")


@rule("ConstantOfShape")
def constant_of_shape(_: Reader, attrs: dict[str, Any], dims: Item) -> Item:
    import onnx

    value = np.zeros(1, np.float32)
    if "value" in attrs:
        value = without_nan(onnx.numpy_helper.to_array(attrs["value"]), "constant")
    wanted = tuple(integers(dims, "shape"))
    if any(isinstance(d, Expr) for d in wanted):
        return OPS["broadcast_to"](as_value(value.reshape(())), shape=wanted)
    check_count(product(wanted))
    return np.full(wanted, value.ravel()[0])


@rule("Reshape")
def reshape(reader: Reader, attrs: dict[str, Any], x: Item, dims: Item = None) -> Item:
    old = shape_of(x)
    if isinstance(dims, Value) and traced(dims) is None:
        return reshape_to_found(reader, x, dims, bool(attrs.get("allowzero")))
    given = list(attrs["shape"]) if dims is None else integers(dims, "shape")
    if not attrs.get("allowzero"):
        given = [old[i] if not isinstance(d, Expr) and d == 0 else d for i, d in enumerate(given)]
    if -1 in given:
        rest = product(d for d in given if isinstance(d, Expr) or d != -1)
        given[given.index(-1)] = product(old) // rest
    return reshaped(x, given)


@rule("Flatten")
def flatten(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v = as_value(x)
    axis = attrs.get("axis", 1)
    axis = axis + v.rank if axis < 0 else axis
    return OPS["reshape"](v, shape=(product(v.shape[:axis]), product(v.shape[axis:])))


@rule("Transpose")
def transpose(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    rank = len(shape_of(x))
    return compute(OPS["transpose"], x, perm=tuple(attrs.get("perm", reversed(range(rank)))))


@rule("Squeeze")
def squeeze(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
    old = shape_of(x)
    if is_open(axes):
        return squeezed(as_value(x), FoundAxes.of(as_value(axes), len(old)))
    chosen = axes_of(attrs, axes, len(old)) or tuple(i for i, d in enumerate(old) if d == 1)
    return reshaped(x, [d for i, d in enumerate(old) if i not in chosen])


@rule("Unsqueeze")
def unsqueeze(_: Reader, attrs: dict[str, Any], x: Item, axes: Item = None) -> Item:
    dims = list(shape_of(x))
    if is_open(axes):
        rank = len(dims) + int(product(as_value(axes).shape))
        return unsqueezed(as_value(x), FoundAxes.of(as_value(axes), rank))
    raw = attrs["axes"] if axes is None else integers(axes, "axes")
    for axis in sorted(axis_of(int(a), len(dims) + len(raw)) for a in raw):
        dims.insert(axis, 1)
    return reshaped(x, dims)


def reshaped(x: Item, dims: list[Dim]) -> Item:
    """x in another shape, known or computed."""
    if isinstance(x, Value):
        return OPS["reshape"](x, shape=tuple(dims))
    return known(x, "x").reshape(dims)


@rule("Concat")
def concat(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
    axis = axis_of(attrs["axis"], len(shape_of(items[0])))
    if not any(isinstance(i, Value) for i in items):
        arrays = [known(i, "part") for i in items]
        symbolic = any(a.dtype == object for a in arrays)
        return np.concatenate([a.astype(object) if symbolic else a for a in arrays], axis)
    return compute(OPS["concat"], *items, axis=axis)


@rule("Slice")
def slice_(reader: Reader, attrs: dict[str, Any], x: Item, *parts: Item) -> Item:
    if any(isinstance(p, Value) and traced(p) is None for p in parts):
        return slice_found(reader, x, *parts)
    names = ("starts", "ends", "axes", "steps")
    given = {n: integers(p, n) for n, p in zip(names, parts, strict=False) if p is not None}
    given = {n: given.get(n, attrs.get(n)) for n in names}
    dims = shape_of(x)
    count = len(given["starts"])
    axes = [axis_of(a, len(dims)) for a in given["axes"] or range(count)]
    steps = given["steps"] or [1] * count
    begin, end, step = [0] * len(dims), list(dims), [1] * len(dims)
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = _bounds(given["starts"][i], given["ends"][i], steps[i], dims[axis])
        step[axis] = steps[i]
    if isinstance(x, np.ndarray):
        bounds = zip(begin, end, step, strict=True)
        return x[tuple(slice(b, None if s < 0 and e < 0 else e, s) for b, e, s in bounds)]
    return compute(OPS["slice"], x, begin=tuple(begin), end=tuple(end), step=tuple(step))


def _bounds(start: Any, end: Any, step: int, size: Dim) -> tuple[Dim, Dim]:
    """Begin and end, counted from the front and inside the axis, unless its size is free."""
    if any(isinstance(d, Expr) for d in (start, end, size)):
        begin = start if isinstance(start, Expr) or start >= 0 else size + start
        far = not isinstance(end, Expr) and end >= FAR
        return begin, size if far else end if isinstance(end, Expr) or end >= 0 else size + end
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (v + size if v < 0 else v for v in (start, end))
    return min(max(start, max(low, 0)), high), min(max(end, low), size)


@rule("Split")
def split(reader: Reader, attrs: dict[str, Any], x: Item, sizes: Item = None) -> list[Item]:
    dims = shape_of(x)
    axis = axis_of(attrs.get("axis", 0), len(dims))
    parts = attrs.get("split") if sizes is None else integers(sizes, "split")
    if parts is None:
        (total,) = static((dims[axis],), "split")
        count = attrs.get("num_outputs", reader.results)
        most = -(-total // count)
        parts = [min(most, total - i * most) for i in range(count)]
    out, at = [], 0
    for n in parts:
        out.append(part_of(x, axis, at, at + n))
        at += n
    return out


def part_of(x: Item, axis: int, begin: Dim, end: Dim) -> Item:
    """What lies from `begin` to `end` along an axis of x."""
    dims = shape_of(x)
    if isinstance(x, np.ndarray):
        return x[(slice(None),) * axis + (slice(begin, end),)]
    first, last = [0] * len(dims), list(dims)
    first[axis], last[axis] = begin, end  # type: ignore[call-overload]
    return compute(  # type: ignore[no-any-return]
        OPS["slice"], x, begin=tuple(first), end=tuple(last), step=(1,) * len(dims)
    )


@rule("Tile")
def tile_(_: Reader, attrs: dict[str, Any], x: Item, repeats: Item) -> Item:
    return tile(as_value(x), repeats=integers(repeats, "repeats"))


@rule("Expand")
def expand(reader: Reader, attrs: dict[str, Any], x: Item, dims: Item) -> Item:
    if isinstance(dims, Value) and traced(dims) is None:
        return expand_to_found(reader, as_value(x), dims)
    wanted = broadcast(shape_of(x), tuple(integers(dims, "shape")))
    return compute(OPS["broadcast_to"], x, shape=wanted)


@rule("Pad")
def pad(
    _: Reader,
    attrs: dict[str, Any],
    x: Item,
    pads: Item = None,
    value: Item = None,
    axes: Item = None,
) -> Item:
    """Negative pads cut; `wrap` goes on from the other end."""
    rank = len(shape_of(x))
    if is_open(axes):
        pads, axes = _by_axis(as_value(pads), as_value(axes), rank), None
    amounts = integers(pads, "pads") if pads is not None else list(attrs.get("pads", ()))
    chosen = list(range(rank))
    if axes is not None:
        chosen = [axis_of(a, rank) for a in integers(axes, "axes")]
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(chosen):
        before[axis], after[axis] = amounts[i], amounts[i + len(chosen)]
    x, before, after = _cut(x, before, after)
    mode = attrs.get("mode", "constant")
    if mode == "wrap":
        return _wrapped(as_value(x), before, after)
    options = {"before": tuple(before), "after": tuple(after), "mode": mode}
    fill = np.asarray(attrs.get("value", 0.0)) if value is None else value
    if isinstance(fill, np.ndarray):
        return compute(OPS["pad"], x, **options, value=number(fill, "value"))
    v = as_value(x)  # what the model computes stands where a padded mask has nothing
    everywhere = OPS["broadcast_to"](Constant(np.ones((), np.bool_)), shape=v.shape)
    inside = OPS["pad"](everywhere, **options)
    single = OPS["reshape"](as_value(fill), shape=())
    return OPS["where"](inside, OPS["pad"](v, **options), single)


def _by_axis(pads: Value, axes: Value, rank: int) -> Value:
    """Pads of some axes, which a run knows, as those of every axis."""
    at = OPS["reshape"](as_value(indices(axes)), shape=(axes.shape[0],))
    none = Constant(np.zeros(rank, pads.dtype.numpy))
    sides = split_at(pads, (axes.shape[0],) * 2, axis=0)
    return OPS["concat"](*(OPS["scatter_elements"](none, at, p) for p in sides), axis=0)


def _cut(x: Item, before: list[Dim], after: list[Dim]) -> tuple[Item, list[Dim], list[Dim]]:
    """x without what negative pads take away, and the pads that are left."""
    if all(isinstance(p, Expr) or p >= 0 for p in (*before, *after)):
        return x, before, after
    v = as_value(x)
    begin = tuple(-min(b, 0) for b in before)
    end = tuple(d + min(a, 0) for d, a in zip(v.shape, after, strict=True))
    y = OPS["slice"](v, begin=begin, end=end, step=(1,) * v.rank)
    return y, [max(b, 0) for b in before], [max(a, 0) for a in after]


def _wrapped(x: Value, before: list[Dim], after: list[Dim]) -> Value:
    for axis, (b, a) in enumerate(zip(before, after, strict=True)):
        if a == b == 0:
            continue
        (n,) = static((x.shape[axis],), "wrap")
        at = as_value(iota(b + n + a))
        at = OPS["mod"](at - length(b), Constant(np.int32(n)))
        x = OPS["gather"](x, at, axis=axis)
    return x


@rule("CenterCropPad")
def center_crop_pad(_: Reader, attrs: dict[str, Any], x: Item, shape: Item) -> Item:
    v = as_value(x)
    axes = [axis_of(a, v.rank) for a in attrs.get("axes", range(v.rank))]
    wanted = dict(zip(axes, integers(shape, "shape"), strict=True))
    pairs = [(d, wanted.get(i, d)) for i, d in enumerate(v.shape)]
    cut = [maximum(d - w, 0) for d, w in pairs]
    begin = [c // 2 for c in cut]
    end = [b + d - c for b, c, (d, _) in zip(begin, cut, pairs, strict=True)]
    grown = [maximum(w - d, 0) for d, w in pairs]
    y = OPS["slice"](v, begin=tuple(begin), end=tuple(end), step=(1,) * v.rank)
    before = tuple(g // 2 for g in grown)
    after = tuple(g - b for g, b in zip(grown, before, strict=True))
    y = OPS["pad"](y, before=before, after=after)
    return fitted(y, tuple(w for _, w in pairs))


@rule("Range")
def range_(reader: Reader, attrs: dict[str, Any], start: Item, limit: Item, delta: Item) -> Item:
    if any(isinstance(i, Value) or np.asarray(i).dtype == object for i in (start, limit, delta)):
        return range_found(reader, *map(as_value, (start, limit, delta)))
    a, b, step = (known(v, "bound").item() for v in (start, limit, delta))
    check_count((b - a) // step)
    return np.arange(a, b, step, dtype=known(start, "start").dtype)
