"""Rewrite rules as text: a pattern of operators, and what takes its place.

In a pattern a lower-case name is any value, the same name twice is the same value, a name that
starts with `k` is any number that is known, and a number is that number (stretched or not). A
keyword is an attribute: a name takes whatever it is, anything else must be equal. Operands of
operators that commute match in both orders.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from types import CodeType
from typing import Any

import numpy as np

from ir.dtype import DType
from ir.graph import Constant, Node, Value
from ir.op import OPS

FLOATS = frozenset((DType.f16, DType.f32, DType.f64))
SIGNED = FLOATS | {DType.i8, DType.i16, DType.i32, DType.i64}
NUMBERS = SIGNED | {DType.u8}
ANY = NUMBERS | {DType.bool}
COMMUTE = ("add", "mul", "maximum", "minimum")
_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul"}
Make = Callable[[str, Sequence[Value | None], dict[str, Any]], Value]


@dataclass(frozen=True)
class Rule:
    """`pattern` becomes `replacement`, where `when` holds (a Python expression of what was bound).

    `exact`: the reference kernels give the same bits before and after; other rules change the
    rounding. `dtypes`: of results for which the rule holds; those of integers wrap around, and
    division leaves the fraction out. `once`: only where the pattern's inner results have no other
    reader, whom the rule would make compute them again. `samples`: shapes by variable, and
    attributes by name, for tests that try the rule on random tensors; (3, 4) where nothing is said.
    `low`: the smallest element.
    """

    pattern: str
    replacement: str
    when: str = "True"
    dtypes: frozenset[DType] = FLOATS
    exact: bool = True
    once: bool = False
    samples: Mapping[str, Any] = field(default_factory=dict)
    low: float = -2.0

    def __str__(self) -> str:
        condition = "" if self.when == "True" else f" where {self.when}"
        return f"{self.pattern} -> {self.replacement}{condition}"

    @cached_property
    def root(self) -> Term:
        return term(self.pattern)

    @cached_property
    def result(self) -> Term:
        return term(self.replacement)

    def apply(self, node: Node, inputs: Sequence[Value | None], reads: Reads, make: Make) -> Any:
        """The value that takes the place of the node's result, or None: no match."""
        old = node.results[0]
        if old.dtype not in self.dtypes:
            return None
        for bound in _match_node(self.root, node, inputs, {}, reads if self.once else None):
            if self.when != "True" and not _value(self._condition, bound):
                continue
            new = build(self.result, bound, make, old.dtype)
            if (new.shape, new.dtype) == (old.shape, old.dtype):
                return new
        return None

    @cached_property
    def _condition(self) -> CodeType:
        return compile(self.when, "<rule>", "eval")


Reads = Callable[[Value], int]  # how many nodes read a value


@dataclass(frozen=True)
class Term:
    """A part of a pattern: an operator on terms, a variable, a number."""

    kind: str  # "op", "value", "known" or "number"
    name: str = ""
    number: float = 0.0
    args: tuple[Term, ...] = ()
    attrs: tuple[tuple[str, str, CodeType], ...] = ()  # name, its expression as text and code

    def variables(self) -> Iterator[Term]:
        """The values and known numbers in it."""
        if self.kind in ("value", "known"):
            yield self
        for a in self.args:
            yield from a.variables()


def term(text: str) -> Term:
    """The term that `text` spells. Raises ValueError for text that spells none."""
    return _term(ast.parse(text, mode="eval").body)


def build(t: Term, bound: Mapping[str, Any], make: Make, dtype: Any) -> Value:
    """The term's value, its variables being what was bound; new nodes come from `make`."""
    if t.kind == "number":
        return Constant(t.number, dtype=dtype)
    if t.kind == "known":
        return Constant(bound[t.name], dtype=dtype)
    if t.kind == "value":
        v: Value = bound[t.name]
        return v
    inputs = [build(a, bound, make, dtype) for a in t.args]
    return make(t.name, inputs, {name: _value(code, bound) for name, _, code in t.attrs})


def number_under(v: Value | None) -> Value | None:
    """The scalar whose copies `v` holds, if that is all it holds."""
    while v is not None and v.shape != ():
        if isinstance(v, Constant) and v.data.size == 1:  # one that was folded with its units
            return Constant(v.data.reshape(()))
        if v.node is None or v.node.op.name not in ("broadcast_to", "reshape"):
            return None
        v = v.node.inputs[0]
    return v


