"""The tasks written twice learn the same, and ours take fewer statements."""

from __future__ import annotations

import pytest

from bench.lines.__main__ import main
from bench.lines.tasks import TASKS, Task, statements

LEAST_ACCURACY = 0.9
# The noise alone loses 0.69; the images' own variance is 0.14.
MOST_LOSS = {"transformer": 0.85, "autoencoder": 0.05}


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_both_programs_learn_the_same(task: Task) -> None:
    ours, theirs = task.run("ours"), task.run("pytorch")
    if task.measure == "accuracy":
        assert min(ours, theirs) > LEAST_ACCURACY
        assert ours == pytest.approx(theirs, abs=0.05)
    else:
        assert max(ours, theirs) < MOST_LOSS[task.name]
        assert ours == pytest.approx(theirs, rel=0.1)


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_ours_take_a_fifth_less(task: Task) -> None:
    assert task.statements("ours") <= 0.8 * task.statements("pytorch")


def test_statements_count_once_however_they_are_broken() -> None:
    source = '''
"""What it is."""
import a; import b

def f(x):
    """What comes out."""
    for i in range(3):  # one
        x = g(
            x,
            i,
        )
    return x
'''
    assert statements(source) == 6


def test_the_command_prints_a_row_for_each_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["task", *(t.name for t in TASKS), "all"]
