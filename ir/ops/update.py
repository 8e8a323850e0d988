"""New values of weights and of the memory of optimisers. Result i takes the place of input i."""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, case, exactly, floats, ints, op

LR = exactly(0.1)
WIDE = (3, 5, 7)  # longer than a vector register, and not a multiple of one


def _alike(name, *shapes):
    if len(set(shapes)) != 1:
        raise ShapeError(f"{name}: inputs of {', '.join(map(shape_text, shapes))}; want one shape")


def _scalars(name, *shapes):
    if any(shapes):
        raise ShapeError(f"{name}: {', '.join(map(shape_text, shapes))}; want scalars")


def _sgd_shape(w, g, lr, **_):
    _alike("sgd_step", w, g)
    _scalars("sgd_step: lr", lr)
    return w


@op(
    code=280,
    shape=_sgd_shape,
    samples=[case(WIDE, WIDE, LR), case((4,), (4,), LR, weight_decay=0.1)],
    updates=1,
    results=("w",),
    grad=NO_GRAD,
)
def sgd_step(w, g, lr, *, weight_decay=0.0):
    """w' = w - lr (g + weight_decay w)     w, g: one shape; lr: scalar"""
    return w - lr * (g + weight_decay * w)


def _momentum_shape(w, m, g, lr, **_):
    _alike("momentum_step", w, m, g)
    _scalars("momentum_step: lr", lr)
    return w


@op(
    code=281,
    shape=_momentum_shape,
    samples=[
        case(WIDE, WIDE, WIDE, LR),
        case((4,), (4,), (4,), LR, momentum=0.8, nesterov=True, weight_decay=0.1),
    ],
    updates=2,
    results=("w", "m"),
    grad=NO_GRAD,
)
def momentum_step(w, m, g, lr, *, momentum=0.9, nesterov=False, weight_decay=0.0):
    """m' = momentum m + d, w' = w - lr m', where d = g + weight_decay w     w, m, g: one shape

    With `nesterov`, w' = w - lr (d + momentum m').     Sutskever et al. 2013, as PyTorch has it
    """
    d = g + weight_decay * w
    m = momentum * m + d
    return w - lr * (d + momentum * m if nesterov else m), m


def _adam_shape(w, m, v, t, g, lr, **_):
    _alike("adam_step", w, m, v, g)
    _scalars("adam_step: t, lr", t, lr)
    return w


def _adam_dtype(w, m, v, t, g, lr, **_):
    if len({w, m, v, g, lr}) != 1 or t not in (w, DType.i32):
        raise DTypeError(f"adam_step: inputs of {[w, m, v, t, g, lr]}; want one type, or i32 for t")
    return w


@op(
    code=282,
    shape=_adam_shape,
    dtype=_adam_dtype,
    samples=[
        case(WIDE, WIDE, floats(*WIDE, low=0.1), exactly(1, DType.i32), WIDE, LR),
        case((4,), (4,), floats(4, low=0.1), exactly(7), (4,), LR, weight_decay=0.1),
        case(
            (4,), (4,), floats(4, low=0.1), exactly(3), (4,), LR, weight_decay=0.1, decoupled=True
        ),
    ],
    updates=3,
    results=("w", "m", "v"),
    grad=NO_GRAD,
)
def adam_step(
    w, m, v, t, g, lr, *, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, decoupled=False
):
    """m' = beta1 m + (1 - beta1) d, v' = beta2 v + (1 - beta2) d^2,
    w' = w - lr (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon), d = g + weight_decay w

    w, m, v, g: one shape; t: scalar, the number of this step, 1 at the first; lr: scalar.
    Kingma and Ba 2015. With `decoupled`, d = g and w shrinks by lr weight_decay w first
    (Loshchilov and Hutter 2019).
    """
    t = np.float64(t)
    d = g if decoupled else g + weight_decay * w
    w = w - lr * weight_decay * w if decoupled else w
    m = beta1 * m + (1 - beta1) * d
    v = beta2 * v + (1 - beta2) * d * d
    size = lr / (1 - beta1**t)
    root = np.sqrt(v / (1 - beta2**t)) + epsilon
    return (w - size * m / root).astype(w.dtype), m, v


