"""What the rules share: their table, what the names of a graph stand for, attributes."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from converter.errors import ConvertError
from converter.items import Arranger, Item, axis_of, known
from ir.graph import Constant, Value, Weight
from ir.symbol import Expr

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


class Names(dict[str, Item]):
    """What the names in a graph stand for, and which of them are computed in a wider type."""

    def __init__(self, outer: Names | None = None) -> None:
        super().__init__()
        self.outer = outer
        self.kinds: dict[str, str | None] = {}  # as in converter/onnx/types.py

    def kind(self, name: str) -> str | None:
        """The type that the model itself has for a name, where another is computed in."""
        if name in self or self.outer is None:
            return self.kinds.get(name)
        return self.outer.kind(name)

    def find(self, name: str) -> Item:
        """Raises ConvertError for a name that nothing has yet."""
        if name not in self:
            raise ConvertError(f"{name!r} is read, but nothing before makes it")
        return self[name]


@dataclass(kw_only=True)
class Reader(Arranger):
    """What rules see of an ONNX model: its opset, and where the reading is."""

    opset: int
    read_into: Callable[[Reader, Any, Names], None]  # the nodes of a graph inside
    names: Names = field(default_factory=Names)  # of the graph that is read
    results: int = 1  # of the node that is read
    kinds: list[str | None] = field(default_factory=list)  # of its inputs: `Names.kind`
    inner_kinds: list[str | None] = field(default_factory=list)  # of what a graph in it gives

    def inside(self) -> Reader:
        """The reader of a graph inside, which may bind sizes of its own."""
        return replace(self, found=self.found.inner())


# The reader whose rule is at work.
READING: ContextVar[Reader] = ContextVar("reading")


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of the ONNX operators `names`."""

    def declare(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, fn))
        return fn

    return declare


def integers(item: Item, what: str) -> list[Any]:
    """An input as a list of sizes, free ones among them; what the model computes, a run will bind,
    so it may not be below 0."""
    if isinstance(item, Value) and not isinstance(item, (Constant, Weight)):
        return READING.get().found.sizes(item)
    return [d if isinstance(d, Expr) else int(d) for d in known(item, what).ravel().tolist()]


def axes_of(attrs: dict[str, Any], item: Item, rank: int) -> tuple[int, ...]:
    """Axes from the attribute (old opsets) or the input (new ones), counted from the front."""
    axes = attrs.get("axes", ()) if item is None else known(item, "axes").ravel().tolist()
    return tuple(sorted(axis_of(int(a), rank) for a in axes))