def _term(node: ast.expr) -> Term:
    match node:
        case ast.Name(id=name):
            return Term("known" if name.startswith("k") else "value", name)
        case ast.Constant(value=float() | int() as number):
            return Term("number", number=float(number))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float() | int() as number)):
            return Term("number", number=-float(number))
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return Term("op", "neg", args=(_term(x),))
        case ast.BinOp(left=a, op=operator, right=b) if type(operator) in _BINARY:
            return Term("op", _BINARY[type(operator)], args=(_term(a), _term(b)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in OPS:
            return Term("op", name, args=tuple(map(_term, args)), attrs=tuple(_attrs(keywords)))
    raise ValueError(f"{ast.unparse(node)}: no term of a rule")


def _attrs(keywords: Sequence[ast.keyword]) -> Iterator[tuple[str, str, CodeType]]:
    for k in keywords:
        yield str(k.arg), ast.unparse(k.value), compile(ast.Expression(k.value), "<rule>", "eval")


Bound = dict[str, Any]


def _match_node(
    t: Term, node: Node, inputs: Sequence[Value | None], bound: Bound, reads: Reads | None
) -> Iterator[Bound]:
    """Every way in which an operator's term matches a node."""
    if node.op.name != t.name or len(node.results) != 1 or len(inputs) < len(t.args):
        return
    if any(v is not None for v in inputs[len(t.args) :]):
        return
    here = _match_attrs(t, node, bound)
    if here is None:
        return
    given = inputs[: len(t.args)]
    for order in permutations(given) if t.name in COMMUTE else (given,):
        yield from _match_all(t.args, order, here, reads)


def _match_attrs(t: Term, node: Node, bound: Bound) -> Bound | None:
    for name, text, code in t.attrs:
        have = node.attrs[name]
        if text.isidentifier() and text not in ("True", "False"):
            if text in bound and bound[text] != have:
                return None
            bound = {**bound, text: have}
        elif _value(code, bound) != have:
            return None
    return bound


def _match_all(
    terms: Sequence[Term], values: Sequence[Value | None], bound: Bound, reads: Reads | None
) -> Iterator[Bound]:
    if not terms:
        yield bound
        return
    for found in _match_value(terms[0], values[0], bound, reads):
        yield from _match_all(terms[1:], values[1:], found, reads)


def _match_value(t: Term, v: Value | None, bound: Bound, reads: Reads | None) -> Iterator[Bound]:
    if v is None:
        return
    if t.kind == "value":
        if bound.get(t.name, v) is v:
            yield {**bound, t.name: v}
    elif t.kind == "op":
        if v.node is not None and (reads is None or reads(v) <= 1):
            yield from _match_node(t, v.node, v.node.inputs, bound, reads)
    elif isinstance(n := number_under(v), Constant):
        number = n.data.item()
        if t.kind == "known" and bound.get(t.name, number) == number:
            yield {**bound, t.name: number}
        elif t.kind == "number" and number == t.number and _same_sign(number, t.number):
            yield bound


def _same_sign(a: float, b: float) -> bool:
    return bool(np.signbit(a) == np.signbit(b))


def _value(code: CodeType, bound: Mapping[str, Any]) -> Any:
    return eval(code, {**_NAMES, **bound})


def _is_power_of_two(k: float, dtype: DType) -> bool:
    """Whether dividing by k and multiplying by 1 / k round alike: both numbers are exact."""
    in_range = 2**-60 < abs(k) < 2**60 and np.isfinite(dtype.numpy.type(1 / k))
    return bool(in_range and abs(np.frexp(k)[0]) == 0.5)


def _with_units(shape: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    return tuple(1 if i in axes else d for i, d in enumerate(shape))


def _without(shape: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _swaps_last_two(perm: Sequence[int]) -> bool:
    n = len(perm)
    return n >= 2 and tuple(perm) == (*range(n - 2), n - 1, n - 2)


_NAMES = {
    "is_power_of_two": _is_power_of_two,
    "with_units": _with_units,
    "without": _without,
    "swaps_last_two": _swaps_last_two,
}  # what conditions and attributes of rules may call
