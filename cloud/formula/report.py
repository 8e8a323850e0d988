"""How many iterations formulas and their derivatives run, and how many of them are of use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cloud.formula.affine import Gathered
from cloud.formula.lower import Step, lower
from cloud.formula.statements import Reader
from ir.errors import ShapeError
from ir.formula.derive import Part, adjoint, ties
from ir.formula.evaluate import points, turns
from ir.formula.expression import ZERO, derivatives
from ir.formula.program import MAX, MIN, SUM, Program, read
from ir.formula.sizes import row_of
from ir.graph import Graph
from ir.symbol import Dim


@dataclass(frozen=True)
class Iterations:
    """Of one result, or of its derivative by one tensor.

    `useful`: the points of the formula's own domain that reach it, each once for every element of
    the tensor that it reads there. `executed`: how often its loops come round, those that find
    nothing to do included.
    """

    what: str
    useful: int
    executed: int

    @property
    def ratio(self) -> float:
        """Executed for each useful one."""
        return self.executed / self.useful if self.useful else 1.0


class Report(tuple[Iterations, ...]):
    """`str(…)` is a table."""

    __slots__ = ()

    def __str__(self) -> str:
        rows = [("", "useful", "executed", "executed / useful")]
        rows += [(r.what, f"{r.useful:,}", f"{r.executed:,}", f"{r.ratio:.3f}") for r in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                [
                    row[0].ljust(widths[0]),
                    *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
                ]
            ).rstrip()
            for row in rows
        )


def iterations(reader: Reader) -> Report:
    """The iterations of every result of a formula that was read, and of its first derivatives."""
    if any(not isinstance(d, int) for shape in reader.shapes.values() for d in shape):
        raise ShapeError("iterations: a free size, want shapes of numbers")
    found: list[Iterations] = []
    for step in lower(reader):
        if isinstance(step, Gathered):
            continue
        found.append(_total(step.name, step.parts))
        if step.kind in (MAX, MIN):
            equal = [t for p in step.parts for t in ties(p.program, len(p.inputs))]
            found.append(_total(f"equal to {step.name}", equal))
        found += [_derivative(step, tensor, reader.shapes[tensor]) for tensor in step.tensors]
    return Report(found)


def _derivative(step: Step, tensor: str, shape: Sequence[Dim]) -> Iterations:
    rows = tuple(row_of(d, ()) for d in shape)
    useful = executed = 0
    for part in step.parts:
        number = step.tensors.index(tensor)
        if number not in part.inputs:
            continue
        wanted, n = part.inputs.index(number), len(part.inputs)
        program = read(part.program, n)
        for piece, nest in zip(program.pieces, program.nests(), strict=True):
            slopes = derivatives(nest.body).items()
            reads = sum(x.tensor == wanted and d != ZERO for x, d in slopes)
            useful += reads * points(Program(SUM, 0, program.shape, (piece,)), ())
        for p in adjoint(part.program, n, wanted, rows):
            executed += turns(read(p.program, len(p.inputs)), ())
    return Iterations(f"{step.name} by {tensor}", useful, executed)


def _total(what: str, parts: Sequence[Part]) -> Iterations:
    programs = [read(p.program, len(p.inputs)) for p in parts]
    useful, executed = (sum(f(p, ()) for p in programs) for f in (points, turns))
    return Iterations(what, useful, executed)


def of_graph(graph: Graph) -> Report:
    """The points and the turns of every formula node of a graph with fixed sizes."""
    found = []
    for node in graph.nodes:
        if node.op.name == "formula":
            program = read(node.attrs["program"], len(node.inputs))
            sizes = node.attrs["sizes"]
            useful, executed = (f(program, sizes) for f in (points, turns))
            found.append(Iterations(node.source or "formula", useful, executed))
    return Report(found)
