"""Print a graph as a Python function: the derivative of your source is source.

A branch becomes `if`, a loop `while`, a function of the graph a `def` inside of the function.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from cloud.emit.operators import definitions, expression
from ir.bound import bound_below, bound_by
from ir.dtype import DType
from ir.graph import Constant, Graph, Node, Value, shape_text
from ir.walk import functions, walk

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "matmul": "@",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
MOST_INLINE = 16  # elements of a constant that is written into the source


def python_source(graph: Graph, name: str) -> str:
    """A function of the graph's inputs, then its weights by name; large constants stand above it.

    The text is a module that needs numpy alone: operators are expressions of numpy, or, where one
    takes more, functions above, taken from the operators' references.
    """
    helpers = definitions(node for g in walk([graph]) for node in g.nodes)
    names = _Names(graph, {name, *helpers})
    writer = _Writer(names)
    writer.lines += [f"def {name}({', '.join(names.parameters)}):"]
    for parameter in names.parameters:
        writer.line(1, f"{parameter} = np.asarray({parameter})")
    writer.lines += _sizes(graph, names)
    writer.functions(graph)
    writer.nodes(graph, 1)
    writer.line(1, f"return {names.all(graph.roots)}")
    function = "\n".join([*writer.lines, ""])
    imports = [text for text in helpers.values() if text.startswith(("import ", "from "))]
    above = [text for text in helpers.values() if text not in imports]
    above += [f"{name} = {_array(c)}" for name, c in names.tables.items()]
    return "\n\n\n".join(["\n".join([*imports, "import numpy as np"]), *above, function])


class _Names:
    """A name for every value: the user's own where there is one, else x0, t0 …"""

    def __init__(self, graph: Graph, taken: Collection[str]) -> None:
        self.names: dict[Value, str] = {}
        self.taken = {"np", *taken, *graph.symbols, *bound_below([graph])}
        self.parameters: list[str] = []
        self.unnamed = 0
        self.functions = {f: self.new(f.name) for f in functions(graph)}
        leaves = dict.fromkeys(v for g in walk([graph]) for v in g.leaves)
        large = [v for v in leaves if isinstance(v, Constant) and v.data.size > MOST_INLINE]
        self.tables = {self.give(v, v.name or "table"): v for v in large}
        for v in (*graph.inputs, *graph.weights):
            self.parameters.append(self.give(v, v.name or f"x{len(self.parameters)}"))
        outputs = dict(zip(graph.outputs, graph.output_names, strict=True))
        for v in (v for node in graph.nodes for v in node.results):
            wanted = v.name or outputs.get(v)
            if wanted and _is_named_here(v):
                self.give(v, wanted)

    def of(self, v: Value | None) -> str:
        """The name; of a value that has none yet, a new one; a small constant's elements."""
        if isinstance(v, Constant) and v not in self.names:
            return _array(v)
        if v is None:
            return "None"
        return self.names[v] if v in self.names else self.give(v, v.name)

    def all(self, values: Sequence[Value]) -> str:
        return ", ".join(map(self.of, values))

    def give(self, v: Value, wanted: str | None) -> str:
        if wanted is None and v.dtype is DType.tape:
            wanted = "tape"
        if wanted is None:
            wanted = f"t{self.unnamed}"
            self.unnamed += 1
        self.names[v] = self.new(wanted)
        return self.names[v]

    def new(self, wanted: str) -> str:
        """A name of Python like `wanted` that nothing has yet."""
        base = "".join(c if c.isalnum() else "_" for c in wanted)
        if not base.isidentifier() or keyword.iskeyword(base):
            base = f"_{base}"
        free, n = base, 1
        while free in self.taken:
            free, n = f"{base}_{n}", n + 1
        self.taken.add(free)
        return free


def _is_named_here(v: Value) -> bool:
    """Results of loops have the names of the loop's state; others without a name get one later."""
    return v.node is not None and v.node.op.name != "while_loop"


