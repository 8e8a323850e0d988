"""Scalar expressions of elements of tensors, by the operators of the table; their derivatives.

An expression is what a formula computes at one point of its domain. Its leaves are numbers, affine
forms of the loops, and elements of tensors at affine indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ir.dtype import DType
from ir.errors import AttrError
from ir.formula.domain import Row, Rows
from ir.graph import Constant, Value
from ir.op import OPS, NoGrad
from ir.ops.fused import operand_types


@dataclass(frozen=True)
class Number:
    value: float
    is_truth: bool = False


@dataclass(frozen=True)
class Index:
    """An affine form of the loops, as a number."""

    row: Row
    is_truth = False


@dataclass(frozen=True)
class Load:
    """The element of input `tensor` at an index for each of its axes."""

    tensor: int
    rows: Rows
    is_truth = False


@dataclass(frozen=True, eq=False)
class Apply:
    """An operator on expressions; made by `apply`, which simplifies."""

    op: str
    args: tuple[Expression, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    is_truth: bool = False
    key: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", hash((self.op, self.args, repr(self.attrs))))

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Apply)
            and self.key == other.key
            and (self.op, repr(self.attrs)) == (other.op, repr(other.attrs))
            and self.args == other.args
        )


Expression = Number | Index | Load | Apply
ZERO, ONE = Number(0.0), Number(1.0)


def apply(op: str, *args: Expression, **attrs: Any) -> Expression:
    """The operator on expressions, simplified: a factor of 0 leaves nothing."""
    types = operand_types(OPS[op]) if op in OPS else None
    if types is None:
        raise AttrError(f"formula: {op} is no operator of one element; want one of the table")
    if len(args) != len(types[0]):
        raise AttrError(f"formula: {op} of {len(args)} values, want {len(types[0])}")
    for i, (a, t) in enumerate(zip(args, types[0], strict=True)):
        if a.is_truth != (t is DType.bool):
            wanted = "a truth value" if t is DType.bool else "a number"
            raise AttrError(f"formula: operand {i} of {op}, want {wanted}")
    attrs = OPS[op].checked_attrs(attrs)
    if op == "cast":
        attrs = {}
    if all(isinstance(a, Number) for a in args):
        return _folded(op, args, attrs, types[1])
    short = _SHORTER[op](*args) if op in _SHORTER else None
    if short is not None:
        return short
    return Apply(op, args, tuple(attrs.items()), types[1] is DType.bool)


def leaves(e: Expression) -> list[Expression]:
    """The leaves, each once."""
    return [x for x in ordered(e) if not isinstance(x, Apply)]


def ordered(e: Expression) -> list[Expression]:
    """All that the expression is made of, each once, behind its own operands."""
    done: dict[Expression, None] = {}
    stack: list[tuple[Expression, bool]] = [(e, False)]
    while stack:
        x, ready = stack.pop()
        if x in done:
            continue
        if ready or not isinstance(x, Apply):
            done[x] = None
            continue
        stack.append((x, True))
        stack.extend((a, False) for a in reversed(x.args))
    return list(done)


def mapped(e: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with the parts for which `change` gives something replaced."""
    new: dict[Expression, Expression] = {}
    for x in ordered(e):
        found = change(x)
        if found is None:
            found = x
            if isinstance(x, Apply):
                args = tuple(new[a] for a in x.args)
                if any(a is not b for a, b in zip(args, x.args, strict=True)):
                    found = apply(x.op, *args, **dict(x.attrs))
        new[x] = found
    return new[e]


def with_rows(e: Expression, change: Callable[[Row], Row]) -> Expression:
    """The expression in other variables: `change` rewrites every affine form."""

    def leaf(x: Expression) -> Expression | None:
        if isinstance(x, Load):
            return Load(x.tensor, tuple(map(change, x.rows)))
        return Index(change(x.row)) if isinstance(x, Index) else None

    return mapped(e, leaf)


def derivatives(e: Expression) -> dict[Load, Expression]:
    """By each load that it depends on: the expression's derivative, by the operators' own rules."""
    bar: dict[Expression, Expression] = {e: ONE}
    found: dict[Load, Expression] = {}
    for x in reversed(ordered(e)):
        g = bar.get(x)
        if g is None or g == ZERO:
            continue
        if isinstance(x, Load):
            found[x] = g
        if not isinstance(x, Apply) or isinstance(OPS[x.op].grad, NoGrad):
            continue
        for a, rule in zip(x.args, _rules(x.op, x.attrs), strict=True):
            if rule is not None and isinstance(a, (Load, Apply)) and not a.is_truth:
                part = rule(g, x, x.args)
                bar[a] = apply("add", bar[a], part) if a in bar else part
    return found


def summands(e: Expression) -> list[Expression]:
    """Expressions whose sum it is, products and quotients multiplied out."""
    if not isinstance(e, Apply):
        return [e]
    match e.op, e.args:
        case "add", (a, b):
            return [*summands(a), *summands(b)]
        case "sub", (a, b):
            return [*summands(a), *(apply("neg", x) for x in summands(b))]
        case "neg", (a,):
            return [apply("neg", x) for x in summands(a)]
        case "mul", (a, b):
            return [apply("mul", x, y) for x in summands(a) for y in summands(b)]
        case "div", (a, b):
            return [apply("div", x, b) for x in summands(a)]
    return [e]


