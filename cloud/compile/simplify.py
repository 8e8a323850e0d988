"""Algebraic simplification: fewer nodes for the same numbers. The algebra itself is in `rules`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from cloud.compile.fold import rounds_alike
from cloud.compile.pattern import Rule, number_under
from cloud.compile.rules import RULES
from ir.graph import Constant, Graph, Node, Value
from ir.op import OPS
from ir.ops.custom import forget_gradient
from ir.passes.rewrite import everywhere, rewrite, uses

Inputs = Sequence[Value | None]


def simplify(graph: Graph, *, exact: bool = True) -> Graph:
    """The graph after every rule of `rules.RULES` that fits, its sub-graphs too.

    Numbers are computed and stretched numbers stay numbers. `exact`: only rules that leave the same
    bits; without it also those that change the rounding.
    """

    def simplified(g: Graph) -> Graph:
        g = rewrite(g, forget_gradient)
        return rewrite(g, _Simplifier(g, exact))

    return everywhere(simplified)(graph)


class _Simplifier:
    """The rule of one walk; knows how often each value is read."""

    def __init__(self, graph: Graph, exact: bool) -> None:
        self.rules = _rules(exact)
        self.on_numbers = _ON_NUMBERS if exact else (_any_number, *_ON_NUMBERS)
        self.reads = uses(graph)

    def __call__(self, node: Node, inputs: Inputs) -> Value | None:
        new = self.simplified(node, inputs)
        if new is not None:
            self.reads[new] += self.reads[node.results[0]]
        return new

    def simplified(self, node: Node, inputs: Inputs) -> Value | None:
        """What takes the place of the node, simplified in turn; None: the node itself."""
        for change in self.on_numbers:
            if (new := change(node, inputs)) is not None:
                return self.again(new)
        alone = len(inputs) == 1 and self.reads[inputs[0]] <= 1  # else the stretched one stays too
        if alone and (new := _of_stretched(node, inputs)) is not None:
            return self.again(new)
        for rule in self.rules.get(node.op.name, ()):
            if (new := rule.apply(node, inputs, self.reads.__getitem__, self.make)) is not None:
                return self.again(new)
        return None

    def again(self, v: Value) -> Value:
        if v.node is None or v in self.reads:  # one that the walk has seen
            return v
        return self.simplified(v.node, v.node.inputs) or v

    def make(self, name: str, inputs: Inputs, attrs: dict[str, Any]) -> Value:
        return self.again(OPS[name].node(inputs, attrs).results[0])


@cache
def _rules(exact: bool) -> dict[str, list[Rule]]:
    """The rules by the operator at the root of their patterns."""
    found: dict[str, list[Rule]] = defaultdict(list)
    for rule in RULES:
        if rule.exact or not exact:
            found[rule.root.name].append(rule)
    return dict(found)


def _number(node: Node, inputs: Inputs) -> Value | None:
    """An operation on numbers alone, computed, where every kernel rounds it alike."""
    return _any_number(node, inputs) if rounds_alike(node.op) else None


def _any_number(node: Node, inputs: Inputs) -> Value | None:
    """An operation on numbers alone, computed."""
    if len(node.results) > 1 or node.results[0].shape != () or node.op.updates:
        return None
    arrays = [v.data for v in inputs if isinstance(v, Constant)]
    if not arrays or len(arrays) != len(inputs) or any(a.ndim for a in arrays):
        return None
    if node.op.family == "control":
        return None
    with np.errstate(all="ignore"):  # infinities and NaN are results like any other
        y = node.op.ref(*arrays, **node.attrs)
    return Constant(np.asarray(y, node.results[0].dtype.numpy))


def _stretched_number(node: Node, inputs: Inputs) -> Value | None:
    """broadcast_to of a number that was reshaped or stretched before -> of the number itself"""
    if node.op.name not in ("broadcast_to", "reshape"):
        return None
    source = number_under(inputs[0])
    if source is None or source is inputs[0] or not node.results[0].shape:
        return None
    return _call("broadcast_to", source, shape=node.results[0].shape)


def _times_stretched(node: Node, inputs: Inputs) -> Value | None:
    """x op broadcast_to(number) -> x op number, where x has the shape of the result"""
    if node.op.name not in ("add", "sub", "mul", "div", "maximum", "minimum"):
        return None
    a, b = inputs
    assert a is not None
    assert b is not None
    shape = node.results[0].shape
    if (n := number_under(b)) is not None and n is not b and a.shape == shape:
        return _call(node.op.name, a, n)
    if (n := number_under(a)) is not None and n is not a and b.shape == shape:
        return _call(node.op.name, n, b)
    return None


def _of_stretched(node: Node, inputs: Inputs) -> Value | None:
    """-broadcast_to(x) -> broadcast_to(-x): numbers are worked on before they grow"""
    if node.op.family != "elementwise" or node.op.view:
        return None
    n = number_under(inputs[0])
    if n is None or n is inputs[0]:
        return None
    return _call("broadcast_to", _call(node.op.name, n, **node.attrs), shape=node.results[0].shape)


_ON_NUMBERS: tuple[Callable[[Node, Inputs], Value | None], ...] = (
    _number,
    _stretched_number,
    _times_stretched,
)


def _call(name: str, *inputs: Value | None, **attrs: object) -> Value:
    y: Value = OPS[name].node(inputs, attrs).results[0]
    return y
