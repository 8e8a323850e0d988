"""Pages on training and data: their blocks run in their order, and print what they say."""

from __future__ import annotations

import linecache
import re
from typing import Any

import pytest

from tests.helpers import ROOT


def test_the_blocks_of_the_training_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("lite_runtime")
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python)?\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    scope: dict[str, Any] = {}
    for kind, text in blocks:
        if kind:
            exec(compile(text, "docs/training.md", "exec"), scope)
    printed = [text for kind, text in blocks if not kind]
    assert printed == [capsys.readouterr().out.removesuffix("\n")]


def test_the_blocks_of_the_data_page_run() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    for text in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        exec(compile(text, "docs/data.md", "exec"), scope)
    assert "features" in scope


def test_the_blocks_of_the_formulas_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Each block prints what stands below it; functions that are read need a file with their
    source."""
    pytest.importorskip("lite_runtime")
    page = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    printed = ""
    for n, (kind, text) in enumerate(
        re.findall(r"^```(python)?\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    ):
        if kind:
            name = f"docs/formulas.md, block {n}"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), scope)
            printed = capsys.readouterr().out or printed
        else:
            assert printed == text