_Rule = Callable[[Expression, Expression, Sequence[Expression]], Expression]


def _rules(op: str, attrs: tuple[tuple[str, Any], ...]) -> Sequence[_Rule | None]:
    return _made_rules(op, repr(attrs), _Attrs(attrs))


class _Attrs(tuple[Any, ...]):
    """Attributes that a cache knows by their text, which stands beside them."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return True


@lru_cache(maxsize=256)
def _made_rules(op: str, _: str, attrs: _Attrs) -> Sequence[_Rule | None]:
    """For each operand: from the cotangent, the result and the operands to its cotangent."""
    types = operand_types(OPS[op])
    assert types is not None
    operands = [Value((), t) for t in types[0]]
    g, y = Value(()), Value((), types[1])
    found = OPS[op].grad(g, y, *operands, **dict(attrs))  # type: ignore[operator]

    def rule(end: Value) -> _Rule:
        def run(bar: Expression, result: Expression, args: Sequence[Expression]) -> Expression:
            known = {g: bar, y: result, **dict(zip(operands, args, strict=True))}
            return _expression(end, known)

        return run

    return [None if v is None else rule(v) for v in found]


def _expression(v: Value, known: dict[Value, Expression]) -> Expression:
    """The expression that a scalar of a small graph is."""
    if v not in known:
        if isinstance(v, Constant):
            known[v] = Number(float(v.data), v.dtype is DType.bool)
        else:
            assert v.node is not None
            args = [_expression(x, known) for x in v.node.present_inputs]
            known[v] = apply(v.node.op.name, *args, **v.node.attrs)
    return known[v]


def _folded(op: str, args: Sequence[Any], attrs: dict[str, Any], result: DType) -> Number:
    kinds = (np.bool_ if a.is_truth else np.float64 for a in args)
    arrays: list[Any] = [np.asarray(a.value, k) for a, k in zip(args, kinds, strict=True)]
    if op == "cast":
        return Number(args[0].value)
    with np.errstate(all="ignore"):
        return Number(float(OPS[op].ref(*arrays, **attrs)), result is DType.bool)


def _add(a: Expression, b: Expression) -> Expression | None:
    if ZERO in (a, b):
        return b if a == ZERO else a
    if isinstance(b, Apply) and b.op == "neg":
        return apply("sub", a, b.args[0])
    if isinstance(a, Apply) and a.op == "neg":
        return apply("sub", b, a.args[0])
    return None


def _sub(a: Expression, b: Expression) -> Expression | None:
    if b == ZERO:
        return a
    if a == ZERO:
        return apply("neg", b)
    if isinstance(b, Apply) and b.op == "neg":
        return apply("add", a, b.args[0])
    return None


def _mul(a: Expression, b: Expression) -> Expression | None:
    if ZERO in (a, b):
        return ZERO
    if ONE in (a, b):
        return b if a == ONE else a
    for x, other in ((a, b), (b, a)):
        if x == Number(-1.0):
            return apply("neg", other)
        if isinstance(x, Apply) and x.op == "neg":
            return apply("neg", apply("mul", x.args[0], other))
    if isinstance(b, Number):
        return apply("mul", b, a)  # numbers stand first
    is_scaled = isinstance(b, Apply) and b.op == "mul" and isinstance(b.args[0], Number)
    if isinstance(a, Number) and is_scaled:
        return apply("mul", Number(a.value * b.args[0].value), b.args[1])  # type: ignore[union-attr]
    return None


def _div(a: Expression, b: Expression) -> Expression | None:
    if a == ZERO or b == ONE:
        return a
    return None


def _neg(a: Expression) -> Expression | None:
    if isinstance(a, Apply) and a.op == "neg":
        return a.args[0]
    if isinstance(a, Apply) and a.op == "sub":
        return apply("sub", a.args[1], a.args[0])
    if isinstance(a, Apply) and a.op == "mul" and isinstance(a.args[0], Number):
        return apply("mul", Number(-a.args[0].value), a.args[1])
    return None


def _pow(a: Expression, b: Expression) -> Expression | None:
    if b in (ZERO, ONE):
        return ONE if b == ZERO else a
    return apply("mul", a, a) if b == Number(2.0) else None


def _where(c: Expression, a: Expression, b: Expression) -> Expression | None:
    if isinstance(c, Number):
        return a if c.value else b
    return a if a == b else None


def _logical_and(a: Expression, b: Expression) -> Expression | None:
    for x, other in ((a, b), (b, a)):
        if isinstance(x, Number):
            return other if x.value else x
    return None


def _logical_or(a: Expression, b: Expression) -> Expression | None:
    for x, other in ((a, b), (b, a)):
        if isinstance(x, Number):
            return x if x.value else other
    return None


_SHORTER: dict[str, Callable[..., Expression | None]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "neg": _neg, "pow": _pow, "where": _where,
    "logical_and": _logical_and, "logical_or": _logical_or,
}  # fmt: skip
