"""The operators that model files use, a name a line: python -m ir.operators MODEL.ms ..."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ir import model_file
from ir.errors import IrError
from ir.formula import program as formula
from ir.graph import Model, Node
from ir.ops import fused
from ir.walk import walk


def operators(model: Model) -> set[str]:
    """The names of all operators of a model's entries, of the graphs that they run, and of the
    programs in them: those have reference kernels that call their operators' own."""
    nodes = [node for graph in walk(model.entries.values()) for node in graph.nodes]
    return {node.op.name for node in nodes} | {name for n in nodes for name in _in_program(n)}


def _in_program(node: Node) -> Iterator[str]:
    """The operators of a node's program."""
    inputs = len(node.inputs)
    bodies: list[tuple[Sequence[int], int]] = []
    if node.op.name == "fused_elementwise":
        bodies = [(node.attrs["program"], inputs)]
    elif node.op.name == "formula":
        pieces = formula.read(node.attrs["program"], inputs).pieces
        bodies = [(p.body, len(p.loads)) for p in pieces if p.body]
    for program, loads in bodies:
        yield from (i.op.name for i in fused.read(program, loads).instructions)


def main(paths: Sequence[str]) -> int:
    found: set[str] = set()
    for path in paths:
        try:
            found |= operators(model_file.read(Path(path).read_bytes()))
        except (IrError, OSError) as error:
            print(f"ir.operators: {path}: {error}", file=sys.stderr)
            return 1
    print("\n".join(sorted(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