@op(
    code=283,
    shape=lambda t, **_: t,
    samples=[case(exactly(3, DType.i32)), case(ints(2), by=-2)],
    kernels=("i32",),
    updates=1,
    results=("t",),
    grad=NO_GRAD,
)
def increment(t, *, by=1):
    """t' = t + by     t: int32 of any shape"""
    return t + np.int32(by)


def _assign_shape(w, x):
    _alike("assign", w, x)
    return w


@op(
    code=279,
    shape=_assign_shape,
    samples=[
        case((5,), (5,)),
        case(ints(2, 9), ints(2, 9)),
        case(ints(3, dtype=DType.i8), ints(3, dtype=DType.i8)),
    ],
    kernels=("any",),
    updates=1,
    results=("w",),
    grad=NO_GRAD,
)
def assign(w, x):
    """w' = x     w, x: one shape and type; how a stream's state goes from call to call"""
    return x.copy()


def _ema_shape(running, x, **_):
    _alike("ema_step", running, x)
    return running


@op(
    code=284,
    shape=_ema_shape,
    samples=[case((5,), (5,)), case((2, 9), (2, 9), momentum=0.01)],
    updates=1,
    results=("running",),
    grad=NO_GRAD,
)
def ema_step(running, x, *, momentum=0.1):
    """running' = (1 - momentum) running + momentum x, the moving average of batch normalisation

    `momentum` is the weight of the new value, as PyTorch has it (ONNX: of the old one).
    """
    return (1 - momentum) * running + momentum * x


LARGEST_ROOT = 128  # the kernel has its workspace on the stack


def _root_shape(root, a, t, **_):
    _alike("inverse_root_step", root, a)
    _scalars("inverse_root_step: t", t)
    if len(a) != 2 or a[0] != a[1]:
        raise ShapeError(f"inverse_root_step: a is {shape_text(a)}, want [m,m]")
    if not isinstance(a[0], int) or a[0] > LARGEST_ROOT:
        raise ShapeError(f"inverse_root_step: m is {a[0]}, want at most {LARGEST_ROOT}")
    return root


def _root_dtype(root, a, t, **_):
    if root is not a or t is not DType.i32:
        raise DTypeError(f"inverse_root_step: inputs of {[root, a, t]}; want one type, i32 for t")
    return root


def _root_samples():
    factor = np.random.default_rng(0).uniform(-1, 1, (5, 8))
    symmetric = exactly((factor @ factor.T).astype(np.float32))
    singular = exactly([[2, 2, 0], [2, 2, 0], [0, 0, 0]])
    yield case((5, 5), symmetric, exactly(1, DType.i32), order=2)
    yield case((5, 5), symmetric, exactly(11, DType.i32), every=10, epsilon=1e-3)
    yield case((5, 5), symmetric, exactly(12, DType.i32), every=10)
    yield case((3, 3), singular, exactly(1, DType.i32), epsilon=0.1)
    yield case((1, 1), exactly([[4.0]]), exactly(1, DType.i32), order=2)


@op(
    code=285,
    shape=_root_shape,
    dtype=_root_dtype,
    samples=_root_samples,
    updates=1,
    results=("root",),
    grad=NO_GRAD,
)
def inverse_root_step(root, a, t, *, order=4, every=1, epsilon=1e-6):
    """root' = (a + epsilon I)^(-1 / order) at steps t = 1, 1 + every, 1 + 2 every ..., else root

    root, a: [m,m], a symmetric without negative eigenvalues; t: int32 scalar, the number of this
    step. The preconditioner of Shampoo (Gupta, Koren and Singer 2018).
    """
    if (int(t) - 1) % max(every, 1):
        return root.copy()
    values, vectors = np.linalg.eigh(a.astype(np.float64) + epsilon * np.eye(len(a)))
    scales = np.maximum(values, np.finfo(np.float64).tiny) ** (-1 / order)
    return ((vectors * scales) @ vectors.T).astype(root.dtype)
