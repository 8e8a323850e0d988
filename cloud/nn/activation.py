"""Elementwise layers, for use in Sequential; in `forward`, `ops.relu(x)` does the same."""

from __future__ import annotations

import numpy as np

from cloud import ops
from cloud.nn.module import Module
from ir.graph import Value, Weight


class ReLU(Module):
    """y = max(x, 0) (Nair and Hinton 2010)"""

    def forward(self, x: Value) -> Value:
        return ops.relu(x)


class ReLU6(Module):
    """y = min(max(x, 0), 6) (Howard et al. 2017)"""

    def forward(self, x: Value) -> Value:
        return ops.clip(x, low=0.0, high=6.0)


class Sigmoid(Module):
    """y = 1 / (1 + e^-x)"""

    def forward(self, x: Value) -> Value:
        return ops.sigmoid(x)


class Tanh(Module):
    """y = tanh x"""

    def forward(self, x: Value) -> Value:
        return ops.tanh(x)


class GELU(Module):
    """y = x Phi(x), Phi the normal distribution function; `approximate="tanh"`: by its formula with
    tanh (Hendrycks and Gimpel 2016)"""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Value) -> Value:
        return ops.gelu(x, approximate=self.approximate)


class SiLU(Module):
    """y = x sigmoid(x) (Elfwing et al. 2017)"""

    def forward(self, x: Value) -> Value:
        return ops.silu(x)


class HardSwish(Module):
    """y = x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)"""

    def forward(self, x: Value) -> Value:
        return ops.hard_swish(x)


class HardSigmoid(Module):
    """y = min(max(x / 6 + 1 / 2, 0), 1) (Howard et al. 2019)"""

    def forward(self, x: Value) -> Value:
        return ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


class HardTanh(Module):
    """y = x limited to [low, high]"""

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        self.low, self.high = low, high

    def forward(self, x: Value) -> Value:
        return ops.clip(x, low=self.low, high=self.high)


class LeakyReLU(Module):
    """y = x where x > 0, else slope * x (Maas et al. 2013)"""

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = slope

    def forward(self, x: Value) -> Value:
        return ops.leaky_relu(x, alpha=self.slope)


class PReLU(Module):
    """y = x where x > 0, else slope * x with a slope that is learned, one or one a channel

    x: [...,channels] -> y: [...,channels] (He et al. 2015)
    """

    def __init__(self, channels: int = 1, *, slope: float = 0.25) -> None:
        self.slope = Weight(np.full(channels, slope, np.float32), name="slope")

    def forward(self, x: Value) -> Value:
        return ops.relu(x) - self.slope * ops.relu(-x)


class ELU(Module):
    """y = x where x > 0, else alpha (e^x - 1) (Clevert et al. 2016)"""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Value) -> Value:
        return ops.elu(x, alpha=self.alpha)


class SELU(Module):
    """y = scale * elu(x, alpha), whose mean 0 and variance 1 are a fixed point

    (Klambauer et al. 2017)
    """

    def forward(self, x: Value) -> Value:
        return ops.elu(x, alpha=1.6732632423543772) * 1.0507009873554805


class Softplus(Module):
    """y = log(1 + e^x)"""

    def forward(self, x: Value) -> Value:
        return ops.softplus(x)


class Mish(Module):
    """y = x tanh(log(1 + e^x)) (Misra 2019)"""

    def forward(self, x: Value) -> Value:
        return x * ops.tanh(ops.softplus(x))


class Softmax(Module):
    """y = e^x / (the sum of e^x along the axis), by default the last"""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Value) -> Value:
        return ops.softmax(x, axis=self.axis % x.rank)


class LogSoftmax(Module):
    """y = x - log(the sum of e^x along the axis), by default the last"""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Value) -> Value:
        return ops.log_softmax(x, axis=self.axis % x.rank)


class GLU(Module):
    """y = a sigmoid(b), a and b the halves of the last axis     [...,2*c] -> [...,c]

    (Dauphin et al. 2017)
    """

    def forward(self, x: Value) -> Value:
        half = x.shape[-1] // 2
        a, b = ops.split(x, [half, half], axis=x.rank - 1)
        return a * ops.sigmoid(b)
