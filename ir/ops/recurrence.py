"""The linear recurrence that the derivatives of recurrent layers are made of, and arrangements of
sequences [n,t,...] that come with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.errors import ShapeError
from ir.graph import Constant, Shape, Value, shape_text
from ir.op import case, op
from ir.ops.linalg import matmul
from ir.ops.reduce import reduce_sum
from ir.ops.rules import elements
from ir.ops.shaping import broadcast_to, concat, reshape, slice_axis


def want_shapes(name: str, **given: tuple[Shape | None, Shape]) -> None:
    """Raise ShapeError unless each (shape, wanted shape) is equal; None is an input left out."""
    for what, (shape, want) in given.items():
        if shape is not None and shape != want:
            raise ShapeError(f"{name}: {what} is {shape_text(shape)}, want {shape_text(want)}")


def zeros(like: Value, shape: Shape) -> Value:
    return broadcast_to(Constant(0.0, dtype=like.dtype), shape=shape)


def flip(x: Value | None) -> Value | None:
    """x from its last step to its first."""
    return None if x is None else slice_axis(x, x.shape[1] - 1, -1, axis=1, step=-1)


def stack(rows: Sequence[Value], axis: int = 2) -> Value:
    return concat(
        *(reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:])) for x in rows), axis=axis
    )


def previous(states: Value, first: Value, reverse: bool = False) -> Value:
    """The state before each step."""
    n, t, h = states.shape
    first = reshape(first, shape=(n, 1, h))
    if reverse:
        return concat(slice_axis(states, 1, t, axis=1), first, axis=1)
    return concat(first, slice_axis(states, 0, t - 1, axis=1), axis=1)


def following(x: Value) -> Value:
    """What stands one step later; zeros behind the last."""
    behind = zeros(x, (x.shape[0], 1, *x.shape[2:]))
    return concat(slice_axis(x, 1, x.shape[1], axis=1), behind, axis=1)


def at_first(x: Value) -> Value:
    return reshape(slice_axis(x, 0, 1, axis=1), shape=(x.shape[0], *x.shape[2:]))


def over_steps(a: Value, b: Value) -> Value:
    """The sum over all examples and steps of a b^T: [n,t,p], [n,t,q] -> [p,q]"""
    rows = elements(a.shape[:2])
    a, b = (reshape(x, shape=(rows, x.shape[2])) for x in (a, b))
    return matmul(a, b, transpose_a=True)


def _recurrence_shape(b, d, p, w, *, transposed):
    if len(b) != 4 or len(w) != 2 or len(p) != 5:
        raise ShapeError(
            f"linear_recurrence: b {shape_text(b)}, p {shape_text(p)}, w {shape_text(w)}; "
            "want [n,t,s,h], [n,t,s,k,h], [k*h,h]"
        )
    n, t, s, h = b
    want = {"d": (d, (n, t, s, s, h)), "p": (p, (n, t, s, p[3], h)), "w": (w, (p[3] * h, h))}
    want_shapes("linear_recurrence", **want)
    return b


def _recurrence_grad(g, y, b, d, p, w, *, transposed):
    """y = L b with a matrix L that d, p and w make: <g, y> moves with L by the step that it takes
    from state s to adjoint l, whichever of the two is y."""
    other = linear_recurrence(g, d, p, w, transposed=not transposed)
    s, adjoint = (other, y) if transposed else (y, other)
    n, t, blocks, h = b.shape
    before = concat(zeros(s, (n, 1, blocks, h)), slice_axis(s, 0, t - 1, axis=1), axis=1)
    read = reshape(slice_axis(before, 0, 1, axis=2), shape=(n, t, h))
    u = reshape(matmul(read, w, transpose_b=True), shape=(n, t, 1, p.shape[3], h))
    tall = reshape(adjoint, shape=(n, t, blocks, 1, h))
    du = reshape(reduce_sum(p * tall, axes=(2,)), shape=(n, t, w.shape[0]))
    dd = tall * reshape(before, shape=(n, t, 1, blocks, h))
    return other, dd, tall * u, over_steps(du, read)


@op(
    code=330,
    shape=_recurrence_shape,
    samples=[
        case((2, 3, 1, 4), (2, 3, 1, 1, 4), (2, 3, 1, 3, 4), (12, 4), low=-0.7, high=0.7),
        case((1, 4, 2, 3), (1, 4, 2, 2, 3), (1, 4, 2, 4, 3), (12, 3), low=-0.7, high=0.7),
        case((2, 3, 1, 4), (2, 3, 1, 1, 4), (2, 3, 1, 3, 4), (12, 4), low=-0.7, high=0.7,
             transposed=True),
        case((1, 4, 2, 3), (1, 4, 2, 2, 3), (1, 4, 2, 4, 3), (12, 3), low=-0.7, high=0.7,
             transposed=True),
        case((2, 1, 2, 2), (2, 1, 2, 2, 2), (2, 1, 2, 1, 2), (2, 2), transposed=True),
    ],
    grad=_recurrence_grad,
)  # fmt: skip
def linear_recurrence(b, d, p, w, *, transposed=False):
    """y_t = b_t + M_t y_(t-1), where (M_t y)[j] = sum over i of d_t[j,i] y[i]
    + sum over k of p_t[j,k] (w_k y[0]); `transposed`: y_t = b_t + M_(t+1)^T y_(t+1)

    b: [n,t,s,h], d: [n,t,s,s,h], p: [n,t,s,k,h], w: [k*h,h] -> y: [n,t,s,h]. The state has s blocks
    of h numbers and is 0 before the first step (transposed: behind the last). Tangents of a gated
    layer follow the first form, adjoints the second.
    """
    n, steps, _, h = b.shape
    y, k = b.copy(), p.shape[3]
    for t in range(1, steps):
        if transposed:
            at = steps - 1 - t
            last, d_t, p_t = y[:, at + 1], d[:, at + 1], p[:, at + 1]
            y[:, at] += np.einsum("njih,njh->nih", d_t, last)
            y[:, at, 0] += np.einsum("njkh,njh->nkh", p_t, last).reshape(n, k * h) @ w
        else:
            last = y[:, t - 1]
            u = (last[:, 0] @ w.T).reshape(n, k, h)
            y[:, t] += np.einsum("njih,nih->njh", d[:, t], last)
            y[:, t] += np.einsum("njkh,nkh->njh", p[:, t], u)
    return y