class _Writer:
    """Lines of Python, each node's in the order of its graph."""

    def __init__(self, names: _Names) -> None:
        self.names = names
        self.lines: list[str] = []

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def functions(self, graph: Graph) -> None:
        """A `def` for every function that the graph reaches."""
        for f, name in self.names.functions.items():
            parameters = [self.names.give(v, v.name) for v in f.graph.inputs]
            self.line(1, f"def {name}({', '.join(parameters)}):")
            self.nodes(f.graph, 2)
            self.line(2, f"return {self.names.all(f.graph.outputs)}")
            self.lines.append("")

    def nodes(self, graph: Graph, depth: int) -> None:
        tests = _tests(graph)
        for node in graph.nodes:
            if node in tests:
                continue  # it stands behind its `if`
            match node.op.name:
                case "cond":
                    test = node.present_inputs[0]
                    is_inline = test.node is not None and test.node in tests
                    text = self.value(test.node) if is_inline else self.names.of(test)
                    self.branch(node, text, depth)
                case "while_loop":
                    self.loop(node, depth)
                case "call":
                    name = self.names.functions[node.attrs["body"]]
                    self.assign(node, f"{name}({self.names.all(node.present_inputs)})", depth)
                case "bind_sizes":
                    self.assign(node, self.names.all(node.present_inputs), depth)
                    numbers = self.names.all(node.results)
                    self.line(depth, f"{', '.join(bound_by(node))}, = map(int, {numbers})")
                case _:
                    self.assign(node, self.value(node), depth)

    def assign(self, node: Node, text: str, depth: int) -> None:
        shapes = ", ".join(shape_text(v.shape) for v in node.results)
        self.line(depth, f"{self.names.all(node.results)} = {text}  # {shapes}")

    def branch(self, node: Node, test: str, depth: int) -> None:
        """if test: …; else: …"""
        operands = node.present_inputs[1:]
        results = self.names.all(node.results)
        for word, graph in (
            (f"if {test}:", node.attrs["then"]),
            ("else:", node.attrs["otherwise"]),
        ):
            self.line(depth, word)
            self.share(graph.inputs, operands)
            self.nodes(graph, depth + 1)
            self.line(depth + 1, f"{results} = {self.names.all(graph.outputs)}")

    def loop(self, node: Node, depth: int) -> None:
        """state = …; while condition: …; state = …"""
        condition, body = node.attrs["condition"], node.attrs["body"]
        start = node.present_inputs
        moving = [i for i, v in enumerate(body.outputs) if v is not body.inputs[i]]
        for i, v in enumerate(body.inputs):
            if i in moving:
                self.names.give(v, v.name or condition.inputs[i].name)
            else:
                self.share([v], [start[i]])
        self.share(condition.inputs, body.inputs)
        self.share(node.results, body.inputs)
        state = self.names.all([body.inputs[i] for i in moving])
        self.line(depth, f"{state} = {self.names.all([start[i] for i in moving])}")
        uses = Counter(v for n in condition.nodes for v in n.present_inputs)
        if all(uses[v] <= 1 and not any(n.subgraphs()) for n in condition.nodes for v in n.results):
            self.line(depth, f"while {self.expression(condition.outputs[0])}:")
        else:
            self.line(depth, "while True:")
            self.nodes(condition, depth + 1)
            self.line(depth + 1, f"if not {self.names.of(condition.outputs[0])}:")
            self.line(depth + 2, "break")
        self.nodes(body, depth + 1)
        self.line(depth + 1, f"{state} = {self.names.all([body.outputs[i] for i in moving])}")

    def share(self, values: Sequence[Value], others: Sequence[Value]) -> None:
        """Give values the names of others, which hold the same."""
        for v, other in zip(values, others, strict=True):
            self.names.names[v] = self.names.of(other)

    def expression(self, v: Value) -> str:
        """A value with all that it is computed from in one expression."""
        if v.node is None:
            return self.names.of(v)
        texts = [
            f"({self.expression(x)})" if x.node and _is_infix(x.node) else self.expression(x)
            for x in v.node.present_inputs
        ]
        return self.value(v.node, texts)

    def value(self, node: Node, texts: Sequence[str] | None = None) -> str:
        """What a node computes; `texts`: of its inputs, in place of their names."""
        if _is_infix(node) and node.attrs == node.op.attrs:
            return self._infix(node, texts)
        args = list(texts) if texts else [self.names.of(v) for v in node.inputs]
        while args and args[-1] == "None":
            args.pop()
        return expression(node, args)

    def _infix(self, node: Node, texts: Sequence[str] | None) -> str:
        """`a + b`; beside an array of the same type a number needs no type."""
        pair = node.present_inputs
        alone = all(isinstance(v, Constant) for v in pair)
        a, b = (
            repr(v.data.item())
            if isinstance(v, Constant) and _is_number(v) and not alone
            else (texts[i] if texts else self.names.of(v))
            for i, v in enumerate(pair)
        )
        return f"{a} {INFIX[node.op.name]} {b}"


def _tests(graph: Graph) -> set[Node]:
    """Comparisons that nothing reads but one branch."""
    uses = Counter(v for n in graph.nodes for v in n.present_inputs)
    uses.update(graph.roots)
    predicates = (n.present_inputs[0] for n in graph.nodes if n.op.name == "cond")
    return {v.node for v in predicates if v.node and _is_infix(v.node) and uses[v] == 1}


def _is_infix(node: Node) -> bool:
    """Whether numpy's sign is the operator: `/` of integers gives floats, where ours gives none."""
    whole = node.op.name == "div" and not node.results[0].dtype.is_float
    return node.op.name in INFIX and not whole


def _sizes(graph: Graph, names: _Names) -> list[str]:
    """Lines that give each free dimension its size, read from an input."""
    found = {
        str(d): f"{names.of(v)}.shape[{i}]" for v in graph.inputs for i, d in enumerate(v.shape)
    }
    return [f"    {s} = {found[s]}" for s in graph.symbols if s in found]


def _is_number(c: Constant) -> bool:
    return c.data.ndim == 0 and bool(np.isfinite(c.data))


def _array(c: Constant) -> str:
    name = "np.bool_" if c.dtype is DType.bool else f"np.{c.data.dtype.type.__name__}"
    if _is_number(c):
        return f"{name}({c.data.item()!r})"
    numbers = repr(c.data.tolist()).replace("inf", "np.inf").replace("nan", "np.nan")
    if 0 in c.data.shape:
        return f"np.zeros({c.data.shape}, {name})"
    return f"np.array({numbers}, {name})"
