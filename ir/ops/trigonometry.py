"""Functions of angles and of hyperbolas, and their inverses, of each element."""

from __future__ import annotations

import numpy as np

from ir.op import case, op
from ir.ops.elementwise import sqrt
from ir.ops.rules import same

ANY = case((3, 4)), case((0, 3)), case(())
INSIDE = case((3, 4), low=-0.9, high=0.9), case((0, 3)), case((), low=-0.9, high=0.9)
ABOVE_1 = case((3, 4), low=1.1, high=9.0), case((0, 3)), case((), low=1.1, high=9.0)


@op(code=33, shape=same, samples=INSIDE, onnx="Tan", grad=lambda g, y, x: (g * (y * y + 1.0),))
def tan(x):
    """y = the tangent of x, in radians"""
    return np.tan(x)


@op(
    code=34,
    shape=same,
    samples=INSIDE,
    onnx="Asin",
    grad=lambda g, y, x: (g / sqrt(1.0 - x * x),),
)
def asin(x):
    """y = the angle in [-pi/2, pi/2] whose sine is x"""
    return np.arcsin(x)


@op(
    code=35,
    shape=same,
    samples=INSIDE,
    onnx="Acos",
    grad=lambda g, y, x: (-(g / sqrt(1.0 - x * x)),),
)
def acos(x):
    """y = the angle in [0, pi] whose cosine is x"""
    return np.arccos(x)


@op(code=36, shape=same, samples=ANY, onnx="Atan", grad=lambda g, y, x: (g / (x * x + 1.0),))
def atan(x):
    """y = the angle in (-pi/2, pi/2) whose tangent is x"""
    return np.arctan(x)


@op(code=37, shape=same, samples=ANY, onnx="Sinh", grad=lambda g, y, x: (g * cosh(x),))
def sinh(x):
    """y = (e^x - e^-x) / 2"""
    return np.sinh(x)


@op(code=38, shape=same, samples=ANY, onnx="Cosh", grad=lambda g, y, x: (g * sinh(x),))
def cosh(x):
    """y = (e^x + e^-x) / 2"""
    return np.cosh(x)


@op(
    code=39,
    shape=same,
    samples=ANY,
    onnx="Asinh",
    grad=lambda g, y, x: (g / sqrt(x * x + 1.0),),
)
def asinh(x):
    """y = the number whose hyperbolic sine is x"""
    return np.arcsinh(x)


@op(
    code=40,
    shape=same,
    samples=ABOVE_1,
    onnx="Acosh",
    grad=lambda g, y, x: (g / sqrt(x * x - 1.0),),
)
def acosh(x):
    """y = the number of at least 0 whose hyperbolic cosine is x"""
    return np.arccosh(x)


@op(code=41, shape=same, samples=INSIDE, onnx="Atanh", grad=lambda g, y, x: (g / (1.0 - x * x),))
def atanh(x):
    """y = the number whose hyperbolic tangent is x"""
    return np.arctanh(x)
