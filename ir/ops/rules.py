"""Shape and type rules, and gradient helpers, that several operators share."""

from __future__ import annotations

from typing import Any

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Constant, Shape, Value, shape_text
from ir.op import OPS
from ir.symbol import Dim


def same(x: Shape, *_: Shape, **__: Any) -> Shape:
    """The result has the shape of the first input."""
    return x


def broadcast(*shapes: Shape, **_: Any) -> Shape:
    """The numpy rule: align right, a size of 1 stretches."""
    rank = max(map(len, shapes))
    out: list[Any] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, start=rank - len(shape)):
            if out[i] == 1:
                out[i] = size
            elif size not in (1, out[i]):
                texts = " with ".join(map(shape_text, shapes))
                raise ShapeError(f"cannot broadcast {texts}; sizes must be equal or 1")
    return tuple(out)


def unbroadcast(g: Value, like: Value) -> Value:
    """Sum `g` over the axes along which `like` was stretched."""
    extra = g.rank - like.rank
    kept = enumerate(like.shape, start=extra)
    axes = (*range(extra), *(i for i, s in kept if s == 1 and g.shape[i] != 1))
    if axes:
        g = OPS["reduce_sum"](g, axes=axes)
    return g if g.shape == like.shape else OPS["reshape"](g, shape=like.shape)


def predicate(*dtypes: DType | None, **_: Any) -> DType:
    """Inputs of one type, a result of truth values."""
    if len(set(dtypes)) != 1:
        raise DTypeError(f"comparison of {list(dtypes)}; want one type for all")
    return DType.bool


def checked_axes(name: str, x: Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """`axes`, which must be different axes of x, counted from 0."""
    if len(set(axes)) != len(axes) or not set(axes) <= set(range(len(x))):
        raise ShapeError(
            f"{name}: axes {list(axes)} of {shape_text(x)}; want some of 0..{len(x) - 1}"
        )
    return axes


def zeros(like: Value) -> Value:
    """Zeros of this shape and type."""
    zero = Constant(0.0, dtype=like.dtype)
    return OPS["broadcast_to"](zero, shape=like.shape) if like.shape else zero


def elements(shape: Shape) -> Dim:
    """How many elements a tensor of this shape has."""
    n: Dim = 1
    for size in shape:
        n = n * size
    return n
