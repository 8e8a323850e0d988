"""Recurrent layers over whole sequences [n,t,...], and their backward passes.

The product of the input with its weight matrix is one `linear` over all steps and stands before
these operators; what is left for each step is the product with the last state. Backward passes are
operators with kernels of their own; their derivatives, of any order, are made of
`linear_recurrence`, whose derivative is itself with the matrices transposed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.errors import ShapeError
from ir.graph import Shape, Value, shape_text
from ir.op import case, floats, op
from ir.ops.composed import composed_grad
from ir.ops.elementwise import sigmoid, tanh
from ir.ops.linalg import matmul
from ir.ops.recurrence import (
    at_first,
    flip,
    following,
    linear_recurrence,
    over_steps,
    previous,
    stack,
    want_shapes,
    zeros,
)
from ir.ops.reduce import reduce_sum
from ir.ops.shaping import concat, reshape, slice_axis, split
from ir.symbol import Dim


def _sizes(name: str, x: Shape, w: Shape, gates: int, parts: int | None = None) -> tuple[Dim, ...]:
    """(n, t, h) of x [n,t,parts*h] beside w [gates*h,h]; `parts` is `gates` by default."""
    parts = gates if parts is None else parts
    if len(x) != 3 or len(w) != 2 or w[0] != gates * w[1] or x[2] != parts * w[1] or x[1] == 0:
        raise ShapeError(
            f"{name}: {shape_text(x)} beside w {shape_text(w)}; "
            f"want [n,t,{parts}*h] with a t of at least 1, and [{gates}*h,h]"
        )
    return (*x[:2], w[1])


def _steps(t: int, reverse: bool) -> Sequence[int]:
    return range(t - 1, -1, -1) if reverse else range(t)


# Long short-term memory.


def _lstm_shape(x, w, h0, c0, *, reverse):
    n, t, h = _sizes("lstm: x", x, w, 4)
    want_shapes("lstm", h0=(h0, (n, h)), c0=(c0, (n, h)))
    return [(n, t, h), (n, t, h), x]


def _lstm_grad(g, y, x, w, h0, c0, *, reverse):
    hidden, cell, gates = y
    gh = zeros(x, hidden.shape) if g[0] is None else g[0]
    dx, dh0, dc0 = lstm_dx(gates, cell, w, c0, gh, g[1], g[2], reverse=reverse)
    return dx, over_steps(dx, previous(hidden, h0, reverse)), dh0, dc0


@op(
    code=331,
    shape=_lstm_shape,
    samples=[
        case((2, 3, 8), (8, 2), (2, 2), (2, 2)),
        case((1, 4, 20), (20, 5), (1, 5), (1, 5), reverse=True),
        case((7, 2, 36), (36, 9), (7, 9), (7, 9), low=-1.0, high=1.0),
        case((9, 3, 64), (64, 16), (9, 16), (9, 16), low=-0.5, high=0.5, reverse=True),
    ],
    results=("hidden", "cell", "gates"),
    grad=_lstm_grad,
)
def lstm(x, w, h0, c0, *, reverse=False):
    """i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of the four parts of x_t + w h_(t-1);
    c_t = f c_(t-1) + i g, h_t = o tanh(c_t); `reverse`: from the last step to the first

    x: [n,t,4*h], w: [4*h,h], h0, c0: [n,h] -> hidden, cell: [n,t,h], gates (i, f, g, o): [n,t,4*h].
    Hochreiter and Schmidhuber 1997; Gers et al. 2000; gates in the order of PyTorch.
    """
    (n, t, _), h = x.shape, w.shape[1]
    hidden, cell = np.empty((n, t, h), x.dtype), np.empty((n, t, h), x.dtype)
    gates = np.empty_like(x)
    for at in _steps(t, reverse):
        a = x[:, at] + h0 @ w.T
        gates[:, at] = sigmoid.ref(a)
        gates[:, at, 2 * h : 3 * h] = np.tanh(a[:, 2 * h : 3 * h])
        i, f, g, o = np.split(gates[:, at], 4, axis=1)
        c0 = f * c0 + i * g
        h0 = o * np.tanh(c0)
        hidden[:, at], cell[:, at] = h0, c0
    return hidden, cell, gates


def _lstm_dx_shape(gates, cell, w, c0, g, gc, ggates, *, reverse):
    n, t, h = _sizes("lstm_dx: gates", gates, w, 4)
    want = {"cell": (cell, (n, t, h)), "c0": (c0, (n, h)), "g": (g, (n, t, h))}
    want_shapes("lstm_dx", **want, gc=(gc, (n, t, h)), ggates=(ggates, gates))
    return [gates, (n, h), (n, h)]


def _lstm_dx_formula(gates, cell, w, c0, g, gc, ggates, *, reverse):
    """lstm_dx by way of the adjoint of the state (h, c), which follows a linear recurrence."""
    if reverse:
        flipped = [flip(v) for v in (gates, cell)], [flip(v) for v in (g, gc, ggates)]
        dx, dh0, dc0 = _lstm_dx_formula(*flipped[0], w, c0, *flipped[1], reverse=False)
        return flip(dx), dh0, dc0
    h, none = w.shape[1], zeros(g, g.shape)
    i, f, new, o = split(gates, [h] * 4, axis=2)
    bent = tanh(cell)
    through = o * (1.0 - bent * bent)  # of h by c
    slopes = i * (1.0 - i), f * (1.0 - f), 1.0 - new * new, o * (1.0 - o)
    to_c = slopes[0] * new, slopes[1] * previous(cell, c0), slopes[2] * i
    to_h = slopes[3] * bent
    direct = None if ggates is None else ggates * concat(*slopes, axis=2)
    source = g if direct is None else g + following(matmul(direct, w))
    d = stack([stack([none, through * f]), stack([none, f])])
    p = stack([stack([*(through * a for a in to_c), to_h]), stack([*to_c, none])])
    b = stack([source, none if gc is None else gc])
    adjoint = linear_recurrence(b, d, p, w, transposed=True)
    of_h, of_c = (reshape(v, shape=g.shape) for v in split(adjoint, (1, 1), axis=2))
    of_c = of_c + through * of_h
    dx = concat(*(a * of_c for a in to_c), to_h * of_h, axis=2)
    dx = dx if direct is None else dx + direct
    return dx, matmul(at_first(dx), w), at_first(f * of_c)


def _lstm_dx_grad(gg, y, *inputs, reverse):
    return composed_grad(lambda *v: _lstm_dx_formula(*v, reverse=reverse), inputs, gg)


def _gates(n, t, h):
    return floats(n, t, h, low=-0.9, high=0.9)


@op(
    code=332,
    shape=_lstm_dx_shape,
    samples=[
        case(_gates(2, 3, 8), (2, 3, 2), (8, 2), (2, 2), (2, 3, 2)),
        case(_gates(1, 4, 20), (1, 4, 5), (20, 5), (1, 5), (1, 4, 5), (1, 4, 5), reverse=True),
        case(_gates(2, 3, 8), (2, 3, 2), (8, 2), (2, 2), (2, 3, 2), None, (2, 3, 8)),
        case(
            _gates(7, 2, 36), (7, 2, 9), (36, 9), (7, 9), (7, 2, 9), (7, 2, 9), (7, 2, 36),
            low=-1.0, high=1.0, reverse=True,
        ),
        case(
            _gates(9, 3, 64), (9, 3, 16), (64, 16), (9, 16), (9, 3, 16), low=-0.5, high=0.5
        ),
    ],
    results=("dx", "dh0", "dc0"),
    grad=_lstm_dx_grad,
)  # fmt: skip
def lstm_dx(gates, cell, w, c0, g, gc=None, ggates=None, *, reverse=False):
    """The gradients of lstm's x, h0 and c0, from those of hidden (g), cell and gates; that of w is
    the sum over examples and steps of dx_t h_(t-1)^T

    gates, ggates: [n,t,4*h], cell, g, gc: [n,t,h], w: [4*h,h], c0: [n,h] -> dx: [n,t,4*h],
    dh0, dc0: [n,h]
    """
    n, t, h = cell.shape
    dx = np.empty_like(gates)
    dh, dc = np.zeros((n, h), g.dtype), np.zeros((n, h), g.dtype)
    steps = list(_steps(t, reverse))
    for at, before in reversed(list(zip(steps, [None, *steps], strict=False))):
        i, f, new, o = np.split(gates[:, at], 4, axis=1)
        bent = np.tanh(cell[:, at])
        dh = dh + g[:, at]
        dc = dc + dh * o * (1 - bent * bent) + (0 if gc is None else gc[:, at])
        old = c0 if before is None else cell[:, before]
        by_gate = np.concatenate([dc * new, dc * old, dc * i, dh * bent], axis=1)
        by_gate = by_gate if ggates is None else by_gate + ggates[:, at]
        slope = gates[:, at] * (1 - gates[:, at])
        slope[:, 2 * h : 3 * h] = 1 - new * new
        dx[:, at] = by_gate * slope
        dh, dc = dx[:, at] @ w, dc * f
    return dx, dh, dc


# Gated recurrent units.


def _gru_shape(x, w, h0, b, *, reverse):
    n, t, h = _sizes("gru: x", x, w, 3)
    want_shapes("gru", h0=(h0, (n, h)), b=(b, (h,)))
    return [(n, t, h), (n, t, 4 * h)]


def _gru_grad(g, y, x, w, h0, b, *, reverse):
    hidden, gates = y
    gh = zeros(x, hidden.shape) if g[0] is None else g[0]
    dx, dv, dh0 = gru_dx(gates, hidden, w, h0, gh, g[1], reverse=reverse)
    dw = over_steps(_of_product(dx, dv), previous(hidden, h0, reverse))
    return dx, dw, dh0, None if b is None else reduce_sum(dv, axes=(0, 1))


def _of_product(dx: Value, dv: Value) -> Value:
    """The gradient of w h_(t-1): that of x, but with v's in the part of the new state."""
    return concat(slice_axis(dx, 0, 2 * dv.shape[2], axis=2), dv, axis=2)


