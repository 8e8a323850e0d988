"""The binary interface of the library, as text: see `main`, whose output is abi.txt.

A line for each exported function, and for each struct of lite.h its size and where its fields lie,
as a C compiler of a 64-bit machine sees them. A change of `abi.txt` breaks programs that are built
already, but for new functions, and new fields at the end of `lite_options`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from tests.helpers import ROOT
from tests.native import native_build, run_tool

HEADER = ROOT / "lite_runtime/include/lite/lite.h"
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;", re.S)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def functions_declared() -> list[str]:
    """The names of the functions of lite.h, in order."""
    text = re.sub(r"(?m)^#.*$", "", COMMENT.sub("", HEADER.read_text()))
    return re.findall(r"LITE_API [^;(]*?(\w+)\(", text)


def functions_exported(library: Path) -> list[str]:
    """The names that a shared library shows."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return sorted(line.split()[-1] for line in lines.splitlines())


def structs() -> dict[str, list[str]]:
    """The fields of each struct of lite.h by its name."""
    found = {}
    for name, body in STRUCT.findall(COMMENT.sub("", HEADER.read_text())):
        fields = []
        for declaration in body.split(";"):
            names = declaration.split(",")
            fields += [re.search(r"(\w+)\s*(\[.*\])?\s*$", n).group(1) for n in names if n.strip()]
        found[name] = fields
    return found


def layout() -> list[str]:
    """A line for each struct: its size, and the offset of each field, by a C compiler."""
    lines = [
        "#include <stddef.h>",
        "#include <stdio.h>",
        f'#include "{HEADER}"',
        "int main(void) {",
    ]
    for name, fields in structs().items():
        text = " ".join(f"{field} %zu" for field in fields)
        places = "".join(f", offsetof({name}, {field})" for field in fields)
        lines.append(f'printf("{name} %zu: {text}\\n", sizeof({name}){places});')
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "layout.c", Path(folder) / "layout"
        source.write_text("\n".join([*lines, "return 0; }"]) + "\n")
        run_tool("cc", "-std=c99", str(source), "-o", str(program))
        done = subprocess.run([program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main() -> None:
    library = native_build("lite_shared") / "lite_runtime/liblite.so"
    print("\n".join([*functions_exported(library), *layout()]))


if __name__ == "__main__":
    main()
