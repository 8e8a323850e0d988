"""Programs of formulas as Python: the loops that a program is, written out."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence

from ir.formula.domain import Row, Rows
from ir.formula.expression import Apply, Expression, Index, Load, Number, ordered
from ir.formula.program import Bound, Piece, Program, expression_of, read
from ir.graph import Node, Value
from ir.op import OPS

START = (
    "np.zeros({}, x0.dtype)",
    "np.full({}, -np.inf, x0.dtype)",
    "np.full({}, np.inf, x0.dtype)",
)
MEET = ("{0} += {1}", "{0} = np.maximum({0}, {1})", "{0} = np.minimum({0}, {1})")
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
Text = Callable[[Node, Sequence[str]], str]  # what an operator computes, given texts of its inputs


def name_of(node: Node) -> str:
    """The name of the function of a formula node, one for each program."""
    return f"formula_{zlib.crc32(repr(node.attrs['program']).encode()):08x}"


def call(node: Node, args: Sequence[str]) -> str:
    sizes = node.attrs["sizes"]
    return f"{name_of(node)}({', '.join([*args, *map(str, sizes)])})"


def operators_in(node: Node) -> list[Node]:
    """The operators of the bodies, as nodes on scalars."""
    program = read(node.attrs["program"], len(node.inputs))
    return [n for p in program.pieces for n in _nodes(expression_of(p)).values()]


def definition(node: Node, text: Text) -> str:
    """The function of a formula node."""
    program = read(node.attrs["program"], len(node.inputs))
    inputs = [f"x{i}" for i in range(len(node.inputs))]
    sizes = [f"n{i}" for i in range(program.sizes)]
    shape = ", ".join(_row(r, sizes) for r in program.shape)
    lines = [f"def {name_of(node)}({', '.join([*inputs, *sizes])}):"]
    lines.append(
        "    y = " + START[program.kind].format(f"({shape}{',' * (len(program.shape) == 1)})")
    )
    for piece in program.pieces:
        lines += (f"    {line}" for line in _piece(program, piece, sizes, text))
    return "\n".join([*lines, "    return y"])


def _piece(program: Program, piece: Piece, sizes: list[str], text: Text) -> Iterator[str]:
    names = [*sizes, *(f"i{i}" for i in range(piece.loops))]
    depth = 0
    if piece.guards:
        yield "if " + " and ".join(f"{_row(r, names)} >= 0" for r in piece.guards) + ":"
        depth = 1
    for i, (lower, upper) in enumerate(piece.bounds):
        first = _end("max", [_low(b, names) for b in lower])
        last = _end("min", [_high(b, names) for b in upper])
        yield "    " * depth + f"for i{i} in range({first}, {last}):"
        depth += 1
    place = f"y[{_index(piece.out, names)}]"
    value = _value(expression_of(piece), names, text)
    yield "    " * depth + MEET[program.kind].format(place, value)


def _value(e: Expression, names: Sequence[str], text: Text) -> str:
    nodes = _nodes(e)
    texts: dict[Expression, str] = {}
    for x in ordered(e):
        if isinstance(x, Number):
            texts[x] = f"np.float32({x.value!r})".replace("inf", "np.inf").replace("nan", "np.nan")
        elif isinstance(x, Index):
            texts[x] = f"np.float32({_row(x.row, names)})"
        elif isinstance(x, Load):
            texts[x] = f"x{x.tensor}[{_index(x.rows, names)}]"
        else:
            args = [texts[a] for a in x.args]
            if x.op in INFIX:
                inner = (f"({t})" if _is_infix(a) else t for a, t in zip(x.args, args, strict=True))
                texts[x] = f" {INFIX[x.op]} ".join(inner)
            else:
                texts[x] = text(nodes[x], args)
    return texts[e]


def _nodes(e: Expression) -> dict[Expression, Node]:
    """A node on scalars for every operator of an expression."""
    nodes: dict[Expression, Node] = {}
    values: dict[Expression, Value] = {}
    for x in ordered(e):
        if isinstance(x, Apply):
            attrs = {"to": "f32"} if x.op == "cast" else dict(x.attrs)
            nodes[x] = OPS[x.op].node([values[a] for a in x.args], attrs)
            values[x] = nodes[x].results[0]
        else:
            values[x] = Value(())
    return nodes


def _is_infix(e: Expression) -> bool:
    return isinstance(e, Apply) and e.op in INFIX


def _row(row: Row, names: Sequence[str]) -> str:
    """2 * i0 + i1 - 1"""
    parts = [f"{_times(c)}{n}" for c, n in zip(row[1:], names, strict=False) if c]
    parts += [str(row[0])] if row[0] or not parts else []
    return " + ".join(parts).replace("+ -", "- ")


def _times(factor: int) -> str:
    return {1: "", -1: "-"}.get(factor, f"{factor} * ")


def _index(rows: Rows, names: Sequence[str]) -> str:
    return ", ".join(_row(r, names) for r in rows) or "()"


def _low(b: Bound, names: Sequence[str]) -> str:
    row = _row(b.row, names)
    return row if b.divisor == 1 else f"-(-({row}) // {b.divisor})"


def _high(b: Bound, names: Sequence[str]) -> str:
    """One more than the bound: where a range ends."""
    above = (b.row[0] + b.divisor, *b.row[1:])
    row = _row(above, names)
    return row if b.divisor == 1 else f"({row}) // {b.divisor}"


def _end(choose: str, texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{choose}({', '.join(texts)})"
