"""Elements chosen or written by integers, and where they stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.found_sizes import as_i32
from converter.items import (
    Item,
    as_type,
    as_value,
    axis_of,
    check_count,
    compute,
    indices,
    iota,
    length,
    product,
    shape_of,
    static,
)
from converter.onnx.rules.common import Reader, integers, rule
from ir.dtype import DType
from ir.graph import Constant
from ir.op import OPS
from ir.ops.compare import equal, greater_equal, less, where
from ir.ops.index import gather
from ir.ops.scatter import gather_elements, gather_nd, scatter_elements, scatter_nd
from ir.ops.shaping import broadcast_to, reshape, transpose


@rule("Gather")
def gather_(_: Reader, attrs: dict[str, Any], x: Item, at: Item) -> Item:
    dims = shape_of(x)
    axis = axis_of(attrs.get("axis", 0), len(dims))
    if isinstance(x, np.ndarray) and isinstance(at, np.ndarray):
        return np.asarray(np.take(x, at, axis=axis))
    return gather(as_value(x), as_value(indices(at, dims[axis])), axis=axis)  # type: ignore[no-any-return]


@rule("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(_: Reader, attrs: dict[str, Any], x: Item, at: Item) -> Item:
    v, places = as_value(x), as_value(indices(at))
    places = reshape(places, shape=(product(places.shape),))
    return gather(v, places, axis=v.rank - 1)  # type: ignore[no-any-return]


@rule("GatherElements")
def gather_elements_(_: Reader, attrs: dict[str, Any], x: Item, at: Item) -> Item:
    axis = axis_of(attrs.get("axis", 0), len(shape_of(x)))
    return compute(gather_elements, x, indices(at), axis=axis)


@rule("GatherND")
def gather_nd_(_: Reader, attrs: dict[str, Any], x: Item, at: Item) -> Item:
    return compute(gather_nd, x, indices(at), batch_dims=attrs.get("batch_dims", 0))


def _joined(write: Any, x: Item, at: Item, updates: Item, how: str, **attrs: Any) -> Item:
    """A scatter; small integers and truth values are joined as int32."""
    v, places = as_value(x), indices(at)
    small = how != "none" and v.dtype in (DType.i8, DType.u8, DType.bool)
    wide = DType.i32 if small else v.dtype
    y = write(as_type(v, wide), as_value(places), as_type(updates, wide), reduction=how, **attrs)
    return as_type(y, v.dtype)  # type: ignore[no-any-return]


@rule("ScatterElements", "Scatter")
def scatter_elements_(_: Reader, attrs: dict[str, Any], x: Item, at: Item, updates: Item) -> Item:
    axis = axis_of(attrs.get("axis", 0), len(shape_of(x)))
    return _joined(scatter_elements, x, at, updates, attrs.get("reduction", "none"), axis=axis)


@rule("ScatterND")
def scatter_nd_(_: Reader, attrs: dict[str, Any], x: Item, at: Item, updates: Item) -> Item:
    return _joined(scatter_nd, x, at, updates, attrs.get("reduction", "none"))


@rule("TensorScatter")
def tensor_scatter(
    _: Reader, attrs: dict[str, Any], cache: Item, update: Item, starts: Item = None
) -> Item:
    """Rows of a cache written from each sample's own place on, in a circle or not."""
    v, new = as_value(cache), as_value(update)
    axis = axis_of(attrs.get("axis", -2), v.rank)
    line = [1] * v.rank
    line[axis] = new.shape[axis]
    at = reshape(as_value(iota(new.shape[axis])), shape=tuple(line))
    if starts is not None:
        first = as_value(indices(starts))
        at = at + reshape(first, shape=(first.shape[0], *(1,) * (v.rank - 1)))
    if attrs.get("mode", "linear") == "circular":
        at = OPS["mod"](at, Constant(np.int32(static(v.shape, "cache")[axis])))
    return scatter_elements(v, broadcast_to(at, shape=new.shape), new, axis=axis)  # type: ignore[no-any-return]


