"""docs/converter.md: its Python runs, and its lists are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from converter.gen import page
from converter.onnx.reader import read_onnx
from converter.onnx.rules import RULES
from converter.onnx.rules.elementwise import DIRECT
from converter.passes import PASSES
from converter.quantization import TOLERANCE
from tests.converter.torch_models import quiet
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "converter.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    with quiet():
        exec(compile(block, "docs/converter.md", "exec"), {})


def test_the_rules_of_the_page_are_those_of_the_code() -> None:
    listed = PAGE.split("By rules of their own:")[1].split()
    assert listed == sorted(RULES.keys() - DIRECT.keys())


def test_the_tflite_operators_of_the_page_are_those_of_the_code() -> None:
    assert page() == PAGE, "docs/converter.md: run `make gen`"


EXPORTS = {
    "folded": {},
    "dynamo": {"dynamo": True, "verbose": False},
    "preserved": {"training": torch.onnx.TrainingMode.PRESERVE},
}


@pytest.mark.parametrize("way", EXPORTS)
def test_weights_keep_their_names_by_the_ways_of_the_page(way: str, tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    options = {"dynamo": False, **EXPORTS[way]}
    with quiet():
        torch.onnx.export(net, (torch.zeros(1, 1, 4, 4),), tmp_path / "net.onnx", **options)
    names = [w.name for w in read_onnx(tmp_path / "net.onnx").weights]
    assert ("0.weight" in names) == (way != "folded")


def test_the_passes_of_the_page_are_those_that_run_in_their_order() -> None:
    rows = re.findall(r"^   \| (`\w+`(?:, `\w+`)*) \|", PAGE, re.MULTILINE)
    listed = [name.strip("`") for row in rows for name in row.split(", ")]
    assert listed == [p.__name__ for p in PASSES]


def test_the_tolerances_of_the_page_are_the_defaults() -> None:
    for name, kind in (("float32", "none"), ("int8", "int8")):
        (limit,) = re.findall(rf"^\| {name}(?:, [^|]*)? \|[^|]*\| ([0-9.e-]+)", PAGE, re.MULTILINE)
        assert float(limit) == TOLERANCE[kind]
