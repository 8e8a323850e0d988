"""Attention as one operator, whose scores are never there all at once."""

from __future__ import annotations

import numpy as np

from ir.errors import ShapeError
from ir.graph import shape_text
from ir.op import case, op
from ir.ops.composed import composed_grad
from ir.ops.linalg import matmul
from ir.ops.norm import softmax
from ir.ops.rules import broadcast


def _shape(q, k, v, mask, *, scale):
    shapes = " ".join(shape_text(s) for s in (q, k, v))
    if len(q) < 2 or q[:-2] != k[:-2] or q[:-2] != v[:-2] or not len(q) == len(k) == len(v):
        raise ShapeError(f"attention: {shapes}; want [*b,t,d] [*b,s,d] [*b,s,e] of one b")
    if q[-1] != k[-1] or k[-2] != v[-2]:
        raise ShapeError(f"attention: {shapes}; want [*b,t,d] [*b,s,d] [*b,s,e]")
    scores = (*q[:-1], k[-2])
    if mask is not None and (len(mask) > len(scores) or broadcast(mask, scores) != scores):
        raise ShapeError(f"attention: mask {shape_text(mask)} beside scores {shape_text(scores)}")
    return (*q[:-1], v[-1])


def _written_out(q, k, v, mask, scale):
    scores = matmul(q, k, transpose_b=True) * scale
    scores = scores if mask is None else scores + mask
    return (matmul(softmax(scores, axis=scores.rank - 1), v),)


def _grad(g, y, *inputs, scale):
    return composed_grad(lambda *xs: _written_out(*xs, scale), inputs, (g,))


@op(
    code=223,
    shape=_shape,
    samples=[
        case((3, 4), (5, 4), (5, 2), scale=0.5),
        case((2, 3, 7, 8), (2, 3, 9, 8), (2, 3, 9, 6), (7, 9), scale=0.3),
        case((2, 2, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8), (2, 1, 1, 5), scale=0.35),
        case((1, 70, 19), (1, 33, 19), (1, 33, 17), (70, 1)),
        case((2, 3, 8), (2, 0, 8), (2, 0, 5)),  # no keys
        case((2, 1, 40), (2, 130, 40), (2, 130, 40), (1, 1, 130), scale=0.1),
    ],
    grad=_grad,
)
def attention(q, k, v, mask=None, *, scale=1.0):
    """y = softmax(scale q k^T + mask) v

    q: [*b,t,d], k: [*b,s,d], v: [*b,s,e], mask: what stretches to [*b,t,s] -> y: [*b,t,e].
    Vaswani et al. 2017.
    """
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(scale)
    scores = scores if mask is None else scores + mask
    return np.matmul(softmax.ref(scores, axis=scores.ndim - 1), v)
