"""One output element from one element of each input."""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from ir.dtype import DType
from ir.graph import Constant
from ir.op import NO_GRAD, case, exactly, ints, op
from ir.ops.compare import equal, greater, less, logical_and, where
from ir.ops.rules import broadcast, same, unbroadcast
from ir.ops.shaping import cast

ONE = (
    case((3, 4)),
    case((2, 1, 5)),
    case((0, 3)),
    case(()),
)  # empty and scalar tensors are cases too
ABOVE_0 = case((3, 4), low=0.1), case((0, 3)), case((), low=0.1)
TWO = case((3, 4), (3, 4)), case((3, 4), (4,)), case((2, 1, 5), (3, 1)), case((), (2,))
TWO_ABOVE_0 = (
    case((3, 4), (3, 4), low=0.1),
    case((2, 1, 5), (3, 1), low=0.1),
    case((4,), (), low=0.1),
)
LONG = (  # longer than the blocks that fast kernels stretch at a time
    case((3, 171, 7), (3, 1, 7)),
    case((7,), (400, 7)),
    case((3, 700), (3, 1)),
    case((30, 1), (1, 70)),
)
WIDE = 2**40  # of 64-bit integers: beyond what 32 bits and the fractions of floats hold
NUMBERS = ("f32", "i32", "i64")


def _longs(*shape, low=-WIDE):
    return ints(*shape, low=low, high=WIDE, dtype=DType.i64)


WITH_INTS = (
    *TWO,
    case(ints(3, 4), ints(4)),
    case(ints(7), ints(7)),
    case(_longs(3, 4), _longs(4)),
)
SQRT_2 = math.sqrt(2)


@op(
    code=1,
    shape=broadcast,
    samples=WITH_INTS,
    kernels=NUMBERS,
    onnx="Add",
    grad=lambda g, y, a, b: (unbroadcast(g, a), unbroadcast(g, b)),
)
def add(a, b):
    """y = a + b"""
    return a + b


@op(
    code=2,
    shape=broadcast,
    samples=WITH_INTS,
    kernels=NUMBERS,
    onnx="Sub",
    grad=lambda g, y, a, b: (unbroadcast(g, a), unbroadcast(-g, b)),
)
def sub(a, b):
    """y = a - b"""
    return a - b


@op(
    code=3,
    shape=broadcast,
    samples=(*WITH_INTS, *LONG),
    kernels=NUMBERS,
    onnx="Mul",
    grad=lambda g, y, a, b: (unbroadcast(g * b, a), unbroadcast(g * a, b)),
)
def mul(a, b):
    """y = a * b"""
    return a * b


@op(
    code=4,
    shape=broadcast,
    samples=(
        *TWO_ABOVE_0,
        case(ints(3, 4), ints(4, low=-5, high=5)),
        case(exactly([7, -7, 5, -(2**31)], DType.i32), exactly([2, 2, 0, -1], DType.i32)),
        case(_longs(3, 4), ints(4, low=1, high=9, dtype=DType.i64)),
    ),
    kernels=NUMBERS,
    onnx="Div",
    grad=lambda g, y, a, b: (unbroadcast(g / b, a), unbroadcast(-(g * y) / b, b)),
)
def div(a, b):
    """y = a / b; of integers without the fraction, and 0 where b is 0"""
    if a.dtype.kind == "f":
        return a / b
    with np.errstate(all="ignore"):  # 0 as a divisor; the least number by -1, which wraps around
        down = np.floor_divide(a, b)
    rounded_down = (down * b != a) & ((a < 0) != (b < 0))
    return np.where(b == 0, 0, down + rounded_down).astype(a.dtype)


@op(
    code=5,
    shape=same,
    samples=(*ONE, case(ints(5)), case(_longs(5))),
    kernels=NUMBERS,
    onnx="Neg",
    grad=lambda g, y, x: (-g,),
)
def neg(x):
    """y = -x"""
    return -x


@op(
    code=6,
    shape=same,
    samples=(*ONE, case(ints(5)), case(_longs(5))),
    kernels=NUMBERS,
    onnx="Abs",
    grad=lambda g, y, x: (g * sign(x),),
)
def abs(x):
    """y = |x|; its derivative at 0 is 0"""
    return np.abs(x)


@op(code=7, shape=same, samples=ONE, onnx="Exp", grad=lambda g, y, x: (g * y,))
def exp(x):
    """y = e^x"""
    return np.exp(x)


@op(code=8, shape=same, samples=ABOVE_0, onnx="Log", grad=lambda g, y, x: (g / x,))
def log(x):
    """y = the natural logarithm of x"""
    return np.log(x)


@op(code=9, shape=same, samples=ABOVE_0, onnx="Sqrt", grad=lambda g, y, x: (g * 0.5 / y,))
def sqrt(x):
    """y = the square root of x"""
    return np.sqrt(x)