@op(
    code=333,
    shape=_gru_shape,
    samples=[
        case((2, 3, 6), (6, 2), (2, 2), (2,)),
        case((1, 4, 15), (15, 5), (1, 5), reverse=True),
        case((7, 2, 27), (27, 9), (7, 9), (9,), low=-1.0, high=1.0),
        case((9, 3, 48), (48, 16), (9, 16), (16,), low=-0.5, high=0.5, reverse=True),
    ],
    results=("hidden", "gates"),
    grad=_gru_grad,
)
def gru(x, w, h0, b=None, *, reverse=False):
    """r, z = sigmoid of the first two parts of x_t + w h_(t-1), v = w h_(t-1) + b of the third;
    new = tanh(x_t + r v), h_t = (1 - z) new + z h_(t-1); `reverse`: from the last step to the first

    x: [n,t,3*h], w: [3*h,h], h0: [n,h], b: [h] -> hidden: [n,t,h], gates (r, z, new, v): [n,t,4*h].
    Cho et al. 2014, with the reset behind the product, as PyTorch and cuDNN have it.
    """
    (n, t, _), h = x.shape, w.shape[1]
    hidden, gates = np.empty((n, t, h), x.dtype), np.empty((n, t, 4 * h), x.dtype)
    for at in _steps(t, reverse):
        u = h0 @ w.T
        r, z = np.split(sigmoid.ref(x[:, at, : 2 * h] + u[:, : 2 * h]), 2, axis=1)
        v = u[:, 2 * h :] if b is None else u[:, 2 * h :] + b
        new = np.tanh(x[:, at, 2 * h :] + r * v)
        h0 = (1 - z) * new + z * h0
        hidden[:, at], gates[:, at] = h0, np.concatenate([r, z, new, v], axis=1)
    return hidden, gates


