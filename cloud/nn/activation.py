"""Elementwise layers, for use in Sequential; in `forward`, `ops.relu(x)` does the same."""

from __future__ import annotations

from cloud import ops
from cloud.nn.module import Module
from ir.graph import Value


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
    """y = x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016)"""

    def forward(self, x: Value) -> Value:
        return ops.gelu(x)


class SiLU(Module):
    """y = x sigmoid(x) (Elfwing et al. 2017)"""

    def forward(self, x: Value) -> Value:
        return ops.silu(x)


class HardSwish(Module):
    """y = x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)"""

    def forward(self, x: Value) -> Value:
        return ops.hard_swish(x)
