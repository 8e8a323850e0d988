"""The same elements in another arrangement."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from enum import Enum

import numpy as np

from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import Shape, Value, shape_text
from ir.op import bools, case, exactly, ints, op
from ir.ops.rules import broadcast, checked_axes, elements, unbroadcast
from ir.symbol import Dim

ANY = ("any",)


def _reshape_shape(x, *, shape):
    if elements(x) != elements(shape):
        raise ShapeError(f"reshape: {shape_text(x)} to {shape_text(shape)}; want as many elements")
    return tuple(shape)


@op(
    code=90,
    shape=_reshape_shape,
    samples=[case((3, 4), shape=(2, 6)), case((1,), shape=()), case((0, 3), shape=(2, 0))],
    kernels=ANY,
    view=True,
    onnx="Reshape",
    grad=lambda g, y, x, *, shape: (reshape(g, shape=x.shape),),
)
def reshape(x, *, shape=()):
    """y = the elements of x, in order, with another shape"""
    return x.reshape(shape)


def _broadcast_to_shape(x, *, shape):
    if broadcast(x, shape) != tuple(shape):
        raise ShapeError(f"broadcast_to: {shape_text(x)} does not stretch to {shape_text(shape)}")
    return tuple(shape)


@op(
    code=92,
    shape=_broadcast_to_shape,
    samples=[
        case((1, 4), shape=(3, 4)),
        case((4,), shape=(2, 3, 4)),
        case((2, 1, 3), shape=(2, 2, 3)),
    ],
    kernels=ANY,
    onnx="Expand",
    grad=lambda g, y, x, *, shape: (unbroadcast(g, x),),
)
def broadcast_to(x, *, shape=()):
    """y = x stretched to `shape` by the numpy rule"""
    return np.broadcast_to(x, shape).copy()


def _transpose_shape(x, *, perm):
    if sorted(perm) != list(range(len(x))):
        raise ShapeError(f"transpose: perm {list(perm)} of {shape_text(x)}; want each axis once")
    return tuple(x[p] for p in perm)


@op(
    code=93,
    shape=_transpose_shape,
    samples=[
        case((3, 4), perm=(1, 0)),
        case((2, 3, 4), perm=(2, 0, 1)),
        case((2, 3, 2, 3), perm=(0, 3, 1, 2)),
        case((2, 35, 3, 2), perm=(0, 2, 3, 1)),
        case((2, 3, 5, 7), perm=(0, 2, 3, 1)),  # planes become pixels
        case(ints(1, 3, 5, 7, dtype=DType.i8), perm=(0, 2, 3, 1)),
        case(ints(2, 3, dtype=DType.i8), perm=(1, 0)),
    ],
    kernels=ANY,
    onnx="Transpose",
    grad=lambda g, y, x, *, perm: (transpose(g, perm=tuple(map(perm.index, range(len(perm))))),),
)
def transpose(x, *, perm=()):
    """y = x with its axes in another order: axis i of y is axis perm[i] of x"""
    return np.transpose(x, perm).copy()


def _concat_shape(*xs, axis):
    if not xs:
        raise ShapeError("concat: no inputs, want at least one")
    checked_axes("concat", xs[0], (axis,))
    total = 0
    for i, x in enumerate(xs):
        if x[:axis] + x[axis + 1 :] != xs[0][:axis] + xs[0][axis + 1 :]:
            raise ShapeError(
                f"concat: input {i} is {shape_text(x)}, input 0 is {shape_text(xs[0])}; "
                f"only axis {axis} may differ"
            )
        total = total + x[axis]
    return (*xs[0][:axis], total, *xs[0][axis + 1 :])


@op(
    code=94,
    shape=_concat_shape,
    samples=[
        case((2, 3), (2, 1), axis=1),
        case((2, 3), (1, 3), (2, 3), axis=0),
        case((2, 0, 2), (2, 3, 2), axis=1),
        case((4,)),
        case(ints(2, 3, dtype=DType.i8), ints(2, 2, dtype=DType.i8), axis=1),
    ],
    kernels=ANY,
    onnx="Concat",
    grad=lambda g, y, *xs, axis: split(g, [x.shape[axis] for x in xs], axis=axis),
)
def concat(*xs, axis=0):
    """y = all xs, one behind the other along `axis`"""
    return np.concatenate(xs, axis)


def _slice_shape(x, *, begin, end, step):
    if not len(x) == len(begin) == len(end) == len(step) or 0 in step:
        raise ShapeError(
            f"slice: begin {list(begin)}, end {list(end)}, step {list(step)} of {shape_text(x)}; "
            "want one number an axis, and steps that are not 0"
        )
    for size, b, e, s in zip(x, begin, end, step, strict=True):
        low, high, least = (b, e, 0) if s > 0 else (e, b, -1)
        if (isinstance(low, int) and low < least) or _above(high, size if s > 0 else size - 1):
            raise ShapeError(f"slice: {b}..{e} by {s} of an axis of {size}; want it to stay inside")
    return tuple(
        _at_least_0((e - b + s - 1) // s if s > 0 else (b - e - s - 1) // -s)
        for b, e, s in zip(begin, end, step, strict=True)
    )


def _above(a, b):
    """Whether a > b, as far as that can be said of free dimensions."""
    return isinstance(a - b, int) and a - b > 0


def _at_least_0(size):
    return max(size, 0) if isinstance(size, int) else size


def numpy_slices(begin, end, step):
    """The slices of numpy that mean these attributes of `slice`."""
    bounds = zip(begin, end, step, strict=True)
    return tuple(builtins.slice(b, e if e >= 0 else None, s) for b, e, s in bounds)


@op(
    code=95,
    shape=_slice_shape,
    samples=[
        case((5, 4), begin=(1, 0), end=(4, 4), step=(1, 2)),
        case((5, 4), begin=(4, 3), end=(-1, 0), step=(-1, -2)),
        case((2, 7, 3), begin=(0, 1, 2), end=(2, 7, 3), step=(1, 3, 1)),
        case((3,), begin=(2,), end=(2,), step=(1,)),
        case(ints(6, dtype=DType.i8), begin=(1,), end=(6,), step=(2,)),
    ],
    kernels=ANY,
    onnx="Slice",
    grad=lambda g, y, x, **attrs: (slice_dx(g, shape=x.shape, **attrs),),
)
def slice(x, *, begin=(), end=(), step=()):
    """y = the elements of x at begin, begin + step, ... before end, along each axis

    0 <= begin <= end <= size for a positive step; size > begin >= end >= -1 for a negative one.
    """
    return x[numpy_slices(begin, end, step)].copy()


def _slice_dx_shape(g, *, shape, begin, end, step):
    if _slice_shape(tuple(shape), begin=begin, end=end, step=step) != g:
        raise ShapeError(
            f"slice_dx: g is {shape_text(g)}; want what slice makes of {shape_text(shape)}"
        )
    return tuple(shape)


def _slice_dx_grad(gg, y, g, *, shape, **attrs):
    return (slice(gg, **attrs),)


@op(
    code=96,
    shape=_slice_dx_shape,
    samples=[
        case((3, 2), shape=(5, 4), begin=(1, 0), end=(4, 4), step=(1, 2)),
        case((5, 2), shape=(5, 4), begin=(4, 3), end=(-1, 0), step=(-1, -2)),
        case((0,), shape=(3,), begin=(2,), end=(2,), step=(1,)),
    ],
    kernels=ANY,
    grad=_slice_dx_grad,
)
def slice_dx(g, *, shape=(), begin=(), end=(), step=()):
    """y = the gradient of slice: zeros of `shape` with g at the elements that slice takes"""
    y = np.zeros(shape, g.dtype)
    y[numpy_slices(begin, end, step)] = g
    return y


class PadMode(Enum):
    """What stands around a padded tensor: a value, its mirror image, or its edge repeated."""

    constant = "constant"
    reflect = "reflect"
    edge = "edge"


def _pad_shape(x, *, before, after, mode, value=0.0):
    if not len(x) == len(before) == len(after):
        raise ShapeError(
            f"pad: before {list(before)}, after {list(after)} of {shape_text(x)}; "
            "want one number an axis"
        )
    for size, *widths in zip(x, before, after, strict=True):
        for width in widths:
            if isinstance(width, int) and width < 0:
                raise ShapeError(f"pad: width {width}; want at least 0")
            if (mode is PadMode.reflect and _above(width + 1, size) and width != 0) or (
                mode is PadMode.edge and size == 0
            ):
                raise ShapeError(
                    f"pad: {mode.value} by {width} of an axis of {size}; want a longer one"
                )
    return tuple(b + s + a for b, s, a in zip(before, x, after, strict=True))


def _pad_grad(g, y, x, *, before, after, mode, value):
    if mode is not PadMode.constant:
        return (pad_dx(g, before=before, after=after, mode=mode),)
    end = tuple(b + s for b, s in zip(before, x.shape, strict=True))
    return (slice(g, begin=before, end=end, step=(1,) * x.rank),)


@op(
    code=97,
    shape=_pad_shape,
    samples=[
        case((2, 3), before=(1, 0), after=(0, 2)),
        case((2, 3, 1), before=(0, 1, 0), after=(1, 1, 0), value=-1.5),
        case((3, 4), before=(2, 1), after=(1, 3), mode="reflect"),
        case((2, 3), before=(2, 1), after=(1, 4), mode="edge"),
        case(ints(3, dtype=DType.i8), before=(1,), after=(2,), value=7.0),
    ],
    kernels=ANY,
    onnx="Pad",
    grad=_pad_grad,
)
def pad(x, *, before=(), after=(), mode=PadMode.constant, value=0.0):
    """y = x with before[i] elements more at the front of axis i, and after[i] at its end"""
    widths = list(zip(before, after, strict=True))
    if mode is PadMode.constant:
        return np.pad(x, widths, constant_values=np.asarray(value).astype(x.dtype))
    return np.pad(x, widths, mode=mode.value)


def _pad_dx_shape(g, *, before, after, mode):
    x = tuple(s - b - a for s, b, a in zip(g, before, after, strict=True))
    _pad_shape(x, before=before, after=after, mode=mode)
    return x


@op(
    code=98,
    shape=_pad_dx_shape,
    samples=[
        case((6, 8), before=(2, 1), after=(1, 3), mode="reflect"),
        case((5, 8), before=(2, 1), after=(1, 4), mode="edge"),
        case((3, 5), before=(1, 0), after=(0, 2)),
    ],
    grad=lambda gg, y, g, **attrs: (pad(gg, **attrs),),
)
def pad_dx(g, *, before=(), after=(), mode=PadMode.constant):
    """y = the gradient of pad: each element's sum over its copies in g"""
    y = g
    for axis, (b, a) in enumerate(zip(before, after, strict=True)):
        size = y.shape[axis] - b - a
        options = (
            {"constant_values": size} if mode is PadMode.constant else {}
        )  # `size`: to no element
        place = np.pad(np.arange(size), (b, a), mode=mode.value, **options)
        total = np.zeros((*y.shape[:axis], size + 1, *y.shape[axis + 1 :]), g.dtype)
        np.add.at(total, (builtins.slice(None),) * axis + (place,), y)
        y = np.take(total, np.arange(size), axis)
    return y