@op(code=10, shape=same, samples=ABOVE_0, onnx="Reciprocal", grad=lambda g, y, x: (-(g * y * y),))
def reciprocal(x):
    """y = 1 / x"""
    with np.errstate(divide="ignore"):
        return 1 / x


def _pow_grad(g, y, a, b):
    is_zero = equal(a, 0.0)
    log_a = log(where(is_zero, 1.0, a))  # 0^b stays 0 when b moves
    base = a
    if not isinstance(b, Constant) or not b.data.all():  # a^0 is 1, wherever a moves
        base = where(logical_and(is_zero, equal(b, 0.0)), 1.0, a)
    return unbroadcast(g * b * pow(base, b - 1), a), unbroadcast(g * y * log_a, b)


@op(
    code=11,
    shape=broadcast,
    samples=(
        *TWO_ABOVE_0,
        case(ints(3, 4, low=-9, high=9), ints(4, low=0, high=12)),
        case(exactly([0, 1, -1, 3, 2], DType.i32), exactly([-1, -2, -3, -1, 0], DType.i32)),
        case(_longs(5), ints(5, low=0, high=9, dtype=DType.i64)),
    ),
    kernels=NUMBERS,
    onnx="Pow",
    grad=_pow_grad,
)
def pow(a, b):
    """y = a^b; of integers wrapped around, and for a negative b without the fraction"""
    if a.dtype.kind == "f":
        return np.power(a, b)
    odd = np.where(b % 2 == 0, np.abs(a), a)
    below = np.where(np.abs(a) == 1, odd, 0)
    return np.where(b < 0, below, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def _maximum_grad(g, y, a, b):
    share = where(equal(a, b), 0.5, cast(equal(a, y), to=g.dtype))
    to_a = g * share
    return unbroadcast(to_a, a), unbroadcast(g - to_a, b)


@op(
    code=12,
    shape=broadcast,
    samples=WITH_INTS,
    kernels=NUMBERS,
    onnx="Max",
    grad=_maximum_grad,
)
def maximum(a, b):
    """y = the larger of a and b; where they are equal each has half of the gradient"""
    return np.maximum(a, b)


@op(
    code=13,
    shape=broadcast,
    samples=WITH_INTS,
    kernels=NUMBERS,
    onnx="Min",
    grad=_maximum_grad,
)
def minimum(a, b):
    """y = the smaller of a and b; where they are equal each has half of the gradient"""
    return np.minimum(a, b)


@op(
    code=14,
    shape=same,
    samples=ONE,
    onnx="Relu",
    grad=lambda g, y, x: (where(greater(y, 0.0), g, 0.0),),
)
def relu(x):
    """y = max(x, 0); its derivative at 0 is 0"""
    return np.maximum(x, 0)


def _clip_grad(g, y, x, *, low, high):
    return (where(logical_and(greater(y, low), less(y, high)), g, 0.0),)


@op(
    code=15,
    shape=same,
    samples=(*ONE, case((9,), low=-1.0, high=8.0), case((9,), low=-0.5, high=0.5)),
    onnx="Clip",
    grad=_clip_grad,
)
def clip(x, *, low=0.0, high=6.0):
    """y = x limited to [low, high]; its derivative at both limits is 0, so that x need not be kept
    for it"""
    return np.clip(x, low, high)


@op(code=16, shape=same, samples=ONE, onnx="Sigmoid", grad=lambda g, y, x: (g * y * sigmoid(-x),))
def sigmoid(x):
    """y = 1 / (1 + e^-x), written so that e^x cannot overflow"""
    e = np.exp(-np.abs(x))
    return (np.where(x >= 0, 1, e) / (1 + e)).astype(x.dtype)


@op(code=17, shape=same, samples=ONE, onnx="Softplus", grad=lambda g, y, x: (g * sigmoid(x),))
def softplus(x):
    """y = log(1 + e^x), written so that e^x cannot overflow"""
    return np.logaddexp(0, x).astype(x.dtype)


@op(
    code=18,
    shape=same,
    samples=(*ONE, case((7,), alpha=0.2)),
    onnx="LeakyRelu",
    grad=lambda g, y, x, *, alpha: (where(greater(x, 0.0), g, g * alpha),),
)
def leaky_relu(x, *, alpha=0.01):
    """y = x where x > 0, else alpha x     Maas, Hannun and Ng 2013"""
    return np.where(x > 0, x, alpha * x)


@op(
    code=19,
    shape=same,
    samples=(*ONE, case((7,), alpha=0.5)),
    onnx="Elu",
    grad=lambda g, y, x, *, alpha: (where(greater(x, 0.0), g, g * (y + alpha)),),
)
def elu(x, *, alpha=1.0):
    """y = x where x > 0, else alpha (e^x - 1)     Clevert, Unterthiner and Hochreiter 2016"""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@op(code=20, shape=same, samples=ONE, onnx="Tanh", grad=lambda g, y, x: (g * (1.0 - y * y),))
def tanh(x):
    """y = (e^x - e^-x) / (e^x + e^-x)"""
    return np.tanh(x)


@op(
    code=21,
    shape=same,
    samples=ONE,
    onnx="Erf",
    grad=lambda g, y, x: (g * exp(-(x * x)) * (2 / math.sqrt(math.pi)),),
)
def erf(x):
    """y = 2 / sqrt(pi) times the integral of e^(-t t) over t from 0 to x"""
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


class Approximate(Enum):
    """How gelu computes the normal distribution: exactly, or by a formula with tanh."""

    none = "none"
    tanh = "tanh"


_GELU_SCALE, _GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


def _gelu_grad(g, y, x, *, approximate):
    if approximate is Approximate.none:
        cdf = (erf(x * (1 / SQRT_2)) + 1.0) * 0.5
        pdf = exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return (g * (cdf + x * pdf),)
    square = x * x
    t = tanh(x * (square * _GELU_CUBE + 1.0) * _GELU_SCALE)
    slope = (square * (3 * _GELU_CUBE) + 1.0) * _GELU_SCALE
    return (g * ((t + 1.0) * 0.5 + x * (1.0 - t * t) * slope * 0.5),)


@op(
    code=22,
    shape=same,
    samples=(*ONE, case((3, 4), approximate="tanh")),
    onnx="Gelu",
    grad=_gelu_grad,
)
def gelu(x, *, approximate=Approximate.none):
    """y = x P(Z <= x), Z standard normal: x (1 + erf(x / sqrt 2)) / 2, or with `tanh`
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2     Hendrycks and Gimpel 2016"""
    if approximate is Approximate.none:
        return 0.5 * x * (1 + erf.ref(x * (1 / SQRT_2)))
    return 0.5 * x * (1 + np.tanh(_GELU_SCALE * (x + _GELU_CUBE * x**3)))


def _silu_grad(g, y, x):
    s = sigmoid(x)
    return (g * (s + y * (1.0 - s)),)


@op(code=23, shape=same, samples=ONE, grad=_silu_grad)
def silu(x):
    """y = x / (1 + e^-x)     Elfwing, Uchibe and Doya 2017"""
    return x * sigmoid.ref(x)


def _between_0_and_1(y):
    return logical_and(greater(y, 0.0), less(y, 1.0))


@op(
    code=24,
    shape=same,
    samples=(*ONE, case((9,), low=-5.0, high=5.0, alpha=1 / 6)),
    onnx="HardSigmoid",
    grad=lambda g, y, x, *, alpha, beta: (where(_between_0_and_1(y), g * alpha, 0.0),),
)
def hard_sigmoid(x, *, alpha=0.2, beta=0.5):
    """y = alpha x + beta limited to [0, 1]"""
    return np.clip(alpha * x + beta, 0, 1)


def _hard_swish_grad(g, y, x):
    h = hard_sigmoid(x, alpha=1 / 6, beta=0.5)
    return (g * (h + where(_between_0_and_1(h), x * (1 / 6), 0.0)),)


@op(
    code=25,
    shape=same,
    samples=(*ONE, case((9,), low=-5.0, high=5.0)),
    onnx="HardSwish",
    grad=_hard_swish_grad,
)
def hard_swish(x):
    """y = x times x / 6 + 1 / 2 limited to [0, 1]     Howard et al. 2019"""
    return x * np.clip(x * (1 / 6) + 0.5, 0, 1)


@op(code=26, shape=same, samples=ONE, onnx="Sin", grad=lambda g, y, x: (g * cos(x),))
def sin(x):
    """y = the sine of x, in radians"""
    return np.sin(x)


@op(code=27, shape=same, samples=ONE, onnx="Cos", grad=lambda g, y, x: (-(g * sin(x)),))
def cos(x):
    """y = the cosine of x, in radians"""
    return np.cos(x)


# Step functions: their derivative is 0 wherever they have one.


@op(code=28, shape=same, samples=ONE, onnx="Floor", grad=NO_GRAD)
def floor(x):
    """y = the largest integer that is at most x"""
    return np.floor(x)


@op(code=29, shape=same, samples=ONE, onnx="Ceil", grad=NO_GRAD)
def ceil(x):
    """y = the smallest integer that is at least x"""
    return np.ceil(x)


@op(
    code=30,
    shape=same,
    samples=(*ONE, case(exactly([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]))),
    onnx="Round",
    grad=NO_GRAD,
)
def round(x):
    """y = the integer next to x; from the middle, the even one"""
    return np.rint(x)


@op(
    code=31,
    shape=same,
    samples=(*ONE, case(exactly([-3, 0, 2])), case(ints(5)), case(_longs(5))),
    kernels=NUMBERS,
    onnx="Sign",
    grad=NO_GRAD,
)
def sign(x):
    """y = -1, 0 or 1"""
    return np.sign(x)


@op(code=32, shape=same, samples=ONE, kernels=("any",), view=True, grad=NO_GRAD)
def stop_gradient(x):
    """y = x, which the derivative takes for a constant"""
    return x
