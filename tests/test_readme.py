"""The README's code runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_code_block_of_the_readme_runs_by_itself(number: int, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(BLOCKS[number])
    run = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    if "accuracy" in run.stderr:  # the training example: what it learned survives the phone
        assert float(run.stdout.split()[-1]) > 0.95


def test_every_file_that_the_documents_point_to_exists() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (ROOT / target).exists(), f"{document.name} points to {target}"
