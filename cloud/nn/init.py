"""First values of weights. An initialiser is a function of (rng, shape, fans) that gives float32.

`fans` is (fan_in, fan_out): how many inputs an output element sums, and how many output elements
an input reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ir.graph import Array

Shape = tuple[int, ...]
Fans = tuple[int, int]
Initializer = Callable[["np.random.Generator", Shape, Fans], Array]


def fans(shape: Shape) -> Fans:
    """(fan_in, fan_out) of a weight [out, …, in]: linear [out,in], convolution [k,r,s,c/groups]."""
    return math.prod(shape[1:]), math.prod(shape[:-1])


def zeros(rng: np.random.Generator, shape: Shape, fans: Fans) -> Array:
    return np.zeros(shape, np.float32)


def ones(rng: np.random.Generator, shape: Shape, fans: Fans) -> Array:
    return np.ones(shape, np.float32)


def kaiming_uniform(rng: np.random.Generator, shape: Shape, fans: Fans) -> Array:
    """U(-a, a), a = sqrt(6 / fan_in): keeps the variance through a ReLU (He et al. 2015)"""
    return uniform(math.sqrt(6 / fans[0]))(rng, shape, fans)


def kaiming_normal(rng: np.random.Generator, shape: Shape, fans: Fans) -> Array:
    """N(0, 2 / fan_in): keeps the variance through a ReLU (He et al. 2015)"""
    return normal(math.sqrt(2 / fans[0]))(rng, shape, fans)


def glorot_uniform(rng: np.random.Generator, shape: Shape, fans: Fans) -> Array:
    """U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)"""
    return uniform(math.sqrt(6 / sum(fans)))(rng, shape, fans)


def glorot_normal(rng: np.random.Generator, shape: Shape, fans: Fans) -> Array:
    """N(0, 2 / (fan_in + fan_out)) (Glorot and Bengio 2010)"""
    return normal(math.sqrt(2 / sum(fans)))(rng, shape, fans)


def uniform(limit: float) -> Initializer:
    """U(-limit, limit)"""
    return lambda rng, shape, _: rng.uniform(-limit, limit, shape).astype(np.float32)


def normal(std: float, mean: float = 0.0) -> Initializer:
    """N(mean, std^2)"""
    return lambda rng, shape, _: rng.normal(mean, std, shape).astype(np.float32)


he_uniform, he_normal = kaiming_uniform, kaiming_normal
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