def _gru_dx_shape(gates, hidden, w, h0, g, ggates, *, reverse):
    n, t, h = _sizes("gru_dx: gates", gates, w, 3, 4)
    want = {"hidden": (hidden, (n, t, h)), "h0": (h0, (n, h)), "g": (g, (n, t, h))}
    want_shapes("gru_dx", **want, ggates=(ggates, gates))
    return [(n, t, 3 * h), (n, t, h), (n, h)]


def _gru_dx_formula(gates, hidden, w, h0, g, ggates, *, reverse):
    """gru_dx by way of the adjoint of the state, which follows a linear recurrence."""
    if reverse:
        gates, hidden, g, ggates = map(flip, (gates, hidden, g, ggates))
        dx, dv, dh0 = _gru_dx_formula(gates, hidden, w, h0, g, ggates, reverse=False)
        return flip(dx), flip(dv), dh0
    n, t, h = g.shape
    r, z, new, v = split(gates, [h] * 4, axis=2)
    slope_r, slope_z, slope = r * (1.0 - r), z * (1.0 - z), 1.0 - new * new
    to_new = (1.0 - z) * slope
    p = stack([to_new * v * slope_r, (previous(hidden, h0) - new) * slope_z, to_new * r])
    d = reshape(z, shape=(n, t, 1, 1, h))
    if ggates is not None:
        gr, gz, gnew, gv = split(ggates, [h] * 4, axis=2)
        bent = gnew * slope
        direct = concat((bent * v + gr) * slope_r, gz * slope_z, bent, axis=2)
        direct_v = bent * r + gv
        g = g + following(matmul(_of_product(direct, direct_v), w))
    b = reshape(g, shape=(n, t, 1, h))
    adjoint = linear_recurrence(b, d, reshape(p, shape=(n, t, 1, 3, h)), w, transposed=True)
    flat = reshape(p * adjoint, shape=(n, t, 3 * h))
    of_h = reshape(adjoint, shape=(n, t, h))
    dx = concat(slice_axis(flat, 0, 2 * h, axis=2), to_new * of_h, axis=2)
    dv = slice_axis(flat, 2 * h, 3 * h, axis=2)
    if ggates is not None:
        dx, dv = dx + direct, dv + direct_v
    return dx, dv, at_first(z * of_h) + matmul(at_first(_of_product(dx, dv)), w)


