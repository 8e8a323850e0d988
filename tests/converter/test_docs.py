"""docs/converter.md: its Python runs, and its lists are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from converter.onnx_rules import RULES
from converter.passes import PASSES
from converter.pipeline import TOLERANCE
from tests.converter.torch_models import quiet
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "converter.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    with quiet():
        exec(compile(block, "docs/converter.md", "exec"), {})


def test_the_operators_of_the_page_are_those_that_have_a_rule() -> None:
    listed = PAGE.split("## ONNX operators")[1].split("float32.\n")[1].split()
    assert listed == sorted(RULES)


def test_the_passes_of_the_page_are_those_that_run_in_their_order() -> None:
    rows = re.findall(r"^   \| (`\w+`(?:, `\w+`)*) \|", PAGE, re.MULTILINE)
    listed = [name.strip("`") for row in rows for name in row.split(", ")]
    assert listed == [p.__name__ for p in PASSES]


def test_the_tolerances_of_the_page_are_the_defaults() -> None:
    for name, kind in (("float32", "none"), ("int8", "int8")):
        (limit,) = re.findall(rf"^\| {name} \|[^|]*\| ([0-9.e-]+)", PAGE, re.MULTILINE)
        assert float(limit) == TOLERANCE[kind]
