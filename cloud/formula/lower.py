"""From statements to the programs of formula nodes, for tensors of known shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cloud.formula.affine import Affine, Element, Gathered, Statement, Term, Within
from cloud.formula.language import FormulaError
from cloud.formula.statements import PRODUCT, Reader
from ir.errors import AttrError
from ir.formula.derive import Part, parts
from ir.formula.domain import Row, Rows, contains, minus, plus, shifted, unit
from ir.formula.expression import Index, Load, Number, apply, mapped, ordered
from ir.formula.nest import Nest
from ir.formula.program import MAX, MIN, MOST_SIZES, SUM
from ir.formula.sizes import row_of, terms_of
from ir.graph import shape_text
from ir.symbol import Atom, Dim, Expr

NOTHING = {SUM: 0.0, MAX: float("-inf"), MIN: float("inf"), PRODUCT: 1.0}


@dataclass(frozen=True)
class Step:
    """One result of a formula: the parts that make it up, on results and inputs by name."""

    name: str
    kind: int
    sizes: tuple[Dim, ...]
    tensors: tuple[str, ...]
    parts: tuple[Part, ...]
    product: int  # axes at its end, whose product it is


@dataclass(frozen=True)
class Condition:
    """Whether some rows are all at least 0: a leaf that is gone before a nest is made."""

    rows: Rows
    is_truth = True


def lower(reader: Reader) -> list[Step | Gathered]:
    """The steps of a formula that was read. Raises FormulaError where an index leaves a tensor."""
    sizes = _sizes(reader)
    if len(sizes) > MOST_SIZES:
        raise FormulaError(f"formula: {len(sizes)} free sizes, want at most {MOST_SIZES}")
    return [
        s if isinstance(s, Gathered) else _Lowering(reader, s, sizes).step()
        for s in reader.statements
    ]


class _Lowering:
    """One statement."""

    def __init__(self, reader: Reader, statement: Statement, sizes: Sequence[Dim]) -> None:
        self.shapes, self.runs = reader.shapes, reader.runs
        self.statement = statement
        self.sizes = sizes
        self.tensors: dict[str, int] = {}

    def step(self) -> Step:
        s = self.statement
        nests = [n for t in s.terms for n in self.nests(t)]
        kind = s.kind
        if kind == PRODUCT:  # of factors less 1, so that what nothing reaches is a factor of 1
            kind = SUM
        shape = tuple(row_of(d, self.sizes) for d in s.shape)
        try:
            made = tuple(parts(kind, len(self.sizes), shape, nests))
        except AttrError as error:
            raise FormulaError(f"formula: {s.name} is too long for one nest ({error})") from None
        return Step(s.name, s.kind, tuple(self.sizes), tuple(self.tensors), made, s.product)

    def nests(self, term: Term) -> Iterator[Nest]:
        columns = len(self.sizes) + len(term.indices)
        rows: list[Row] = []
        for i, name in enumerate(term.indices):
            v = unit(len(self.sizes) + 1 + i, columns)
            first, end = (row_of(d, self.sizes, columns) for d in self.runs[name])
            rows += [plus(v, first, -1), plus(shifted(end, -1), v, -1)]

        def row(a: Affine) -> Row:
            r = row_of(a.base, self.sizes, columns)
            for name, factor in a.factors:
                at = len(self.sizes) + 1 + term.indices.index(name)
                r = plus(r, unit(at, columns), factor)
            return r

        body = mapped(term.body, lambda x: self.leaf(x, row))
        out = tuple(map(row, term.place))
        context = _context(self.sizes, columns)
        start = Nest(len(self.sizes), len(term.indices), tuple(rows), out, body)
        for nest in _split(start):
            if nest.body == Number(NOTHING[self.statement.kind]):
                continue
            self.check(nest, context)
            if self.statement.kind == PRODUCT:
                nest = replace(nest, body=apply("sub", nest.body, Number(1.0)))
            yield nest

    def leaf(self, x: Any, row: Any) -> Any:
        if isinstance(x, Affine):
            return Index(row(x))
        if isinstance(x, Element):
            number = self.tensors.setdefault(x.tensor, len(self.tensors))
            return Load(number, tuple(map(row, x.index)))
        if isinstance(x, Within):
            return Condition(tuple(r for a in x.rows for r in self.condition(a, row)))
        return None

    def condition(self, a: Affine | Element, row: Any) -> Iterator[Row]:
        if isinstance(a, Affine):
            yield row(a)
            return
        for index, size in zip(a.index, self.shapes[a.tensor], strict=True):
            r = row(index)
            yield r
            yield plus(shifted(row_of(size, self.sizes, len(r) - 1), -1), r, -1)

    def check(self, nest: Nest, context: Rows) -> None:
        """Raise FormulaError where an index may leave its tensor."""
        names = list(self.tensors)
        places = [(names[x.tensor], x.rows) for x in ordered(nest.body) if isinstance(x, Load)]
        for name, rows in [*places, (self.statement.name, nest.out)]:
            shape = self.statement.shape if name == self.statement.name else self.shapes[name]
            for axis, (r, size) in enumerate(zip(rows, shape, strict=True)):
                last = plus(shifted(row_of(size, self.sizes, nest.columns), -1), r, -1)
                if not all(contains((*nest.rows, *context), b) for b in (r, last)):
                    raise FormulaError(
                        f"formula: an index of {name}, {shape_text(shape)}, leaves axis {axis}; "
                        "want padded(…), where(…) or a shorter range"
                    )


def _split(nest: Nest) -> Iterator[Nest]:
    """Nests without conditions on indices: each where they all hold, or do not."""
    stack = [nest]
    while stack:
        nest = stack.pop()
        found = next((x for x in ordered(nest.body) if isinstance(x, Condition)), None)
        if found is None:
            yield nest
            continue
        sides: list[tuple[list[Row], float]] = [(list(found.rows), 1.0)]
        for i, r in enumerate(found.rows):
            sides.append(([*found.rows[:i], shifted(minus(r), -1)], 0.0))
        for rows, truth in reversed(sides):
            part = nest.within(rows)
            if part is not None:
                body = _replaced(nest.body, found, Number(truth, True))
                stack.append(replace(part, body=body))


def _replaced(body: Any, leaf: Any, new: Any) -> Any:
    return mapped(body, lambda x: new if x == leaf else None)


def _sizes(reader: Reader) -> list[Dim]:
    """The free sizes that the formula's shapes and ranges are made of."""
    dims = [d for shape in reader.shapes.values() for d in shape]
    dims += [d for run in reader.runs.values() for d in run]
    found: dict[Dim, None] = {}
    while dims:
        for part in terms_of(dims.pop()):
            if isinstance(part, Expr) and part not in found:
                found[part] = None
                atom = _division(part)
                if atom is not None:
                    dims += [a for a in atom.args if not isinstance(a, str)]
    return list(found)


def _division(size: Dim) -> Atom | None:
    """The atom of a size that is one division."""
    if not isinstance(size, Expr):
        return None
    ((atoms, _),) = size.terms.items()
    return atoms[0] if len(atoms) == 1 and atoms[0].op == "floordiv" else None


def _context(sizes: Sequence[Dim], columns: int) -> Rows:
    """What is known of free sizes: symbols are at least 1, divisions lie between their bounds."""
    rows: list[Row] = []
    for i, size in enumerate(sizes):
        own = unit(i + 1, columns)
        atom = _division(size)
        is_symbol = isinstance(size, Expr) and str(size).isidentifier()
        rows.append(shifted(own, -1) if is_symbol else own)
        if atom is None or not isinstance(atom.args[1], int) or isinstance(atom.args[0], str):
            continue
        rest = plus(row_of(atom.args[0], sizes, columns), own, -atom.args[1])
        rows += [rest, shifted(minus(rest), atom.args[1] - 1)]
    return tuple(rows)
