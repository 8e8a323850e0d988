"""What the front end refuses, and where: one error that shows the place and says what to write."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ir.graph import Node


@dataclass(frozen=True)
class Place:
    """A piece of source: file, line and column from 1, how many characters, and the line itself."""

    filename: str
    line: int
    column: int
    width: int
    text: str

    @staticmethod
    def of(node: ast.AST, filename: str, lines: list[str]) -> Place:
        """The first line of `node`."""
        line = getattr(node, "lineno", 1)
        text = lines[line - 1].rstrip("\n") if 0 < line <= len(lines) else ""
        begin = _characters(text, getattr(node, "col_offset", 0))
        one_line = getattr(node, "end_lineno", line) == line
        end = _characters(text, getattr(node, "end_col_offset", 0)) if one_line else len(text)
        return Place(filename, line, begin + 1, max(end - begin, 1), text)

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}:{self.column}"

    def caret(self) -> str:
        indent = "".join(c if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"    {self.text}\n    {indent}{'^' * self.width}"


PLACES: dict[str, Place] = {}  # by a node's source: where the front end made such nodes


def written_out(nodes: Iterable[Node], most: int) -> UnsupportedSyntax | None:
    """The refusal of a program of so many nodes, at the line that most are from; None where no
    line is known."""
    sources = Counter(n.source for n in nodes)
    found = [(count, source) for source, count in sources.items() if source in PLACES]
    if not found:
        return None
    count, source = max(found)
    what = f"{sources.total():,} nodes, {count:,} from here alone; a program has at most {most:,}"
    hint = "a loop whose turns do the same is one loop of the graph; or compute with whole arrays"
    return UnsupportedSyntax(what, PLACES[source], hint)


class UnsupportedSyntax(Exception):
    """Source that cannot become a graph: `place` says where, `hint` how to write it instead."""

    def __init__(self, what: str, place: Place, hint: str) -> None:
        super().__init__(f"{place}: {what}\n{place.caret()}\n    hint: {hint}")
        self.what, self.place, self.hint = what, place, hint


class NotKnown(UnsupportedSyntax):
    """Python needs a number, and there is a value that is known only when the graph runs."""


class Disagreement(UnsupportedSyntax):
    """Two ways that data decide between give results of different shapes, types or structures."""


class NeedsTrace(TypeError):
    """What tensors cannot answer without losing the gradient. The function is traced instead."""


class NoSuchItem(NeedsTrace, IndexError):
    """An index outside of a tensor. A function that is differentiated is traced: there it has a
    place."""


class Mismatch(Exception):
    """Two results that cannot be one; whoever knows the place makes a Disagreement of it."""


class Traced(BaseException):
    """A loop that was run as Python made a node: it is to become a loop of the graph."""


class Diverges(BaseException):
    """A call of a function whose result types are not known yet: this way tells nothing of them."""

    def __init__(self, activations: frozenset[Any]) -> None:
        super().__init__()
        self.activations = activations


class Restart(BaseException):
    """A function turned out to call itself as data decide: it is to be traced again, once."""

    def __init__(self, activation: Any, template: Any) -> None:
        super().__init__()
        self.activation, self.template = activation, template


def _characters(text: str, byte: int) -> int:
    """The index of the character at a byte of the line, which is how `ast` counts."""
    return len(text.encode()[:byte].decode(errors="ignore"))
