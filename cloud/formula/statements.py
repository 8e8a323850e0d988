"""The language of formulas: text to statements, by Python's own grammar.

    y[i, j] = reduce_sum(k, a[i, k] * b[k, j])

A statement gives every element of a result, the last one the formula's. What is indexed and not
given by an earlier statement is an input. Indices run over the sizes that they meet, or over a
`range` that is given; `padded(x[…], 0)` and `where` stand for what lies beyond an edge.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cloud.formula.affine import Affine, Element, Gathered, Statement, Term, affines
from cloud.formula.language import Expressions, FormulaError, is_call, items
from cloud.formula.ranges import RangeError, solve
from ir.formula.expression import Number, apply, ordered
from ir.formula.program import MAX, MIN, SUM
from ir.symbol import Dim

PRODUCT = 3
REDUCTIONS = {"reduce_sum": SUM, "reduce_max": MAX, "reduce_min": MIN, "reduce_prod": PRODUCT}


def tensors_of(body: Sequence[ast.stmt]) -> list[str]:
    """The names of the inputs in order of their first use."""
    given: set[str] = set()
    found: dict[str, None] = {}
    for s in body:
        reads = s.value if isinstance(s, (ast.Assign, ast.AugAssign)) else s
        names = [
            node.value
            for node in ast.walk(reads)
            if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.value, ast.Name)
        ]
        names.sort(key=lambda n: (n.lineno, n.col_offset))
        found |= {n.id: None for n in names if n.id not in given}
        for t in s.targets if isinstance(s, ast.Assign) else []:
            name = t.value if isinstance(t, ast.Subscript) else t
            given |= {name.id} if isinstance(name, ast.Name) else set()
    return list(found)


class Reader(Expressions):
    """Reads the statements of one formula, for inputs of known shapes."""

    def __init__(
        self, text: str, shapes: Mapping[str, Sequence[Dim]], attrs: Mapping[str, Any]
    ) -> None:
        super().__init__(text.splitlines())
        self.shapes |= {k: tuple(s) for k, s in shapes.items()}
        self.sizes |= attrs
        self.ranges: dict[str, tuple[Dim, Dim]] = {}  # that the text gives, by plain name
        self.runs: dict[str, tuple[Dim, Dim]] = {}  # of every index: the first number, and the end
        self.zeros: dict[str, tuple[Dim, ...]] = {}  # results that are added to
        self.statements: list[Statement | Gathered] = []
        self.waiting: list[
            Statement | Gathered
        ] = []  # inner results of the statement that is being read

    def read(self, s: ast.stmt) -> None:
        """Read one more statement."""
        self.visible, self.elements, self.waiting = {}, [], []
        target = s.target if isinstance(s, ast.AugAssign) else None
        if isinstance(s, ast.Assign) and len(s.targets) == 1:
            target = s.targets[0]
        if isinstance(s, ast.Assign) and isinstance(target, ast.Name):
            self.name_size(target.id, s.value)
        elif not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            self.wrong(s, "want a result, `y[i] = …`, a range or a size")
        elif isinstance(s, ast.AugAssign):
            self.scatter(target.value.id, target, s)
        else:
            self.gather(target.value.id, target, s)

    def name_size(self, name: str, value: ast.expr) -> None:
        """A range of an index, the shape of what is added to, or a size."""
        call = value.func.id if is_call(value) else None  # type: ignore[attr-defined]
        if call == "range":
            ends = [self.size(a) for a in value.args]  # type: ignore[attr-defined]
            if not 1 <= len(ends) <= 2:
                self.wrong(value, "want range(end) or range(first, end)")
            self.ranges[name] = (ends[0] if len(ends) == 2 else 0, ends[-1])
        elif call == "zeros":
            self.zeros[name] = tuple(map(self.size, value.args))  # type: ignore[attr-defined]
        else:
            self.sizes[name] = self.size(value)

    def gather(self, name: str, target: ast.Subscript, s: Any) -> None:
        """y[i, j] = …"""
        if name in self.shapes:
            self.wrong(s, f"{name} is known already, want another name")
        names = [x.id for x in items(target.slice) if isinstance(x, ast.Name)]
        if len(names) != len(set(names)) or len(names) != len(items(target.slice)):
            self.wrong(s, "want different plain indices of the result, or `+=`")
        self.show(names)
        place = tuple(map(self.affine, items(target.slice)))
        kind, terms = self.terms(s.value, place)
        self.settle(s)
        for a, plain in zip(place, names, strict=True):
            if self.runs[str(a.index)][0] != 0:
                self.wrong(s, f"{plain} starts at {self.runs[str(a.index)][0]}, want 0 in a result")
        self.finish(name, kind, terms)

    def scatter(self, name: str, target: ast.Subscript, s: ast.AugAssign) -> None:
        """y[2 * i + k] += …, into a result that `zeros` gave a shape."""
        if not isinstance(s.op, ast.Add) or name not in self.zeros:
            self.wrong(s, f"want `{name} = zeros(sizes)` before, and `+=`")
        found = [n for x in (target, s.value) for n in _index_names(x)]
        found += [n.id for n in ast.walk(s) if isinstance(n, ast.Name) and n.id in self.ranges]
        self.show([n for n in dict.fromkeys(found) if n not in self.sizes])
        place = tuple(map(self.affine, items(target.slice)))
        shape = self.zeros[name]
        if len(place) != len(shape):
            self.wrong(s, f"{len(place)} indices of {name}, want {len(shape)}")
        self.shapes.pop(name, None)
        body = self.number(self.value(s.value), s)
        self.shapes[name] = shape
        self.settle(s)
        terms = [Term(body, place, tuple(self.visible.values()))]
        known = next((x for x in self.statements if x.name == name), None)
        if known is None:
            self.finish(name, SUM, terms, shape)
        else:
            self.statements.remove(known)
            self.finish(name, SUM, known.terms + terms, shape)

    def terms(self, e: ast.expr, place: tuple[Affine, ...]) -> tuple[int, list[Term]]:
        """How the terms of a right side meet, and which they are: sums that are added to other
        values need no result of their own."""
        name = _reduction_name(e)
        if name is not None and name != "reduce_prod":
            return REDUCTIONS[name], [self.reduced(e, place, 1)]
        parts = list(_summands(e, 1))
        if not any(_reduction_name(v) == "reduce_sum" for v, _ in parts):
            return SUM, [Term(self.number(self.value(e), e), place, tuple(self.visible.values()))]
        terms = []
        rest: Any = Number(0.0)
        for v, sign in parts:
            if _reduction_name(v) == "reduce_sum":
                terms.append(self.reduced(v, place, sign))
            else:
                rest = apply("add" if sign > 0 else "sub", rest, self.number(self.value(v), v))
        if rest != Number(0.0):
            terms.append(Term(rest, place, tuple(self.visible.values())))
        return SUM, terms

    def reduced(self, e: Any, place: tuple[Affine, ...], sign: int) -> Term:
        """The term of `reduce_sum(k, …)`, `reduce_max((p, q), …)`."""
        if len(e.args) != 2 or e.keywords:
            self.wrong(e, f"want {e.func.id}(indices, value)")
        names = [i.id for i in items(e.args[0]) if isinstance(i, ast.Name)]
        if len(names) != len(items(e.args[0])) or not names or len(set(names)) != len(names):
            self.wrong(e, "want names of indices to reduce over")
        if taken := sorted(set(names) & self.visible.keys()):
            self.wrong(e, f"{taken[0]} is an index outside of the reduction already")
        outside = dict(self.visible)
        self.show(names)
        body = self.number(self.value(e.args[1]), e.args[1])
        indices = tuple(self.visible.values())
        self.visible = outside
        return Term(body if sign > 0 else apply("neg", body), place, indices)

    def reduction(self, e: ast.Call) -> Any:
        """An element of a result of its own that an inner reduction becomes."""
        name = _reduction_name(e)
        if name is None:
            return None
        before = tuple(self.visible.values())
        term = self.reduced(e, (), 1)
        used = {k for x in ordered(term.body) for a in affines(x) for k, _ in a.factors}
        free = [k for k in before if k in used]
        own = [k for k in term.indices if k not in before]
        at = tuple(Affine.of(0, {k: 1}) for k in free)
        over = tuple(Affine.of(0, {k: 1}) for k in own)
        place = (*at, *over) if name == "reduce_prod" else at
        made = Statement(f"{name} {len(self.runs)}", REDUCTIONS[name], (), [])
        made.terms.append(Term(term.body, place, (*free, *own)))
        made.product = len(over) if name == "reduce_prod" else 0
        self.waiting.append(made)
        return Element(made.name, at)

    def gathered(self, table: str, axis: int, indices: Element) -> str:
        """The name of what `table` gives along an axis for the whole of a tensor of indices."""
        name = f"{table} at {indices.tensor} on axis {axis}"
        if name not in self.shapes:
            whole, at = self.shapes[table], self.shapes[indices.tensor]
            self.shapes[name] = (*whole[:axis], *at, *whole[axis + 1 :])
            self.waiting.append(Gathered(name, table, indices.tensor, axis))
        return name

    def show(self, names: Sequence[str]) -> None:
        """Make indices known by their plain names; each gets a name that no other has."""
        for n in names:
            if n in self.sizes or n in self.shapes:
                raise FormulaError(f"formula: index {n} is also a size or a tensor")
            unique = f"{n} {len(self.runs)}"
            self.visible[n] = unique
            self.runs[unique] = self.ranges.get(n, (0, -1))

    def settle(self, s: Any) -> None:
        """Find how far every index of the statement runs, and what inner results are like."""
        try:
            solve(self.runs, self.elements, self.shapes)
        except RangeError as error:
            self.wrong(s, str(error))
        for made in self.waiting:
            if isinstance(made, Gathered):
                self.statements.append(made)
            else:
                self.finish(made.name, made.kind, made.terms, product=made.product)

    def finish(
        self,
        name: str,
        kind: int,
        terms: list[Term],
        shape: tuple[Dim, ...] | None = None,
        product: int = 0,
    ) -> None:
        """Add a result; its shape is how far its indices run."""
        if shape is None:
            shape = tuple(self.runs[str(a.index)][1] for a in terms[0].place)
        self.shapes[name] = shape[: len(shape) - product]
        self.statements.append(Statement(name, kind, shape, terms, product))


def _reduction_name(e: ast.expr) -> str | None:
    name = e.func.id if is_call(e) else None  # type: ignore[attr-defined]
    return name if name in REDUCTIONS else None


def _index_names(e: ast.AST) -> Iterator[str]:
    """Names inside of brackets, in order."""
    for node in ast.walk(e):
        if isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Attribute):
            for inner in ast.walk(node.slice):
                if isinstance(inner, ast.Name):
                    yield inner.id


def _summands(e: ast.expr, sign: int) -> Iterator[tuple[ast.expr, int]]:
    """What is added, each with its sign."""
    if isinstance(e, ast.BinOp) and isinstance(e.op, (ast.Add, ast.Sub)):
        yield from _summands(e.left, sign)
        yield from _summands(e.right, sign if isinstance(e.op, ast.Add) else -sign)
    elif isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
        yield from _summands(e.operand, -sign)
    else:
        yield e, sign
