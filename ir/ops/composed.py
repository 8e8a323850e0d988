"""The gradient of an operator from a formula for it that is made of other operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ir.graph import Value, order, substitute
from ir.op import NoGrad


def composed_grad(
    formula: Callable[..., Sequence[Value]],
    inputs: Sequence[Value | None],
    seeds: Sequence[Value | None],
) -> list[Value | None]:
    """The gradient of the sum over i of <formula(*inputs)[i], seeds[i]> for each input.

    An operator whose backward pass has a fast kernel of its own may give the same thing here once
    more as a formula, and so be differentiable to any order without further kernels.
    """
    leaves = [None if v is None else Value(v.shape, v.dtype) for v in inputs]
    bar: dict[Value, Value] = {}
    results = formula(*leaves)
    for y, seed in zip(results, seeds, strict=True):
        if seed is not None:
            _add(bar, y, seed)
    active = {v for v in leaves if v is not None and v.dtype.is_float}
    nodes = order(results)
    for node in nodes:
        if active.intersection(node.present_inputs):
            active.update(v for v in node.results if v.dtype.is_float)
    for node in reversed(nodes):
        g = [bar.get(y) for y in node.results]
        if isinstance(node.op.grad, NoGrad) or not active.intersection(node.results):
            continue
        if all(gy is None for gy in g):
            continue
        one = len(g) == 1
        found = node.op.grad(
            g[0] if one else tuple(g),
            node.results[0] if one else node.results,
            *node.inputs,
            **node.attrs,
        )
        for x, gx in zip(node.inputs, found, strict=True):
            if x in active and x is not None and gx is not None:
                _add(bar, x, gx)
    given = {a: v for a, v in zip(leaves, inputs, strict=True) if a is not None and v is not None}
    reached = [leaf for leaf in leaves if leaf is not None and leaf in bar]
    real = iter(substitute([bar[leaf] for leaf in reached], given))
    return [next(real) if leaf in bar else None for leaf in leaves]


def _add(bar: dict[Value, Value], x: Value, g: Value) -> None:
    bar[x] = bar[x] + g if x in bar else g
