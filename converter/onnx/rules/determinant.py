"""Determinants of small matrices, by minors."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from converter.errors import ConvertError
from converter.items import Item, as_value, static
from converter.onnx.rules.common import Reader, rule
from ir.graph import Value
from ir.op import OPS

MOST = 8  # rows; twice as many products a row more


@rule("Det")
def determinant(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    """[..., n, n] -> [...], expanded along rows from the last one up: the minors of the rows behind
    one, of all choices of columns, serve all of its elements."""
    v = as_value(x)
    n, columns = static(v.shape[-2:], "a matrix")
    if n != columns or not 1 <= n <= MOST:
        raise ConvertError(f"matrices of {n} x {columns}; want square ones of 1 to {MOST} rows")

    def element(row: int, column: int) -> Value:
        begin = (*(0,) * (v.rank - 2), row, column)
        end = (*v.shape[:-2], row + 1, column + 1)
        part = OPS["slice"](v, begin=begin, end=end, step=(1,) * v.rank)
        return OPS["reshape"](part, shape=v.shape[:-2])  # type: ignore[no-any-return]

    below = {(j,): element(n - 1, j) for j in range(n)}
    for row in range(n - 2, -1, -1):
        elements = [element(row, j) for j in range(n)]
        minors = below
        below = {}
        for chosen in combinations(range(n), n - row):
            total = elements[chosen[0]] * minors[chosen[1:]]
            for place, j in enumerate(chosen[1:], 1):
                term = elements[j] * minors[chosen[:place] + chosen[place + 1 :]]
                total = total - term if place % 2 else total + term
            below[chosen] = total
    return below[tuple(range(n))]
