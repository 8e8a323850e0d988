"""Print lines of code by folder, the largest files and the longest functions: `make size`."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from pathlib import Path

ENDINGS = {".py", ".cc", ".h", ".hpp", ".inc", ".fbs", ".java", ".js"}
GENERATED = ("lite_runtime/gen/", "ir/generated/")
MOST = 10


def code_lines(text: str) -> int:
    """Lines that hold something, comments and docstrings among them."""
    return sum(bool(line.strip()) for line in text.splitlines())


def functions(path: Path, text: str) -> list[tuple[int, str]]:
    """(lines, place) of every Python function."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            found.append((length, f"{path}:{node.lineno} {node.name}"))
    return found


def main() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    paths = [Path(p) for p in listed.split("\n") if Path(p).suffix in ENDINGS]
    paths = [p for p in paths if p.exists() and not str(p).startswith(GENERATED)]
    folders: Counter[str] = Counter()
    sizes, lengths = [], []
    for path in paths:
        text = path.read_text()
        lines = code_lines(text)
        top = path.parts[0] if len(path.parts) > 1 else "."
        folders[top] += lines
        if path.parts[:2] == ("lite_runtime", "kernels"):
            folders["  of which lite_runtime/kernels"] += lines
        sizes.append((lines, str(path)))
        if path.suffix == ".py":
            lengths += functions(path, text)
    for folder, lines in folders.items():
        print(f"{lines:7} {folder}")
    total = sum(n for name, n in folders.items() if not name.startswith(" "))
    print(f"{total:7} in all, without generated files")
    for title, rows in (("largest files", sizes), ("longest Python functions", lengths)):
        print(f"\n{title}")
        for lines, place in sorted(rows, reverse=True)[:MOST]:
            print(f"{lines:7} {place}")


if __name__ == "__main__":
    main()
