"""The operators that model files use, a name a line: python -m ir.operators MODEL.ms ..."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ir import model_file
from ir.errors import IrError
from ir.graph import Model
from ir.walk import walk


def operators(model: Model) -> set[str]:
    """The names of all operators of a model's entries, and of the graphs that they run."""
    return {node.op.name for graph in walk(model.entries.values()) for node in graph.nodes}


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
