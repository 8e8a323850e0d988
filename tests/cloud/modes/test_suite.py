"""The cloud's own tests under the other mode."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cloud import modes
from tests.helpers import ROOT

PART = (
    "test_differentiate.py", "test_custom.py", "nn/test_module.py", "nn/test_tracing.py",
    "nn/test_loss.py", "nn/test_losses_against_torch.py", "parse/test_programs.py",
    "parse/test_gradients.py", "train/test_graphs.py",
)  # fmt: skip


@pytest.mark.parametrize("mode", [m for m in modes.MODES if m != modes.mode()])
def test_a_part_of_the_suite_passes_in_the_other_mode_too(mode: str) -> None:
    files = [str(ROOT / "tests/cloud" / name) for name in PART]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files],
        cwd=ROOT, env={**os.environ, "MINDSPAN_MODE": mode}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_environment_says_in_which_mode_a_process_starts() -> None:
    code = "from cloud import modes; print(modes.settings().mode, modes.settings().kernels)"
    env = {**os.environ, "MINDSPAN_MODE": "eager", "MINDSPAN_KERNELS": "ref"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["eager", "ref"]
