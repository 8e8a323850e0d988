"""Free dimensions: small symbolic integers that shape rules compute with as if they were ints.

A size is an `int` or an `Expr`. An `Expr` is kept in one normal form, a sum of products of atoms
(`batch * seq + 3`), so that two sizes that are always equal compare equal. Atoms are symbols
(named free dimensions, at least 1) and floor divisions, minima and maxima that do not simplify.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from ir.errors import ShapeError

MAX_TERMS = 256  # of one size: products of sums grow fast, and nobody means such a size
Dim = Union[int, "Expr"]
Monomial = tuple["Atom", ...]  # a product of atoms, sorted by their text


@dataclass(frozen=True)
class Atom:
    """A symbol (`op` is "sym", `args` its name) or an operation on two sizes."""

    op: str  # sym, floordiv, min, max
    args: tuple[str | Dim, ...]

    def __str__(self) -> str:
        if self.op == "sym":
            return str(self.args[0])
        a, b = self.args
        if self.op == "floordiv":  # in parentheses of its own, for it may stand behind a factor
            return f"({_operand(a)}//{_operand(b)})"
        return f"{self.op}({a}, {b})"


class Expr:
    """An immutable symbolic integer. Build one with `symbol(name)` and arithmetic.

    Sums and products raise ShapeError where they would have more than MAX_TERMS terms.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = {m: c for m, c in sorted(terms.items(), key=_text) if c}

    def __add__(self, other: Dim) -> Dim:
        out = dict(self.terms)
        for m, c in _terms(other).items():
            out[m] = out.get(m, 0) + c
        if len(out) > MAX_TERMS:
            raise ShapeError(f"a sum of {len(out)} terms, want a size of at most {MAX_TERMS}")
        return _dim(out)

    def __mul__(self, other: Dim) -> Dim:
        factor = _terms(other)
        if (count := len(self.terms) * len(factor)) > MAX_TERMS:
            raise ShapeError(f"a product of {count} terms, want a size of at most {MAX_TERMS}")
        out: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in factor.items():
                key = tuple(sorted(m + n, key=str))
                out[key] = out.get(key, 0) + c * d
        return _dim(out)

    def __floordiv__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            if other < 1:
                raise ValueError(f"{self} // {other}: want a divisor of at least 1")
            # Whole multiples leave the division, so that equal sizes get one form.
            quotient = _dim({m: c // other for m, c in self.terms.items()})
            rest = _dim({m: c % other for m, c in self.terms.items()})
            if isinstance(rest, int):
                return quotient
            return quotient + Expr({(Atom("floordiv", (rest, other)),): 1})
        if (exact := _divide(self, other)) is not None:
            return exact
        return Expr({(Atom("floordiv", (self, other)),): 1})

    def __rfloordiv__(self, other: int) -> Dim:
        return Expr({(Atom("floordiv", (other, self)),): 1})

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: int) -> Dim:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(tuple(self.terms.items()))

    def __str__(self) -> str:
        parts = []
        for m, c in self.terms.items():
            factors = ([str(c)] if c != 1 or not m else []) + [str(a) for a in m]
            parts.append("*".join(factors))
        return " + ".join(parts).replace("+ -", "- ")

    __repr__ = __str__


def symbol(name: str) -> Expr:
    """The free dimension `name`, an integer of at least 1 that is chosen when the model runs."""
    if not name.isidentifier():
        raise ValueError(f"free dimension {name!r}: want an identifier")
    return Expr({(Atom("sym", (name,)),): 1})


def minimum(a: Dim, b: Dim) -> Dim:
    return _choose("min", a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    return _choose("max", a, b)


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The size as a number. Raises KeyError for a symbol that has no value."""
    if isinstance(dim, int):
        return dim
    total = 0
    for m, c in dim.terms.items():
        for atom in m:
            c *= _evaluate_atom(atom, values)
        total += c
    return total


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """The size with some symbols replaced by other sizes."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for m, c in dim.terms.items():
        product: Dim = c
        for atom in m:
            product = product * _substitute_atom(atom, values)
        total = total + product
    return total


def symbols(dim: Dim) -> set[str]:
    """The names of the symbols in a size."""
    if isinstance(dim, int):
        return set()
    found: set[str] = set()
    for atom in (a for m in dim.terms for a in m):
        if atom.op == "sym":
            found.add(str(atom.args[0]))
        else:
            found.update(*(symbols(a) for a in atom.args if not isinstance(a, str)))
    return found


def postfix(dim: Expr) -> list[int | str]:
    """The size as tokens for a stack machine: numbers, symbol names and + * // min max."""
    out: list[int | str] = []
    for i, (m, c) in enumerate(dim.terms.items()):
        pushed = 0
        if c != 1 or not m:
            out.append(c)
            pushed = 1
        for atom in m:
            if atom.op == "sym":
                out.append(f"${atom.args[0]}")
            else:
                for arg in atom.args:
                    out += [arg] if isinstance(arg, int) else postfix(arg)  # type: ignore[arg-type]
                out.append("//" if atom.op == "floordiv" else atom.op)
            pushed += 1
            if pushed > 1:
                out.append("*")
        if i:
            out.append("+")
    return out


def parse(text: str) -> Dim:
    """The inverse of `str`: a size from its text. Raises ValueError."""
    import ast

    def walk(node: ast.expr) -> Dim:
        match node:
            case ast.Constant(value=int(v)) if not isinstance(v, bool):
                return v
            case ast.Name(id=name):
                return symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -walk(x)
            case ast.BinOp(left=a, op=ast.Add(), right=b):
                return walk(a) + walk(b)
            case ast.BinOp(left=a, op=ast.Sub(), right=b):
                return walk(a) - walk(b)
            case ast.BinOp(left=a, op=ast.Mult(), right=b):
                return walk(a) * walk(b)
            case ast.BinOp(left=a, op=ast.FloorDiv(), right=b):
                return walk(a) // walk(b)
            case ast.Call(func=ast.Name(id="min"), args=[a, b]):
                return minimum(walk(a), walk(b))
            case ast.Call(func=ast.Name(id="max"), args=[a, b]):
                return maximum(walk(a), walk(b))
        raise ValueError(f"size {text!r}: want integers, names, + - * // min max")

    try:
        return walk(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"size {text!r}: want integers, names, + - * // min max") from None


def _operand(dim: object) -> str:
    text = str(dim)
    return text if text.isalnum() or text.isidentifier() else f"({text})"


def _text(item: tuple[Monomial, int]) -> tuple[int, str]:
    return (-len(item[0]), "*".join(str(a) for a in item[0]))


def _terms(dim: Dim) -> Mapping[Monomial, int]:
    return dim.terms if isinstance(dim, Expr) else {(): int(dim)}


def _dim(terms: Mapping[Monomial, int]) -> Dim:
    """An int where nothing symbolic is left."""
    expr = Expr(terms)
    if all(m == () for m in expr.terms):
        return expr.terms.get((), 0)
    return expr


def _divide(a: Expr, b: Expr) -> Dim | None:
    """a / b where b is one product that divides every term of a, else None."""
    if len(b.terms) != 1:
        return None
    ((factors, scale),) = b.terms.items()
    out: dict[Monomial, int] = {}
    for m, c in a.terms.items():
        rest = list(m)
        for atom in factors:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % scale:
            return None
        out[tuple(rest)] = c // scale
    return _dim(out)


def _choose(op: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if op == "min" else max(a, b)
    if a == b:
        return a
    return Expr({(Atom(op, (a, b)),): 1})


def _evaluate_atom(atom: Atom, values: Mapping[str, int]) -> int:
    if atom.op == "sym":
        return values[str(atom.args[0])]
    a, b = (evaluate(x, values) for x in atom.args if not isinstance(x, str))
    if atom.op == "floordiv":
        return a // b
    return min(a, b) if atom.op == "min" else max(a, b)


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if atom.op == "sym":
        name = str(atom.args[0])
        return values.get(name, symbol(name))
    a, b = (substitute(x, values) for x in atom.args if not isinstance(x, str))
    return a // b if atom.op == "floordiv" else _choose(atom.op, a, b)
