"""Expressions of formulas: from Python's syntax tree to operators on elements at affine indices."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from typing import Any, NoReturn

from cloud.formula.affine import Affine, Element, Within
from ir.dtype import DType
from ir.errors import AttrError, IrError
from ir.formula.expression import Number, apply
from ir.op import OPS
from ir.ops.fused import operand_types
from ir.symbol import Dim, Expr, maximum, minimum

BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
COMPARED = {
    ast.Eq: "equal", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater",
    ast.GtE: "greater_equal",
}  # fmt: skip


class FormulaError(IrError, ValueError):
    """A formula that is not understood, or that does not fit the tensors that it is given."""


class Expressions(ABC):
    """Reads expressions, given what names stand for.

    A value is a whole number that indices move (`Affine`), a truth value or a number.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.shapes: dict[str, tuple[Dim, ...]] = {}  # of inputs and results so far
        self.sizes: dict[str, Any] = {}  # attributes and sizes by name
        self.visible: dict[str, str] = {}  # indices by name: each has another one of its own
        self.elements: list[Element] = []  # all that the statement reads

    def wrong(self, node: Any, what: str) -> NoReturn:
        line = self.lines[node.lineno - 1].strip() if node.lineno <= len(self.lines) else ""
        raise FormulaError(f"formula, line {node.lineno}: {what}, in `{line}`")

    @abstractmethod
    def reduction(self, e: ast.Call) -> Any:
        """A reduction inside of an expression; None: the call is none."""

    @abstractmethod
    def gathered(self, table: str, axis: int, indices: Element) -> str:
        """The name of a tensor: a table's rows along an axis for all of some indices."""

    def value(self, e: ast.expr) -> Any:
        match e:
            case ast.Constant(value=bool(v)):
                return Number(float(v), True)
            case ast.Constant(value=int(v)):
                return Affine(v)
            case ast.Constant(value=float(v)):
                return Number(v)
            case ast.Name(id=name):
                return self.name(name, e)
            case ast.Attribute() | ast.Subscript(value=ast.Attribute()):
                return Affine(self.size(e))
            case ast.Subscript(value=ast.Name(id=name)):
                return self.element(name, e)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                v = self.value(x)
                return v * -1 if isinstance(v, Affine) else apply("neg", v)
            case ast.UnaryOp(op=ast.Not(), operand=x):
                return apply("logical_not", self.truth(x))
            case ast.BoolOp(op=kind, values=values):
                op = "logical_and" if isinstance(kind, ast.And) else "logical_or"
                found = self.truth(values[0])
                for v in values[1:]:
                    found = apply(op, found, self.truth(v))
                return found
            case ast.BinOp():
                return self.binary(e)
            case ast.Compare():
                return self.compare(e)
            case ast.IfExp(test=test, body=a, orelse=b):
                return self.chosen(test, a, b)
            case ast.Call(func=ast.Name()):
                return self.call(e)
        self.wrong(e, "want numbers, elements, operators and functions of one element")

    def name(self, name: str, e: ast.expr) -> Any:
        if name in self.visible:
            return Affine.of(0, {self.visible[name]: 1})
        if name in self.sizes:
            v = self.sizes[name]
            return Affine(v) if isinstance(v, (int, Expr)) else Number(float(v))
        self.wrong(e, f"{name} is no index of the result or of a reduction, and no size")

    def binary(self, e: ast.BinOp) -> Any:
        a, b = self.value(e.left), self.value(e.right)
        if isinstance(a, Affine) and isinstance(b, Affine):
            if isinstance(e.op, (ast.Add, ast.Sub)):
                return a + b if isinstance(e.op, ast.Add) else a - b
            if isinstance(e.op, ast.Mult) and not (a.factors and b.factors):
                if not a.factors and not b.factors:
                    return Affine(a.base * b.base)
                whole, moved = (a, b) if not a.factors else (b, a)
                if isinstance(whole.base, int):
                    return moved * whole.base
            if isinstance(e.op, ast.FloorDiv) and not (a.factors or b.factors):
                return Affine(self.divided(a.base, b.base, e))
        if type(e.op) not in BINARY:
            self.wrong(e, "want + - * / ** between numbers, and // between sizes")
        return apply(BINARY[type(e.op)], self.number(a, e.left), self.number(b, e.right))

    def divided(self, a: Dim, b: Dim, e: ast.expr) -> Dim:
        if not isinstance(b, Expr) and b < 1:
            self.wrong(e, f"a size divided by {b}, want 1 or more")
        return a // b

    def compare(self, e: ast.Compare) -> Any:
        sides = [self.value(x) for x in (e.left, *e.comparators)]
        found: Any = Number(1.0, True)
        for kind, a, b in zip(e.ops, sides, sides[1:], strict=False):
            found = apply("logical_and", found, self.compared(kind, a, b, e))
        return found

    def compared(self, kind: ast.cmpop, a: Any, b: Any, e: ast.Compare) -> Any:
        if isinstance(kind, ast.NotEq):
            return apply("logical_not", self.compared(ast.Eq(), a, b, e))
        if type(kind) not in COMPARED:
            self.wrong(e, "want one of == != < <= > >=")
        if not (isinstance(a, Affine) and isinstance(b, Affine)):
            return apply(COMPARED[type(kind)], self.number(a, e), self.number(b, e))
        less, more = (b, a) if isinstance(kind, (ast.Gt, ast.GtE)) else (a, b)
        strict = isinstance(kind, (ast.Lt, ast.Gt))
        rows = (more - less + Affine(-1),) if strict else (more - less,)
        return Within((*rows, less - more) if isinstance(kind, ast.Eq) else rows)

    def chosen(self, test: ast.expr, a: ast.expr, b: ast.expr) -> Any:
        sides = (self.number(self.value(x), x) for x in (a, b))
        return apply("where", self.truth(test), *sides)

    def call(self, e: ast.Call) -> Any:
        name = e.func.id  # type: ignore[attr-defined]
        found = self.reduction(e)
        if found is not None:
            return found
        if name == "where" and len(e.args) == 3:
            return self.chosen(*e.args)
        if name == "padded" and len(e.args) == 2:
            return self.padded(*e.args)
        if name in ("min", "max") and len(e.args) == 2:
            return Affine((minimum if name == "min" else maximum)(*map(self.size, e.args)))
        types = operand_types(OPS[name]) if name in OPS else None
        if types is None:
            self.wrong(e, f"no function {name}; want an operator of one element")
        if len(e.args) != len(types[0]):
            self.wrong(e, f"{name} of {len(e.args)} values, want {len(types[0])}")
        args = [
            self.truth(a) if t is DType.bool else self.number(self.value(a), a)
            for a, t in zip(e.args, types[0], strict=True)
        ]
        try:
            return apply(name, *args, **{str(k.arg): self.attribute(k.value) for k in e.keywords})
        except AttrError as error:
            self.wrong(e, str(error).removeprefix("formula: "))

    def attribute(self, e: ast.expr) -> Any:
        if isinstance(e, ast.Name) and e.id in self.sizes:
            return self.sizes[e.id]
        try:
            return ast.literal_eval(e)
        except ValueError:
            self.wrong(e, "want a plain value of an attribute")

    def padded(self, element: ast.expr, fill: ast.expr) -> Any:
        """The element where its index is inside of the tensor, else what fills."""
        x = self.value(element)
        if not isinstance(x, Element):
            self.wrong(element, "want padded(x[…], fill)")
        self.elements.remove(x)
        x = Element(x.tensor, x.index, is_padded=True)
        self.elements.append(x)
        return apply("where", Within((x,)), x, self.number(self.value(fill), fill))

    def element(self, name: str, e: ast.Subscript) -> Element:
        if name not in self.shapes:
            self.wrong(e, f"{name} is no tensor of the formula")
        index = [self.value(i) for i in items(e.slice)]
        if len(self.shapes[name]) != len(index):
            self.wrong(e, f"{len(index)} indices of {name}, want {len(self.shapes[name])}")
        for axis in reversed(range(len(index))):
            if isinstance(index[axis], Element):  # numbers of a tensor choose
                name = self.gathered(name, axis, index[axis])
                index[axis : axis + 1] = index[axis].index
        if not all(isinstance(a, Affine) for a in index):
            self.wrong(e, "want indices that are sums of indices times whole numbers")
        found = Element(name, tuple(index))
        self.elements.append(found)
        return found

    def affine(self, e: ast.expr) -> Affine:
        v = self.value(e)
        if not isinstance(v, Affine):
            self.wrong(e, "want an index that is a sum of indices times whole numbers")
        return v

    def truth(self, e: ast.expr) -> Any:
        v = self.value(e)
        if not getattr(v, "is_truth", False):
            self.wrong(e, "want a condition")
        return v

    def number(self, v: Any, e: ast.AST) -> Any:
        """The value as a number."""
        if getattr(v, "is_truth", False):
            self.wrong(e, "a condition, want a number; where(condition, 1, 0) is one")
        if isinstance(v, Affine) and not v.factors and isinstance(v.base, int):
            return Number(float(v.base))
        return v

    def size(self, e: ast.expr) -> Dim:
        """A size: numbers, attributes and x.shape[n], with + - * // min max."""
        match e:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape")):
                shape = self.shapes.get(name)
                at = self.attribute(e.slice)
                if shape is None or not isinstance(at, int) or not -len(shape) <= at < len(shape):
                    self.wrong(e, f"no size {at} of {name}")
                return shape[at]
            case ast.Attribute():
                self.wrong(e, "want x.shape[n]")
        v = self.value(e)
        if not isinstance(v, Affine) or v.factors:
            self.wrong(e, "want a size: numbers, attributes and x.shape[n]")
        return v.base


def is_call(e: ast.expr) -> bool:
    return isinstance(e, ast.Call) and isinstance(e.func, ast.Name)


def items(e: ast.expr) -> list[ast.expr]:
    """The parts of a tuple, or the one thing itself."""
    return list(e.elts) if isinstance(e, ast.Tuple) else [e]
