"""What the front end refuses, and where: one error that shows the place and says what to write."""

from __future__ import annotations

import ast
import linecache
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

    @staticmethod
    def in_file(filename: str, line: int) -> Place:
        """A whole line, as far as its source can be read."""
        text = linecache.getline(filename, line).rstrip("\n")
        begin = len(text) - len(text.lstrip())
        return Place(filename, line, begin + 1, max(len(text) - begin, 1), text)

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}:{self.column}"

    def caret(self) -> str:
        indent = "".join(c if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"    {self.text}\n    {indent}{'^' * self.width}"


class Placed(str):
    """A node's source that knows the place it stands for: names of files alone are not unique."""

    place: Place

    @staticmethod
    def at(source: str, place: Place) -> Placed:
        new = Placed(source)
        new.place = place
        return new


def written_out(nodes: Iterable[Node], most: int) -> UnsupportedSyntax | None:
    """The refusal of a program of so many nodes, at the line that most are from; None where no
    line is known."""
    places = Counter(getattr(n.source, "place", None) for n in nodes)
    found = [(count, place) for place, count in places.items() if place is not None]
    if not found:
        return None
    count, place = max(found, key=lambda one: one[0])
    what = f"{places.total():,} nodes, {count:,} from here alone; a program has at most {most:,}"
    hint = "a loop whose turns do the same is one loop of the graph; or compute with whole arrays"
    return UnsupportedSyntax(what, place, hint)


class UnsupportedSyntax(Exception):
    """Source that cannot become a graph: `place` says where, `hint` how to write it instead. There
    is no place where a function without source of the user's is traced itself."""

    def __init__(self, what: str, place: Place | None, hint: str) -> None:
        where = "" if place is None else f"{place}: "
        shown = "" if place is None or not place.text.strip() else f"\n{place.caret()}"
        super().__init__(f"{where}{what}{shown}\n    hint: {hint}")
        self.what, self.place, self.hint = what, place, hint


def too_deep(place: Place) -> UnsupportedSyntax:
    """The refusal of a recursion that Python has no room for, in both modes."""
    hint = "write a loop, or let data decide how deep it goes"
    return UnsupportedSyntax("a recursion too deep to be written out", place, hint)


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
