"""Formulas as words: what a node of the operator `formula` holds, and what its kernels run.

    how values meet (0 sum, 1 maximum, 2 minimum), sizes, rank, a row for each axis of the result,
    number of pieces, pieces

    piece   loops, a word with a bit set for each of them that gives the place of an element (the
            others are summed over), guards, rows that must be at least 0,
            for each loop: lower bounds, upper bounds, and for each of them a divisor and a row,
            a row for each axis of the result,
            loads, for each its input (-1: none, the row is the number) and its rows,
            length of the body, a program of fused_elementwise over the loads
    row     constant, terms, for each its column and its coefficient

Columns are the sizes, an attribute of the node, then the loops, outermost first; bounds and guards
name outer ones only. A loop runs from the largest lower bound, divided and rounded up, to the
smallest upper bound, divided and rounded down. The last loop has the lanes. An empty body is its
load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ir.dtype import DType
from ir.errors import AttrError
from ir.formula.domain import Row, Rows, constant, is_constant, minus
from ir.formula.expression import Apply, Expression, Index, Load, Number, apply, ordered
from ir.formula.nest import Nest
from ir.graph import Constant, Value
from ir.op import OPS, Words
from ir.ops import fused

SUM, MAX, MIN = range(3)
KINDS = ("sum", "max", "min")
MOST_LOOPS, MOST_PIECES, MOST_SIZES, MOST_RANK = 14, 256, 8, 8
MOST_WORDS = 1024  # of an attribute of a file
LARGEST_FACTOR = 1 << 20  # of a coefficient or a divisor


@dataclass(frozen=True)
class Bound:
    """row / divisor, rounded towards the inside of the loop."""

    divisor: int
    row: Row


@dataclass(frozen=True)
class Piece:
    """One nest as loops."""

    places: tuple[int, ...]  # loops that give the place of an element; the others are summed over
    guards: Rows
    bounds: tuple[tuple[tuple[Bound, ...], tuple[Bound, ...]], ...]  # of each loop, lower and upper
    out: Rows
    loads: tuple[Index | Load, ...]
    body: Words

    @property
    def loops(self) -> int:
        return len(self.bounds)


@dataclass(frozen=True)
class Program:
    kind: int
    sizes: int
    shape: Rows  # of sizes alone
    pieces: tuple[Piece, ...]

    def nests(self) -> Iterator[Nest]:
        """The pieces as nests again, with all that their loops say as rows."""
        for p in self.pieces:
            rows = list(p.guards)
            for loop, (lower, upper) in enumerate(p.bounds):
                at = self.sizes + 1 + loop
                rows += [_with(minus(b.row), at, b.divisor) for b in lower]
                rows += [_with(b.row, at, -b.divisor) for b in upper]
            yield Nest(self.sizes, p.loops, tuple(rows), p.out, expression_of(p))


def words_of(program: Program) -> Words:
    """The program as words. Raises AttrError where it would be too long."""
    words = [program.kind, program.sizes, len(program.shape)]
    for r in program.shape:
        words += _row_words(r)
    words.append(len(program.pieces))
    for piece in program.pieces:
        words += piece_words(piece)
    if len(words) > MOST_WORDS:
        raise AttrError(f"formula: {len(words)} words, want at most {MOST_WORDS}")
    return Words(words)


def piece_words(p: Piece) -> list[int]:
    words = [p.loops, sum(1 << i for i in p.places), len(p.guards)]
    for r in p.guards:
        words += _row_words(r)
    for lower, upper in p.bounds:
        words += [len(lower), len(upper)]
        for b in (*lower, *upper):
            words += [b.divisor, *_row_words(b.row)]
    for r in p.out:
        words += _row_words(r)
    words.append(len(p.loads))
    for x in p.loads:
        words.append(x.tensor if isinstance(x, Load) else -1)
        rows = x.rows if isinstance(x, Load) else (x.row,)
        words.append(len(rows))
        for r in rows:
            words += _row_words(r)
    return [*words, len(p.body), *p.body]


def read(words: Sequence[int], inputs: int) -> Program:
    """The program of a node with so many inputs. Raises AttrError."""
    reader = _Reader(words)
    kind, sizes, rank = (reader.number(limit) for limit in (3, MOST_SIZES + 1, MOST_RANK + 1))
    shape = tuple(reader.row(sizes, sizes) for _ in range(rank))
    count = reader.number(MOST_PIECES + 1)
    pieces = tuple(reader.piece(sizes, rank, inputs) for _ in range(count))
    if reader.at != len(words):
        raise reader.wrong("words that nothing reads")
    return Program(kind, sizes, shape, pieces)


def body_of(e: Expression, columns: int) -> tuple[tuple[Index | Load, ...], Words]:
    """An expression as a program over its loads. Raises AttrError where it is too long."""
    if isinstance(e, Number):  # programs have no constants as results
        e = Apply("mul", (e, Index(constant(1, columns))))
    every = ordered(e)
    loads = tuple(x for x in every if isinstance(x, (Index, Load)))
    if not isinstance(e, Apply):
        return loads, Words()
    values: dict[Expression, Value] = {x: Value(()) for x in loads}
    nodes = []
    for x in every:
        if isinstance(x, Number):
            values[x] = Constant(x.value, dtype=DType.f32)
        elif isinstance(x, Apply):
            attrs = {"to": "f32"} if x.op == "cast" else dict(x.attrs)
            nodes.append(OPS[x.op].node([values[a] for a in x.args], attrs))
            (values[x],) = nodes[-1].results
    program = fused.assemble([values[x] for x in loads], nodes, [values[e]])
    return loads, program


def expression_of(piece: Piece) -> Expression:
    """The inverse of `body_of`."""
    known: dict[int, Expression] = {}
    for x in piece.loads:
        is_number = isinstance(x, Index) and is_constant(x.row)
        known[len(known)] = Number(float(x.row[0])) if is_number else x  # type: ignore[union-attr]
    if not piece.body:
        return known[0]
    program = fused.read(piece.body, len(piece.loads))
    for c in program.constants:
        known[len(known)] = Number(float(c))
    first = len(known)
    for i in program.instructions:
        args = [known[k] for k in i.operands]
        known[first + i.to] = apply(i.op.name, *args, **i.attrs)
    return known[first + program.results[0]]


def _with(row: Row, at: int, value: int) -> Row:
    return (*row[:at], value, *row[at + 1 :])


def _row_words(row: Row) -> list[int]:
    terms = [(i, c) for i, c in enumerate(row[1:]) if c]
    return [row[0], len(terms), *(w for term in terms for w in term)]


class _Reader:
    """Words that may be anything, one after the other."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = words
        self.at = 0

    def wrong(self, what: str) -> AttrError:
        return AttrError(f"formula: word {self.at} of {len(self.words)}: {what}")

    def word(self) -> int:
        if self.at >= len(self.words):
            raise self.wrong("the program ends here")
        self.at += 1
        return self.words[self.at - 1]

    def number(self, limit: int, least: int = 0) -> int:
        """A word in [least, limit)."""
        if not least <= (word := self.word()) < limit:
            raise self.wrong(f"{word}, want {least} to {limit - 1}")
        return word

    def row(self, columns: int, width: int) -> Row:
        """A row on the first `columns` of `width` columns."""
        out = [self.word(), *(0,) * width]
        for _ in range(self.number(columns + 1)):
            column = self.number(columns)
            if out[1 + column]:
                raise self.wrong(f"column {column} stands there twice")
            out[1 + column] = self.number(LARGEST_FACTOR + 1, -LARGEST_FACTOR)
        return tuple(out)

    def piece(self, sizes: int, rank: int, inputs: int) -> Piece:
        loops = self.number(MOST_LOOPS + 1)
        bits = self.number(1 << loops)
        places = tuple(i for i in range(loops) if bits >> i & 1)
        width = sizes + loops
        guards = tuple(self.row(sizes, width) for _ in range(self.number(65)))
        bounds = tuple(self.bounds(sizes + loop, width) for loop in range(loops))
        out = tuple(self.row(width, width) for _ in range(rank))
        loads = tuple(self.load(width, inputs) for _ in range(self.number(fused.MOST_INPUTS + 1)))
        count = self.number(len(self.words) + 1)
        body = Words(self.word() for _ in range(count))
        self.check_body(body, len(loads))
        piece = Piece(places, guards, bounds, out, loads, body)
        self.check_places(piece, sizes)
        return piece

    def bounds(self, columns: int, width: int) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        lower, upper = self.number(65, 1), self.number(65, 1)
        found = [
            Bound(self.number(LARGEST_FACTOR + 1, 1), self.row(columns, width))
            for _ in range(lower + upper)
        ]
        return tuple(found[:lower]), tuple(found[lower:])

    def load(self, width: int, inputs: int) -> Index | Load:
        tensor = self.number(inputs, -1)
        rows = tuple(self.row(width, width) for _ in range(self.number(MOST_RANK + 1)))
        if tensor >= 0:
            return Load(tensor, rows)
        if len(rows) != 1:
            raise self.wrong(f"a number of {len(rows)} rows, want 1")
        return Index(rows[0])

    def check_body(self, body: Words, loads: int) -> None:
        if not body and loads != 1:
            raise self.wrong(f"an empty body on {loads} loads, want 1")
        if body:
            program = fused.read(body, loads)
            if len(program.results) != 1 or program.types() != [DType.f32]:
                raise self.wrong("a body that gives no number")

    def check_places(self, piece: Piece, sizes: int) -> None:
        """Loops that give the place tell all places apart, and others do not move it."""
        left = set(piece.places)
        live = [{i for i, c in enumerate(r[sizes + 1 :]) if c} for r in piece.out]
        if not set().union(*live) <= left:
            raise self.wrong("a place that depends on a loop that is summed over")
        while known := {i for row in live for i in row & left if len(row & left) == 1}:
            left -= known
        if left:
            raise self.wrong(f"places that loops {sorted(left)} do not tell apart")