class Element(Enum):
    """The element types by name, in the order of their codes but for `i16`, which came later; C++
    has no word `bool` to give."""

    f32 = "f32"
    f16 = "f16"
    i8 = "i8"
    u8 = "u8"
    i32 = "i32"
    i64 = "i64"
    boolean = "bool"
    f64 = "f64"
    i16 = "i16"

    @property
    def dtype(self) -> DType:
        return DType[self.value]

    @classmethod
    def _missing_(cls, value: object) -> Element | None:
        return cls(value.name) if isinstance(value, DType) else None


def _cast_grad(g, y, x, *, to):
    return (cast(g, to=x.dtype) if x.dtype.is_float and y.dtype.is_float else None,)


@op(
    code=101,
    shape=lambda x, **_: x,
    dtype=lambda x, *, to: to.dtype,
    samples=[
        case(ints(3, 4), to="f32"),
        case(bools(3, 4), to="f32"),
        case((3, 4), to="i32"),
        case(exactly([2049, 2051, 65503, -1], DType.i32), to="f16"),
        case(exactly([-2.5, 0, 3, 1e-7], DType.f16), to="i32"),
        case(exactly([0, 0.5, -3]), to="bool"),
        case(exactly([1e9, -1e9, np.nan, -1.7, 1.7, 200]), to="i8"),
        case(ints(5, low=-300, high=300), to="u8"),
        case(exactly([1, 70000, -40000], DType.i32), to="i16"),
    ],
    kernels=ANY,
    onnx="Cast",
    grad=_cast_grad,
)
def cast(x, *, to=Element.f32):
    """y = x as another type

    A float becomes an integer by dropping its fraction; one that does not fit becomes the nearest
    integer of the type, one that is not a number becomes 0. Integers wrap around.
    """
    if np.issubdtype(x.dtype, np.floating) and np.issubdtype(to.dtype.numpy, np.integer):
        limits = np.iinfo(to.dtype.numpy)
        whole = np.nan_to_num(
            np.trunc(x.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf
        )
        below, above = whole <= float(limits.min), whole >= float(limits.max)
        y = np.where(below | above, 0, whole).astype(to.dtype.numpy)
        return np.where(below, limits.min, np.where(above, limits.max, y)).astype(y.dtype)
    return x.astype(to.dtype.numpy)


# Arrangements that need no operator of their own: they take values and return values.


def flatten(x: Value, *, axis: int = 1) -> Value:
    """[*a, *b] -> [*a, product of b], where a has `axis` sizes"""
    return reshape(x, shape=(*x.shape[:axis], elements(x.shape[axis:])))


def squeeze(x: Value, *, axes: Sequence[int]) -> Value:
    """x without `axes`, whose sizes must be 1"""
    if any(x.shape[i] != 1 for i in checked_axes("squeeze", x.shape, tuple(axes))):
        raise ShapeError(f"squeeze: axes {list(axes)} of {shape_text(x.shape)}; want sizes of 1")
    return reshape(x, shape=tuple(s for i, s in enumerate(x.shape) if i not in axes))


def unsqueeze(x: Value, *, axes: Sequence[int]) -> Value:
    """x with new axes of size 1, which are `axes` of the result"""
    sizes = iter(x.shape)
    rank = x.rank + len(axes)
    return reshape(x, shape=tuple(1 if i in axes else next(sizes) for i in range(rank)))


def slice_axis(x: Value, begin: Dim, end: Dim, *, axis: int, step: int = 1) -> Value:
    """x from `begin` to before `end` along one axis, all of the others"""
    first: list[Dim] = [0] * x.rank
    last, steps = list(x.shape), [1] * x.rank
    first[axis], last[axis], steps[axis] = begin, end, step
    return slice(x, begin=tuple(first), end=tuple(last), step=tuple(steps))


def split(x: Value, sizes: Sequence[Dim], *, axis: int) -> tuple[Value, ...]:
    """The inverse of concat: parts of x of these sizes along `axis`"""
    parts = []
    begin: Dim = 0
    for size in sizes:
        parts.append(slice_axis(x, begin, begin + size, axis=axis))
        begin = begin + size
    return tuple(parts)


def tile(x: Value, *, repeats: Sequence[int]) -> Value:
    """x repeated repeats[i] times along axis i"""
    axes = list(zip(repeats, x.shape, strict=True))
    apart = tuple(d for n, s in axes for d in ((s,) if n == 1 else (1, s)))
    stretched = tuple(d for n, s in axes for d in ((s,) if n == 1 else (n, s)))
    x = broadcast_to(reshape(x, shape=apart), shape=stretched)
    return reshape(x, shape=tuple(n * s for n, s in axes))


def resolved_shape(x: Shape, shape: Sequence[Dim]) -> Shape:
    """`shape` with its one -1, if it has one, replaced by what makes it hold x's elements"""
    known = elements(tuple(s for s in shape if s != -1))
    return tuple(elements(x) // known if s == -1 else s for s in shape)
