"""docs/compression.md: its blocks run in their order, and its printed text is what is printed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.helpers import ROOT


def test_the_blocks_of_the_compression_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "compression.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python)?\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    scope: dict[str, Any] = {}
    for kind, text in blocks:
        if kind:
            exec(compile(text, "docs/compression.md", "exec"), scope)
    assert [text for kind, text in blocks if not kind] == [capsys.readouterr().out]
