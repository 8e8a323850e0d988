"""Write the list of TFLite operators into docs/converter.md; run by `make gen`."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from converter.tflite.rules import MOVES, PLAIN, STORED

PAGE = Path(__file__).parents[1] / "docs/converter.md"
BEGIN, END = "<!-- TFLite operators, by make gen -->", "<!-- end of TFLite operators -->"


def page() -> str:
    """docs/converter.md as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    groups = (
        ("Exact on stored numbers, and on floats", STORED.keys()),
        ("Elements are moved, whatever they are", MOVES.keys()),
        ("On floats, and on integers by way of floats", PLAIN.keys() - STORED.keys()),
    )
    listed = "\n\n".join(f"{title}:\n\n{_filled(names)}" for title, names in groups)
    return f"{before}{BEGIN}\n{listed}\n{END}{after}"


def _filled(names: object) -> str:
    return textwrap.fill(" ".join(sorted(names)), 112, break_on_hyphens=False)  # type: ignore[call-overload]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(), encoding="utf-8")
