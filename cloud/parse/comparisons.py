"""Comparisons, chained ones too, and searches: of numbers, and of structures part by part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

from cloud.parse.calls import Calls
from cloud.parse.faults import refusing
from cloud.parse.functions import interpretable
from cloud.parse.structure import described, values_in
from ir.graph import Value, Weight

NUMBERS_HINT = "beside a value stand numbers, arrays and values; np.array makes one of a list"


class Comparisons(Calls):
    def expr_Compare(self, node: ast.Compare) -> Any:
        return self._compare(self.expr(node.left), list(node.ops), list(node.comparators), node)

    def _compare(self, a: Any, kinds: list[ast.cmpop], rest: list[ast.expr], node: ast.AST) -> Any:
        b = self.expr(rest[0])
        self.frames[-1].node = node
        test = self._compared(type(kinds[0]), a, b)
        if len(rest) == 1:
            return test
        if isinstance(test, Value):
            return self.both(test, lambda: self._compare(b, kinds[1:], rest[1:], node))
        return self._compare(b, kinds[1:], rest[1:], node) if test else test

    @refusing(NUMBERS_HINT)
    def _compared(self, kind: type, a: Any, b: Any) -> Any:
        if kind in (ast.In, ast.NotIn) and _is_search(a, b):
            return self._contained(a, b, kind is ast.NotIn)
        if kind in (ast.In, ast.NotIn) and isinstance(b, Iterator):
            self.move(b)
        method = getattr(type(a), _COMPARISON_METHODS.get(kind, ""), None)
        if interpretable(method):
            return self.call(method, (a, b), {})
        several = isinstance(a, (list, tuple, dict)) and isinstance(b, (list, tuple, dict))
        if several and kind not in _BY_IDENTITY and values_in([a, b]):
            return self._compared_parts(kind, a, b)
        return self.compare(kind, a, b)

    def _contained(self, x: Any, items: Any, negated: bool) -> Any:
        """x in (a, b): x == a or x == b"""
        found: Any = False
        if isinstance(items, Value) and items.rank:
            found = self.call(np.any, (self.compare(ast.Eq, x, items),), {})
        elif isinstance(items, (tuple, list, set, frozenset, range)):
            for item in items:
                found = self.either(found, lambda item=item: self._compared(ast.Eq, x, item))
        else:
            raise self.not_known(f"`in` of {described(items)}", "a tuple or list of numbers works")
        if isinstance(found, Value):
            return self.op("logical_not", found) if negated else found
        return found != negated

    def _compared_parts(self, kind: type, a: Any, b: Any) -> Any:
        """Whether structures with values in them are equal, part by part."""
        if kind not in (ast.Eq, ast.NotEq):
            raise self.not_known("an order of lists that data decide", "compare their items")
        same: Any = isinstance(a, dict) == isinstance(b, dict) and len(a) == len(b)
        if isinstance(a, dict):
            same = same and a.keys() == b.keys()
            pairs = [(a[k], b[k]) for k in a] if same else []
        else:
            same = same and isinstance(a, list) == isinstance(b, list)
            pairs = list(zip(a, b, strict=True)) if same else []
        for x, y in pairs:
            same = self.both(same, lambda x=x, y=y: self._compared(ast.Eq, x, y))
        if kind is ast.Eq:
            return same
        return self.op("logical_not", same) if isinstance(same, Value) else not same


def _is_search(x: Any, items: Any) -> bool:
    """Whether data decide if x is in items. Weights are what they are, whatever they hold."""
    held = [] if isinstance(items, dict) else [items]
    return any(not isinstance(v, Weight) for v in values_in([x, *held]))


_BY_IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_COMPARISON_METHODS = {
    ast.Eq: "__eq__",
    ast.NotEq: "__ne__",
    ast.Lt: "__lt__",
    ast.LtE: "__le__",
    ast.Gt: "__gt__",
    ast.GtE: "__ge__",
}
