"""Layers that shrink or flatten the image axes."""

from __future__ import annotations

from cloud import ops
from cloud.nn.module import Module
from cloud.nn.padding import Padding, Pair, checked_padding, pads, pair
from ir.graph import Value
from ir.symbol import Dim


class MaxPool2d(Module):
    """y = the largest element of each window, never the padding     x: [n,h,w,c] -> [n,p,q,c]"""

    def __init__(
        self, size: Pair, *, stride: Pair | None = None, padding: Padding = "valid"
    ) -> None:
        self.size, self.padding = pair(size), checked_padding(padding)
        self.stride = pair(size if stride is None else stride)

    def forward(self, x: Value) -> Value:
        around = pads(self.padding, x, self.size, self.stride)
        return ops.max_pool2d(x, size=self.size, strides=self.stride, pads=around)


class AvgPool2d(Module):
    """y = the mean of each window; the padding does not count     x: [n,h,w,c] -> [n,p,q,c]"""

    def __init__(
        self, size: Pair, *, stride: Pair | None = None, padding: Padding = "valid"
    ) -> None:
        self.size, self.padding = pair(size), checked_padding(padding)
        self.stride = pair(size if stride is None else stride)

    def forward(self, x: Value) -> Value:
        around = pads(self.padding, x, self.size, self.stride)
        return ops.avg_pool2d(x, size=self.size, strides=self.stride, pads=around)


class GlobalAveragePool(Module):
    """y = the mean over height and width     x: [n,h,w,c] -> y: [n,c] (Lin et al. 2013)"""

    def forward(self, x: Value) -> Value:
        return ops.reduce_mean(x, axes=(1, 2))


class Flatten(Module):
    """y = the elements of each example in a row     x: [n,...] -> y: [n,m]"""

    def forward(self, x: Value) -> Value:
        m: Dim = 1
        for size in x.shape[1:]:
            m = m * size
        return ops.reshape(x, shape=(x.shape[0], m))