def _gru_dx_grad(gg, y, *inputs, reverse):
    return composed_grad(lambda *v: _gru_dx_formula(*v, reverse=reverse), inputs, gg)


@op(
    code=334,
    shape=_gru_dx_shape,
    samples=[
        case(_gates(2, 3, 8), (2, 3, 2), (6, 2), (2, 2), (2, 3, 2)),
        case(_gates(1, 4, 20), (1, 4, 5), (15, 5), (1, 5), (1, 4, 5), (1, 4, 20), reverse=True),
        case(_gates(7, 2, 36), (7, 2, 9), (27, 9), (7, 9), (7, 2, 9), low=-1.0, high=1.0),
        case(
            _gates(9, 3, 64), (9, 3, 16), (48, 16), (9, 16), (9, 3, 16), (9, 3, 64),
            low=-0.5, high=0.5,
        ),
    ],
    results=("dx", "dv", "dh0"),
    grad=_gru_dx_grad,
)  # fmt: skip
def gru_dx(gates, hidden, w, h0, g, ggates=None, *, reverse=False):
    """The gradients of gru's x, v and h0, from those of hidden (g) and gates; b's is the sum of dv,
    that of w the sum over examples and steps of (dx_t's first two parts, dv_t) h_(t-1)^T

    gates, ggates: [n,t,4*h], hidden, g: [n,t,h], w: [3*h,h], h0: [n,h] -> dx: [n,t,3*h],
    dv: [n,t,h], dh0: [n,h]
    """
    n, t, h = hidden.shape
    dx, dv = np.empty((n, t, 3 * h), g.dtype), np.empty((n, t, h), g.dtype)
    dh = np.zeros((n, h), g.dtype)
    steps = list(_steps(t, reverse))
    for at, before in reversed(list(zip(steps, [None, *steps], strict=False))):
        r, z, new, v = np.split(gates[:, at], 4, axis=1)
        gr, gz, gnew, gv = np.split(
            np.zeros_like(gates[:, at]) if ggates is None else ggates[:, at], 4, axis=1
        )
        dh = dh + g[:, at]
        old = h0 if before is None else hidden[:, before]
        bent = (dh * (1 - z) + gnew) * (1 - new * new)
        dr = (bent * v + gr) * r * (1 - r)
        dz = (dh * (old - new) + gz) * z * (1 - z)
        dv[:, at] = bent * r + gv
        dx[:, at] = np.concatenate([dr, dz, bent], axis=1)
        dh = dh * z + np.concatenate([dr, dz, dv[:, at]], axis=1) @ w
    return dx, dv, dh
