"""Print a graph as a Python function: the derivative of your source is source."""

from __future__ import annotations

import keyword
from enum import Enum
from typing import Any

import numpy as np

from ir.graph import Constant, Graph, Node, Value, shape_text
from ir.op import OPS

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}
MOST_INLINE = 16  # elements of a constant that is written into the source


def python_source(graph: Graph, name: str) -> str:
    """A function of the graph's inputs, then its weights and large constants by name.

    The text needs `np` (numpy) and `ops` (cloud.ops) and runs on numpy arrays.
    """
    names = _Names(graph)
    body = [*_sizes(graph, names), *(_line(node, names) for node in graph.nodes)]
    results = ", ".join(names.of(v) for v in graph.roots)
    return "\n".join(
        [f"def {name}({', '.join(names.parameters)}):", *body, f"    return {results}", ""]
    )


class _Names:
    """A name for every value: the user's own where there is one, else x0, t0 …"""

    def __init__(self, graph: Graph) -> None:
        self.names: dict[Value, str] = {}
        self.taken = {"np", "ops", *graph.symbols}
        self.parameters: list[str] = []
        large = (v for v in graph.leaves if isinstance(v, Constant) and v.data.size > MOST_INLINE)
        for v in (*graph.inputs, *graph.weights, *large):
            self.parameters.append(self._give(v, v.name or f"x{len(self.parameters)}"))
        outputs = dict(zip(graph.outputs, graph.output_names, strict=True))
        for v in (v for node in graph.nodes for v in node.results):
            self._give(v, v.name or outputs.get(v) or f"t{len(self.names) - len(self.parameters)}")

    def of(self, v: Value | None) -> str:
        if isinstance(v, Constant) and v not in self.names:
            return _array(v)
        return "None" if v is None else self.names[v]

    def _give(self, v: Value, wanted: str) -> str:
        base = "".join(c if c.isalnum() else "_" for c in wanted)
        if not base.isidentifier() or keyword.iskeyword(base):
            base = f"_{base}"
        free, n = base, 1
        while free in self.taken:
            free, n = f"{base}_{n}", n + 1
        self.taken.add(free)
        self.names[v] = free
        return free


def _sizes(graph: Graph, names: _Names) -> list[str]:
    """Lines that give each free dimension its size, read from an input."""
    found = {
        str(d): f"{names.of(v)}.shape[{i}]" for v in graph.inputs for i, d in enumerate(v.shape)
    }
    return [f"    {s} = {found[s]}" for s in graph.symbols if s in found]


def _line(node: Node, names: _Names) -> str:
    changed = {k: a for k, a in node.attrs.items() if a != OPS[node.op.name].attrs[k]}
    if node.op.name in INFIX and not changed:
        value = _infix(node, names)
    else:
        args = [names.of(v) for v in node.inputs]
        while args and args[-1] == "None":
            args.pop()
        attrs = [f"{k}={_attr(a)}" for k, a in changed.items()]
        value = f"ops.{node.op.name}({', '.join([*args, *attrs])})"
        if node.op.name == "neg":
            value = f"-{args[0]}"
    results = ", ".join(names.of(v) for v in node.results)
    return f"    {results} = {value}  # {', '.join(shape_text(v.shape) for v in node.results)}"


def _infix(node: Node, names: _Names) -> str:
    """`a + b`; beside an array of the same type a number needs no type."""
    a, b = node.present_inputs
    alone = isinstance(a, Constant) and isinstance(b, Constant)
    texts = [
        repr(v.data.item())
        if isinstance(v, Constant) and _is_number(v) and not alone
        else names.of(v)
        for v in (a, b)
    ]
    if node.op.name == "pow" and texts[0].startswith("-"):
        texts[0] = f"({texts[0]})"  # ** binds more tightly than a sign
    return f"{texts[0]} {INFIX[node.op.name]} {texts[1]}"


def _is_number(c: Constant) -> bool:
    return c.data.ndim == 0 and bool(np.isfinite(c.data))


def _array(c: Constant) -> str:
    name = f"np.{c.data.dtype.type.__name__}"
    if _is_number(c):
        return f"{name}({c.data.item()!r})"
    numbers = repr(c.data.tolist()).replace("inf", "np.inf").replace("nan", "np.nan")
    return f"np.array({numbers}, {name})"


def _attr(a: Any) -> str:
    if isinstance(a, Enum):
        return repr(a.value)
    if isinstance(a, tuple):
        return "(" + "".join(f"{x}, " for x in a).rstrip(" " if len(a) == 1 else ", ") + ")"
    return repr(np.asarray(a).item()) if not hasattr(a, "terms") else str(a)
