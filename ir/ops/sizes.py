"""Sizes as data, and data that become sizes while a graph runs (ir/bound.py)."""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, case, exactly, ints, op
from ir.ops.index import gather
from ir.ops.rules import elements, zeros
from ir.symbol import symbol


def _wants_integers(name):
    def rule(*given, **_):
        if any(d is not DType.i32 for d in given if d is not None):
            raise DTypeError(f"{name}: inputs of {list(given)}; want i32")
        return DType.i32

    return rule


def _bind_shape(n, *, sizes):
    if n != (len(sizes),):
        raise ShapeError(f"bind_sizes: {shape_text(n)} for {len(sizes)} sizes; want one for each")
    if len(set(sizes)) != len(sizes) or not all(str(s).isidentifier() for s in sizes):
        raise ShapeError(f"bind_sizes: {list(sizes)}; want different free dimensions")
    return n


@op(
    code=119,
    shape=_bind_shape,
    dtype=_wants_integers("bind_sizes"),
    samples=[case(exactly([2, 0], DType.i32), sizes=(symbol("rows"), symbol("columns")))],
    kernels=(),
    grad=NO_GRAD,
)
def bind_sizes(n, *, sizes=()):
    """y = n, and from here on the free dimensions `sizes` are the numbers in n     n: int32[r]

    A number below the smallest or above the largest size that the model allows (0 to 2^31 - 1 where
    it says nothing) is an error. Nodes that speak of one of these sizes run behind this one.
    """
    return n.copy()


@op(
    code=120,
    shape=lambda x, *_: x,
    dtype=lambda x, *_: x,
    samples=[case((2, 3)), case((2, 3), ints(2)), case(ints(4), ints(2), (3,))],
    kernels=("any",),
    view=True,
    grad=lambda g, y, x, *read: (after(g, *read), *(None for _ in read)),
)
def after(x, *read):
    """y = x, once `read` are known: so a graph keeps the node that binds a size which x has"""
    return x.copy()


@op(
    code=121,
    shape=lambda *, of: (len(of),),
    dtype=DType.i32,
    samples=[case(of=(2, 0, 7)), case(of=())],
    kernels=("any",),
    grad=NO_GRAD,
)
def sizes(*, of=()):
    """y = the sizes `of` as data     y: int32[len(of)]"""
    return np.array(of, np.int32)


@op(
    code=122,
    shape=lambda *, size: (size,),
    dtype=DType.i32,
    samples=[case(size=5), case(size=0)],
    kernels=("any",),
    grad=NO_GRAD,
)
def iota(*, size=0):
    """y = 0, 1, … size - 1     y: int32[size]"""
    return np.arange(size, dtype=np.int32)


def _reshape_sizes_shape(n, *, old, allow_zero):
    if len(n) != 1:
        raise ShapeError(f"reshape_sizes: a shape of shape {shape_text(n)}; want one axis")
    return n


@op(
    code=123,
    shape=_reshape_sizes_shape,
    dtype=_wants_integers("reshape_sizes"),
    samples=[
        case(exactly([0, -1], DType.i32), old=(2, 3, 4)),
        case(exactly([4, 6], DType.i32), old=(2, 3, 4)),
        case(exactly([0, 3], DType.i32), old=(0, 5), allow_zero=True),
    ],
    kernels=("i32",),
    grad=NO_GRAD,
)
def reshape_sizes(n, *, old=(), allow_zero=False):
    """y = the sizes that ONNX means by the numbers n where a tensor of the sizes `old` is reshaped

    0 keeps the old size, unless `allow_zero`; one -1 stands for what is left.     n: int32[r]
    """
    y = [old[i] if d == 0 and not allow_zero else int(d) for i, d in enumerate(n)]
    if y.count(-1) > 1 or min(y, default=0) < -1:
        raise ShapeError(f"reshape_sizes: {n.tolist()}; want sizes, and -1 at most once")
    if -1 in y:
        rest = -int(np.prod(y))
        total = int(np.prod(old))
        y[y.index(-1)] = total // rest if rest else 0
    return np.array(y, np.int32)


def _range_dtype(start, limit, delta):
    if {start, limit, delta} not in ({DType.i32}, {DType.i64}, {DType.f32}):
        given = [start, limit, delta]
        raise DTypeError(f"range_size: bounds of {given}; want all i32, all i64 or all f32")
    return DType.i32


