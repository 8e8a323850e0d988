"""Einsum: two operands at a time, as a product of matrices in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, as_value, compute, iota, product
from converter.onnx.rules.common import Reader, rule
from ir.graph import Value
from ir.ops.compare import equal, where
from ir.ops.elementwise import mul
from ir.ops.linalg import matmul
from ir.ops.reduce import reduce_sum
from ir.ops.shaping import reshape, transpose
from ir.symbol import Dim


@rule("Einsum")
def einsum(_: Reader, attrs: dict[str, Any], *items: Item) -> Item:
    values = [as_value(i) for i in items]
    terms, wanted = _terms(attrs["equation"].replace(" ", ""), values)
    values = [_diagonal(v, t) for v, t in zip(values, terms, strict=True)]
    terms = ["".join(dict.fromkeys(t)) for t in terms]
    value, term = values[0], terms[0]
    for i, (v, t) in enumerate(zip(values[1:], terms[1:], strict=True), start=1):
        later = set(wanted).union(*terms[i + 1 :])
        value, term = _pair(value, term, v, t, later)
    value, term = _summed(value, term, set(wanted))
    if missing := set(wanted) - set(term):
        raise ConvertError(f"equation {attrs['equation']!r}: nothing gives {sorted(missing)}")
    return _arranged(value, term, wanted)


def _terms(equation: str, values: Sequence[Value]) -> tuple[list[str], str]:
    """The indices of each operand and of the result; those of an ellipsis are digits."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(values):
        raise ConvertError(f"equation {equation!r} for {len(values)} inputs")
    longest = max(
        (v.rank - len(p.replace("...", "")) for p, v in zip(parts, values, strict=True)), default=0
    )
    rest = "0123456789"[: longest if "..." in left else 0]
    terms = []
    for part, v in zip(parts, values, strict=True):
        own = v.rank - len(part.replace("...", ""))
        term = part.replace("...", rest[len(rest) - own :] if own else "")
        if len(term) != v.rank:
            raise ConvertError(f"equation {equation!r}: {part!r} for an input of rank {v.rank}")
        terms.append(term)
    if arrow:
        return terms, right.replace("...", rest)
    counts = Counter("".join(parts).replace(".", ""))
    return terms, rest + "".join(sorted(c for c, n in counts.items() if n == 1))


def _diagonal(v: Value, term: str) -> Value:
    """v with each repeated index once: off the diagonal is 0, in a sum over the later one."""
    for letter, count in Counter(term).items():
        for _ in range(count - 1):
            first, last = term.index(letter), term.rindex(letter)
            n = v.shape[first]
            steps = as_value(iota(n))
            along: list[Dim] = [1] * v.rank
            along[first] = n
            across: list[Dim] = [1] * v.rank
            across[last] = n
            same = equal(reshape(steps, shape=tuple(along)), reshape(steps, shape=tuple(across)))
            v = compute(where, same, v, np.zeros((), v.dtype.numpy))
            v = compute(reduce_sum, v, axes=(last,))
            term = term[:last] + term[last + 1 :]
    return v


def _summed(v: Value, term: str, kept: set[str]) -> tuple[Value, str]:
    axes = tuple(i for i, c in enumerate(term) if c not in kept)
    if not axes:
        return v, term
    return compute(reduce_sum, v, axes=axes), "".join(c for c in term if c in kept)


def _pair(a: Value, ta: str, b: Value, tb: str, later: set[str]) -> tuple[Value, str]:
    """The product of two operands, summed over the indices that nothing later has."""
    a, ta = _summed(a, ta, later | set(tb))
    b, tb = _summed(b, tb, later | set(ta))
    batch = [c for c in ta if c in tb and c in later]
    inner = [c for c in ta if c in tb and c not in later]
    rows, columns = [c for c in ta if c not in tb], [c for c in tb if c not in ta]
    sizes = {c: d for t, v in ((ta, a), (tb, b)) for c, d in zip(t, v.shape, strict=True) if d != 1}
    if not inner:
        every = [*batch, *rows, *columns]
        parts = (_stretched(v, t, every) for v, t in ((a, ta), (b, tb)))
        return compute(mul, *parts), "".join(every)
    lengths = [[sizes.get(c, 1) for c in group] for group in (batch, rows, columns, inner)]
    lead = lengths[0]
    x = _matrix(a, ta, batch, rows, inner, sizes)
    y = _matrix(b, tb, batch, columns, inner, sizes)
    z = compute(matmul, x, y, transpose_b=True)
    shape = (*lead, *lengths[1], *lengths[2])
    return reshape(z, shape=shape), "".join([*batch, *rows, *columns])


def _matrix(
    v: Value, term: str, batch: list[str], own: list[str], inner: list[str], sizes: dict[str, Any]
) -> Value:
    """[*batch, product of own, product of inner]"""
    v = _arranged(v, term, "".join([*batch, *own, *inner]))
    lead = v.shape[: len(batch)]
    return reshape(  # type: ignore[no-any-return]
        v,
        shape=(
            *lead,
            product(sizes.get(c, 1) for c in own),
            product(sizes.get(c, 1) for c in inner),
        ),
    )


def _stretched(v: Value, term: str, every: list[str]) -> Value:
    """v with an axis of 1 for each index that it lacks."""
    own = [c for c in every if c in term]
    sizes = dict(zip(term, v.shape, strict=True))
    v = _arranged(v, term, "".join(own))
    return reshape(v, shape=tuple(sizes.get(c, 1) for c in every))  # type: ignore[no-any-return]


def _arranged(v: Value, term: str, wanted: str) -> Value:
    perm = tuple(map(term.index, wanted))
    return v if perm == tuple(range(v.rank)) else transpose(v, perm=perm)  # type: ignore[no-any-return]