@rule("OneHot")
def one_hot(_: Reader, attrs: dict[str, Any], x: Item, depth: Item, values: Item) -> Item:
    """Numbers outside of -depth..depth-1 give a row of `off`."""
    rank = len(shape_of(x)) + 1
    axis = axis_of(attrs.get("axis", -1), rank)
    (count,) = integers(as_type(depth, DType.i64), "depth")
    v = as_value(as_type(x, DType.i64 if as_value(x).dtype is DType.i64 else DType.i32))
    v = where(less(v, 0), v + as_type(length(count), v.dtype), v)
    if axis == rank - 1 and isinstance(values, np.ndarray) and values.dtype == np.float32:
        off, on = values.ravel().tolist()
        return OPS["one_hot"](as_i32(v), depth=count, on=float(on), off=float(off))
    apart = reshape(v, shape=(*v.shape[:axis], 1, *v.shape[axis:]))
    places = as_value(iota(count, v.dtype))
    places = reshape(places, shape=(count, *(1,) * (rank - 1 - axis)))
    pair = as_value(values)
    off, on = (reshape(gather(pair, Constant(np.int32([i]))), shape=()) for i in (0, 1))
    return compute(where, equal(apart, places), on, off)


@rule("Trilu")
def trilu(_: Reader, attrs: dict[str, Any], x: Item, k: Item = None) -> Item:
    """The upper or lower triangle of matrices, from diagonal k on; zeros elsewhere."""
    v = as_value(x)
    rows, columns = v.shape[-2:]
    down = as_value(iota(rows, DType.i64))
    across = as_value(iota(columns, DType.i64))
    place = across - reshape(down, shape=(rows, 1))
    first = as_value(np.zeros((), np.int64) if k is None else as_type(k, DType.i64))
    first = first if first.rank == 0 else reshape(first, shape=())
    kept = greater_equal(place, first) if attrs.get("upper", 1) else greater_equal(first, place)
    return compute(where, kept, v, np.zeros((), v.dtype.numpy))


@rule("EyeLike")
def eye_like(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    import onnx

    dims = static(shape_of(x), "EyeLike")
    if len(dims) != 2:
        raise ConvertError(f"input of rank {len(dims)}; want a matrix")
    check_count(product(dims))
    dtype = as_value(x).dtype.numpy
    if "dtype" in attrs:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(attrs["dtype"]))
    return np.eye(*dims, attrs.get("k", 0), dtype=dtype)


@rule("ReverseSequence")
def reverse_sequence(_: Reader, attrs: dict[str, Any], x: Item, lengths: Item) -> Item:
    """The first steps of each sequence from last to first, the rest as it is."""
    v = as_value(x)
    batch, time = attrs.get("batch_axis", 1), attrs.get("time_axis", 0)
    steps = as_value(iota(v.shape[time]))
    steps = reshape(steps, shape=(v.shape[time], 1) if time == 0 else (1, v.shape[time]))
    count = as_value(indices(lengths))
    count = reshape(count, shape=(1, v.shape[batch]) if batch == 1 else (v.shape[batch], 1))
    at = where(less(steps, count), count - steps - 1, steps)
    at = reshape(at, shape=(*at.shape, *(1,) * (v.rank - 2)))
    return gather_elements(v, broadcast_to(at, shape=v.shape), axis=time)  # type: ignore[no-any-return]


@rule("DepthToSpace")
def depth_to_space(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v, b = as_value(x), attrs["blocksize"]
    n, c, h, w = v.shape
    if attrs.get("mode", "DCR") == "DCR":
        apart, perm = (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)
    else:
        apart, perm = (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3)
    y = transpose(reshape(v, shape=apart), perm=perm)
    return reshape(y, shape=(n, c // (b * b), h * b, w * b))  # type: ignore[no-any-return]


@rule("SpaceToDepth")
def space_to_depth(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    v, b = as_value(x), attrs["blocksize"]
    n, c, h, w = v.shape
    apart = reshape(v, shape=(n, c, h // b, b, w // b, b))
    perm = (0, 3, 5, 1, 2, 4) if attrs.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    y = transpose(apart, perm=perm)
    return reshape(y, shape=(n, c * b * b, h // b, w // b))  # type: ignore[no-any-return]