@op(
    code=124,
    shape=lambda start, limit, delta: (1,),
    dtype=_range_dtype,
    samples=[
        case(*(exactly(v, DType.i32) for v in (2, 11, 3))),
        case(*(exactly(v, DType.i32) for v in (2, -9, -3))),
        case(*(exactly(v, DType.i32) for v in (5, 2, 1))),
        case(*(exactly(v, DType.i64) for v in (2**62, -(2**62), -(2**60) - 1))),
        case(*(exactly(v) for v in (1.0, 5.5, 0.5))),
    ],
    kernels=("i32", "i64", "f32"),
    grad=NO_GRAD,
)
def range_size(start, limit, delta):
    """y = how many numbers start, start + delta, … there are before the limit     y: int32[1]"""
    if not delta:
        raise ShapeError("range_size: steps of 0")
    if start.dtype.kind == "f":
        n = np.ceil((np.float64(limit) - start) / np.float64(delta))
    else:
        n = len(range(int(start), int(limit), int(delta)))
    if not n < 2**31:
        raise ShapeError(f"range_size: {n} numbers; want fewer than 2**31")
    return np.array([max(n, 0)], np.int32)


def _slice_bounds_shape(starts, ends, axes=None, steps=None, *, of):
    for other in (ends, axes, steps):
        if len(starts) != 1 or (other is not None and other != starts):
            raise ShapeError(f"slice_bounds: starts {shape_text(starts)}; want [n], as all others")
    return [(len(of),)] * 3


