"""Statements of the same task with MindSpan and in PyTorch: python -m bench.lines [--count]

Prints, for each task, the statements of both programs (imports, model, training and evaluation; a
statement counts once however it is broken), and what both reach when they are run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.lines.tasks import SIDES, TASKS, Task


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.lines", description=__doc__)
    parser.add_argument("--count", action="store_true", help="only count, run nothing")
    options = parser.parse_args(arguments)
    print(table([row(task, count_only=options.count) for task in TASKS]))
    return 0


def row(task: Task, *, count_only: bool) -> list[str]:
    """One task: statements of both sides, how many fewer are ours, and what both reach."""
    ours, theirs = (task.statements(side) for side in SIDES)
    reached = [] if count_only else [f"{task.run(side):.3f}" for side in SIDES]
    return [task.name, str(ours), str(theirs), f"{1 - ours / theirs:.0%}", *reached, task.measure]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, with a sum."""
    ours, theirs = (sum(int(r[i]) for r in rows) for i in (1, 2))
    head = ["task", "ours", "PyTorch", "fewer", *SIDES, "measure"]
    if len(rows[0]) < len(head):
        head = [*head[:4], head[-1]]
    lines = [head, *rows, ["all", str(ours), str(theirs), f"{1 - ours / theirs:.0%}"]]
    widths = [max(len(line[i]) for line in lines if i < len(line)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=False)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
