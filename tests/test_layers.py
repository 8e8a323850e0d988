"""Who may import whom: the layers of the house."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.helpers import ROOT

OURS = {"ir", "cloud", "converter", "fl_server", "lite_runtime", "tests", "bench", "examples"}
MAY_IMPORT = {
    "lite_runtime": set(),
    "ir": set(),
    "cloud": {"ir", "lite_runtime"},
    "converter": {"ir", "cloud", "lite_runtime"},
    "fl_server": set(),
    "fl_server/device": {"lite_runtime"},
}
FOUNDATION = {"numpy", "flatbuffers"}  # beside the standard library, all that `ir` may import
EXTRAS = {"cryptography"}  # to sign model files: imported where it is used, never with `ir` itself


def layer_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return "fl_server/device" if parts[:2] == ("fl_server", "device") else parts[0]


def imports_of(path: Path) -> set[str]:
    """The top-level names that a file imports, wherever in it."""
    return names_in(ast.walk(ast.parse(path.read_text(), str(path))))


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; say the package's name"
            found.add((node.module or "").partition(".")[0])
    return found


FILES = [
    pytest.param(path, id=str(path.relative_to(ROOT)))
    for layer in sorted({name.partition("/")[0] for name in MAY_IMPORT})
    for path in sorted((ROOT / layer).rglob("*.py"))
]


@pytest.mark.parametrize("path", FILES)
def test_a_file_imports_only_from_its_own_layer_and_those_below(path: Path) -> None:
    layer = layer_of(path)
    allowed = MAY_IMPORT[layer] | {layer.partition("/")[0]}
    assert imports_of(path) & OURS <= allowed


def test_ir_stands_on_numpy_and_flatbuffers_alone() -> None:
    ours = sorted((ROOT / "ir").rglob("*.py"))
    allowed = FOUNDATION | {"ir"} | sys.stdlib_module_names
    assert {name for path in ours for name in imports_of(path)} <= allowed | EXTRAS
    at_import = {name for path in ours for name in names_in(ast.parse(path.read_text()).body)}
    assert at_import <= allowed


def rooms_read_by(package: str) -> dict[str, set[str]]:
    """Each room of a package, a folder or a file in it, with the rooms that it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        if parts[0] == "__init__":
            continue  # the package's face hands on what its rooms have
        read = found.setdefault(parts[0], set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == package:
                read.update(a.name for a in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
                read.add(str(node.module).split(".")[1])
    return {room: (read & found.keys()) - {room} for room, read in found.items()}


@pytest.mark.parametrize("package", ["cloud", "converter", "fl_server", "lite_runtime"])
def test_imports_between_the_rooms_of_a_package_run_one_way(package: str) -> None:
    rooms = rooms_read_by(package)
    while free := [room for room, read in rooms.items() if not read]:
        rooms = {room: read - set(free) for room, read in rooms.items() if room not in free}
    assert not rooms, f"these import each other: {rooms}"


def test_a_program_that_trains_imports_nothing_that_it_may_not_need() -> None:
    code = "import sys, lite_runtime; from cloud import jit, nn, ops, train; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rare = {
        "numpy.random", "multiprocessing", "tqdm", "wave", "ir.text_parser", "ir.index_reader",
        "ir.formula", "cloud.emit", "cloud.formula", "cloud.data.image",
    }  # fmt: skip
    assert not rare & set(done.stdout.split())