@op(
    code=125,
    results=("begin", "step", "size"),
    shape=_slice_bounds_shape,
    dtype=_wants_integers("slice_bounds"),
    samples=[
        case(exactly([1, -2], DType.i32), exactly([9, 2**31 - 1], DType.i32), of=(5, 4, 3)),
        case(
            exactly([-1], DType.i32),
            exactly([-(2**31)], DType.i32),
            exactly([-2], DType.i32),
            exactly([-2], DType.i32),
            of=(5, 4, 3),
        ),
        case(exactly([3], DType.i32), exactly([1], DType.i32), of=(5,)),
    ],
    kernels=("i32",),
    grad=NO_GRAD,
)
def slice_bounds(starts, ends, axes=None, steps=None, *, of=()):
    """begin, step, size = what ONNX takes of each axis of a tensor of the sizes `of`

    starts, ends, axes, steps: int32[n], negative ones counted from the end -> int32[len(of)]
    """
    begin, step, size = [0] * len(of), [1] * len(of), list(of)
    chosen = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    for axis, a, b, s in zip(chosen, starts.tolist(), ends.tolist(), strides, strict=True):
        if not -len(of) <= axis < len(of) or s == 0:
            raise IndexError(f"slice_bounds: axis {axis} in steps of {s}; want one of {len(of)}")
        n = of[axis]
        low, high = (0, n) if s > 0 else (-1, n - 1)
        a, b = (min(max(v + n if v < 0 else v, low), high) for v in (a, b))
        step[axis], size[axis] = s, max(-((a - b) // s), 0)
        begin[axis] = a if size[axis] else 0
    return tuple(np.array(v, np.int32) for v in (begin, step, size))


def _at_shape(x, begin, step, *, shape):
    if begin != (len(x),) or step != (len(x),) or len(shape) != len(x):
        raise ShapeError(
            f"slice_at: begin {shape_text(begin)}, step {shape_text(step)} and shape "
            f"{shape_text(shape)} of {shape_text(x)}; want a number for each axis"
        )
    return tuple(shape)


def _at_dtype(x, begin, step, **_):
    _wants_integers("slice_at")(begin, step)
    return x


@op(
    code=126,
    shape=_at_shape,
    dtype=_at_dtype,
    samples=[
        case((4, 5), exactly([1, 4], DType.i32), exactly([2, -1], DType.i32), shape=(2, 5)),
        case(ints(3), exactly([0], DType.i32), exactly([1], DType.i32), shape=(0,)),
    ],
    kernels=("any",),
    grad=lambda g, y, x, begin, step, *, shape: (
        slice_at_dx(g, begin, step, shape=x.shape),
        None,
        None,
    ),
)
def slice_at(x, begin, step, *, shape=()):
    """y = `shape` elements of x from `begin` on, `step` apart     begin, step: int32[rank of x]

    What lies outside of x is an error.
    """
    return x[_places(x.shape, begin, step, shape)]


@op(
    code=127,
    shape=_at_shape,
    dtype=_at_dtype,
    samples=[case((2, 5), exactly([1, 4], DType.i32), exactly([2, -1], DType.i32), shape=(4, 5))],
    kernels=("any",),
    grad=lambda gg, y, g, begin, step, *, shape: (
        slice_at(gg, begin, step, shape=g.shape),
        None,
        None,
    ),
)
def slice_at_dx(g, begin, step, *, shape=()):
    """y = the gradient of slice_at: zeros of `shape` with g in its places"""
    y = np.zeros(shape, g.dtype)
    y[_places(shape, begin, step, g.shape)] = g
    return y


def _places(whole, begin, step, shape):
    for size, a, s, n in zip(whole, begin.tolist(), step.tolist(), shape, strict=True):
        if n and not (0 <= a < size and 0 <= a + (n - 1) * s < size):
            raise IndexError(f"slice_at: {n} from {a} in steps of {s}; want them below {size}")
    axes = zip(begin.tolist(), step.tolist(), shape, strict=True)
    return np.ix_(*(a + s * np.arange(n) for a, s, n in axes))


def _put_row_shape(x, i, row):
    if not x or i != () or x[1:] != row:
        raise ShapeError(
            f"put_row: {shape_text(row)} at {shape_text(i)} of {shape_text(x)}; want one whole row"
        )
    return x


def _put_row_dtype(x, i, row):
    if i is not DType.i32 or x is not row:
        raise DTypeError(f"put_row: {row!r} at {i!r} of {x!r}; want one type, and i32")
    return x


@op(
    code=128,
    shape=_put_row_shape,
    dtype=_put_row_dtype,
    samples=[
        case((4, 2, 3), exactly(2, DType.i32), (2, 3)),
        case(ints(3), exactly(0, DType.i32), ints()),
    ],
    kernels=("any",),
    grad=lambda g, y, x, i, row: (put_row(g, i, zeros(row)), None, gather(g, i, axis=0)),
)
def put_row(x, i, row):
    """y = x with `row` in the place of row i     x: [n, *a], i: int32[], row: [*a]

    Over a value that nothing reads any more it writes the row alone: so loops collect results.
    """
    if not 0 <= i < x.shape[0]:
        raise IndexError(f"put_row: row {i} of {list(x.shape)}")
    y = x.copy()
    y[i] = row
    return y


def _fit_shape(x, *, shape):
    old, new = elements(x), elements(shape)
    if isinstance(old, int) and isinstance(new, int) and old != new:
        raise ShapeError(f"fit_shape: {shape_text(x)} to {shape_text(shape)}")
    return tuple(shape)


@op(
    code=316,
    shape=_fit_shape,
    samples=[case((3, 4), shape=(2, 6)), case(ints(0, 3), shape=(2, 0))],
    kernels=("any",),
    view=True,
    grad=lambda g, y, x, *, shape: (fit_shape(g, shape=x.shape),),
)
def fit_shape(x, *, shape=()):
    """y = reshape(x, shape) where only the run can tell that there are as many elements"""
    return x.reshape(shape)


def _same_shape(x, *, shape):
    if len(x) != len(shape) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(x, shape, strict=True)
    ):
        raise ShapeError(f"same_shape: {shape_text(x)} is not {shape_text(shape)}")
    return tuple(shape)


@op(
    code=321,
    shape=_same_shape,
    samples=[case((3, 4), shape=(3, 4)), case(ints(0, 3), shape=(0, 3))],
    kernels=("any",),
    view=True,
    grad=lambda g, y, x, *, shape: (same_shape(g, shape=x.shape),),
)
def same_shape(x, *, shape=()):
    """y = x, whose sizes are `shape`, which only the run can tell"""
    if x.shape != shape:
        raise ShapeError(f"same_shape: {shape_text(x.shape)}, want {shape_text(shape)}")
    return x.copy()


def _stretch_shape(x, *, shape):
    if len(x) > len(shape):
        raise ShapeError(f"stretch_to: {shape_text(x)} to {shape_text(shape)}; want as many axes")
    return tuple(shape)


@op(
    code=317,
    shape=_stretch_shape,
    samples=[case((1, 4), shape=(3, 4)), case((4,), shape=(2, 4)), case(ints(2, 1), shape=(2, 3))],
    kernels=("any",),
    grad=lambda g, y, x, *, shape: (sum_to(g, shape=x.shape),),
)
def stretch_to(x, *, shape=()):
    """y = broadcast_to(x, shape) where only the run can tell which axes are stretched"""
    return np.broadcast_to(x, shape).copy()


def _sum_shape(g, *, shape):
    if len(shape) > len(g):
        raise ShapeError(f"sum_to: {shape_text(g)} to {shape_text(shape)}; want as many axes")
    return tuple(shape)


@op(
    code=318,
    shape=_sum_shape,
    samples=[case((3, 4), shape=(1, 4)), case((2, 4), shape=(4,)), case((2, 3), shape=(2, 3))],
    grad=lambda gg, y, g, *, shape: (stretch_to(gg, shape=g.shape),),
)
def sum_to(g, *, shape=()):
    """y = the gradient of stretch_to: sums over the axes that it stretches"""
    wide = (1,) * (g.ndim - len(shape)) + tuple(shape)
    axes = tuple(i for i, n in enumerate(wide) if n == 1 and g.shape[i] != 1)
    return g.sum(axes, dtype=g.dtype).reshape(shape)
