"""How many multiply-adds a node takes, by its operator and shapes: what speed is measured by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

Shape = tuple[int, ...]


def multiply_adds(op: str, inputs: Sequence[Shape], results: Sequence[Shape]) -> int:
    """Of a product, a convolution, attention or a recurrent layer, zeros of padding among them; 0
    of others, which memory bounds, most of them. Inputs that are left out have empty shapes."""
    count = _COUNTS.get(op.removeprefix("quantized_").removeprefix("compressed_"))
    return count(inputs, results[0]) if count is not None else 0


_COUNTS: dict[str, Callable[[Sequence[Shape], Shape], int]] = {
    # x: [n,h,w,c], w: [k,r,s,c/groups] -> y: [n,p,q,k]
    "conv2d": lambda inputs, y: prod(y) * prod(inputs[1][1:]),
    # x, r: [n,p,q,k], w -> y
    "conv2d_add": lambda inputs, y: prod(y) * prod(inputs[2][1:]),
    # g: [n,p,q,k], w -> dx
    "conv2d_dx": lambda inputs, dx: prod(inputs[0]) * prod(inputs[1][1:]),
    # x, g: [n,p,q,k] -> dw: [k,r,s,c/groups]
    "conv2d_dw": lambda inputs, dw: prod(inputs[1]) * prod(dw[1:]),
    # x: [n,h,w,c], w: [r,s,c] -> y: [n,p,q,c]
    "depthwise_conv2d": lambda inputs, y: prod(y) * prod(inputs[1][:2]),
    "depthwise_conv2d_dx": lambda inputs, dx: prod(inputs[0]) * prod(inputs[1][:2]),
    "depthwise_conv2d_dw": lambda inputs, dw: prod(inputs[1]) * prod(dw[:2]),
    # x: [...,in], w: [out,in] -> y: [...,out]
    "linear": lambda inputs, y: prod(y) * inputs[0][-1],
    "linear_add": lambda inputs, y: prod(y) * inputs[0][-1],
    # a: [...,m,k] or its transpose, b -> y: [...,m,n]
    "matmul": lambda inputs, y: prod(y) * (prod(inputs[0][-2:]) // max(y[-2], 1)),
    # x: [n,t,gates*h], w: [gates*h,h]
    "lstm": lambda inputs, hidden: prod(hidden[:2]) * prod(inputs[1]),
    "gru": lambda inputs, hidden: prod(hidden[:2]) * prod(inputs[1]),
    # q: [...,t,d], k: [...,s,d], v: [...,s,e] -> y: [...,t,e]
    "attention": lambda inputs, y: prod(y[:-1]) * inputs[1][-2] * (inputs[0][-1] + y[-1]),
}
