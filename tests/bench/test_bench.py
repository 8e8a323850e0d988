"""The benchmark's own code, on settings so small that its figures mean nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench import __main__ as command
from bench import formulas, infer, matmul, numeric, opening, operators, secagg, training
from bench.timing import Row, Turns, rows, take_turns

ONCE = Turns(rounds=1, burst_s=0.0, rest_s=0.0)


def test_contenders_take_turns_in_bursts_of_equal_length() -> None:
    bursts: list[tuple[str, int]] = []

    def contender(name: str, seconds: float):
        def run(calls: int) -> float:
            bursts.append((name, calls))
            return seconds * calls

        return run

    found = take_turns(
        {"ours": contender("ours", 0.01), "theirs": contender("theirs", 0.05)},
        Turns(rounds=2, burst_s=0.1),
        rest=lambda seconds: None,
    )
    measured = [b for b in bursts if b[1] > 1]
    assert measured == [("ours", 10), ("theirs", 2)] * 2
    assert found["theirs"].ratio == pytest.approx(5)
    assert found["ours"].median_ms == pytest.approx(10)


def test_a_ratio_compares_bursts_of_the_same_round() -> None:
    # The machine has something else to do: in the second round, and while they have the third.
    load = iter([1] * 4 + [1] * 4 + [9] * 4 + [1, 1, 9, 9])

    found = take_turns(
        {"ours": lambda calls: calls * next(load), "theirs": lambda calls: 2 * calls * next(load)},
        Turns(rounds=3, burst_s=0.0),
        rest=lambda seconds: None,
    )
    [row] = rows("part", "case", 1, found, "note")
    assert (row.peer, row.ratio) == ("theirs", 2)


@pytest.mark.parametrize("name", training.CASES)
def test_both_nets_start_from_the_same_loss_and_stay_together(name: str) -> None:
    off = training.trajectories(training.CASES[name], 3)["ours"]
    assert off[0] < 1e-6
    assert off.max() < 1e-5


def test_the_parts_give_rows_that_agree_with_the_peers() -> None:
    found = [
        *infer.measure(ONCE, [1], ["lenet"]),
        *training.measure(ONCE, [1], 2, ["mlp"]),
        *operators.measure(ONCE, [1], ["where by pixel", "mean of channels"]),
        *matmul.measure(ONCE, 1, [17]),
    ]
    assert [(r.part, r.case) for r in found] == [
        ("inference", "lenet float32"), ("inference", "lenet int8"), ("training", "mlp"),
        ("training", "mlp"), ("operators", "where by pixel"), ("operators", "mean of channels"),
        ("matmul", "17 x 17"),
    ]  # fmt: skip
    assert all(r.ratio > 0 for r in found)
    for r in found:
        if r.note.startswith("ours off by"):
            assert float(r.note.split()[-1]) < 1e-5


@pytest.mark.parametrize("name", operators.CASES)
def test_operators_are_the_same_function_on_both_sides(name: str) -> None:
    [row] = operators.measure(ONCE, [1], [name])
    assert float(row.note.removeprefix("ours off by ")) < 1e-5


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # in torch.func
def test_derivatives_are_right_on_both_sides() -> None:
    found = list(numeric.measure(ONCE, [1]))
    assert [r.case for r in found] == list(numeric.CASES)
    for r in found:
        errors = [float(part.split()[-1]) for part in r.note.split(", ")]
        assert len(errors) == 2
        assert max(errors) < 1e-5


@pytest.mark.parametrize("name", formulas.CASES)
def test_formulas_are_the_functions_of_hand_written_operators(name: str) -> None:
    [row] = formulas.measure(ONCE, [1], [name])
    assert (row.part, row.peer) == ("formulas", "operator")
    assert float(row.note.removeprefix("ours off by ")) < 1e-5


def test_products_are_right() -> None:
    import lite_runtime as lite

    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    found = lite.load(matmul.product(3)).run({"a": a, "b": a})["y"]
    np.testing.assert_array_equal(found, a @ a)


def test_the_sum_of_secure_aggregation_is_checked() -> None:
    assert secagg.measure(clients=8, length=1000, dropped=1)["exact"] is True


def test_the_command_prints_a_table_and_writes_a_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "deep/report.json"
    arguments = ["--quick", "--parts", "matmul", "--threads", "1", "--output", str(output)]
    assert command.main(arguments) == 0
    report = json.loads(output.read_text())
    assert [r["case"] for r in report["rows"]] == ["64 x 64", "256 x 256"]
    printed = capfd.readouterr().out
    assert command.table([Row(**r) for r in report["rows"]]) in printed


def test_peers_are_not_told_of_another_processor() -> None:
    given = {"OPENBLAS_CORETYPE": "Nehalem", "PATH": "/bin"}
    assert command.worker_environment(given, 2, avx2=False) == {
        "PATH": "/bin",
        "OPENBLAS_NUM_THREADS": "2",
        "OMP_NUM_THREADS": "2",
    }
    assert command.worker_environment(given, 2, avx2=True)["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_opening_is_compared_with_a_hash_for_each_kind_of_file() -> None:
    found = list(opening.measure(ONCE, 1, side=20))
    assert [row.case.split(",")[0] for row in found] == list(opening.KINDS)
    assert all(row.peer == "sha256" and row.ours > 0 and row.theirs > 0 for row in found)
