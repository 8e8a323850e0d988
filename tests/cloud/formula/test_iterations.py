"""Structural zeros are not computed: how often loops come round, beside what counting finds."""

from __future__ import annotations

import itertools

import pytest

from cloud.autodiff import vjp
from cloud.formula import FormulaError
from cloud.formula.report import Iterations, of_graph
from ir.errors import ShapeError
from ir.graph import Graph, Value
from tests.cloud.formula.operators import (
    AVERAGE_POOL,
    CASES,
    CONV2D,
    CONV_TRANSPOSED,
    MAX_POOL,
    PAD,
    SLICE,
)

MOST = 1.05  # executed for each useful iteration


def taps(size: int, window: int, stride: int, pad: int = 0, dilation: int = 1) -> int:
    """Pairs of a window and a place in it that lie inside of a line, by counting them."""
    count = (size + 2 * pad - dilation * (window - 1) - 1) // stride + 1
    pairs = itertools.product(range(count), range(window))
    return sum(0 <= i * stride + k * dilation - pad < size for i, k in pairs)


def rows(report: tuple[Iterations, ...]) -> dict[str, Iterations]:
    return {r.what: r for r in report}


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize(("pad", "dilation"), [(0, 1), (1, 1), (2, 2)])
def test_a_strided_convolution_and_its_gradients_run_what_is_of_use(
    stride: int, pad: int, dilation: int
) -> None:
    attrs = {"stride": stride, "pad": pad, "dilation": dilation}
    report = rows(CONV2D.iterations((2, 13, 11, 3), (4, 3, 2, 3), **attrs))
    useful = taps(13, 3, stride, pad, dilation) * taps(11, 2, stride, pad, dilation) * 2 * 3 * 4
    assert report.keys() == {"y", "y by x", "y by w"}
    for row in report.values():
        assert row.useful == useful
        assert useful <= row.executed <= MOST * useful


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_pooling_and_its_gradients_run_what_is_of_use(size: int, stride: int) -> None:
    report = rows(MAX_POOL.iterations((2, 12, 13, 3), size=size, stride=stride))
    useful = taps(12, size, stride) * taps(13, size, stride) * 2 * 3
    assert report.keys() == {"y", "equal to y", "y by x"}
    average = rows(AVERAGE_POOL.iterations((23,), size=size, stride=stride, pad=size // 2))
    line = taps(23, size, stride, size // 2)
    for row, wanted in [(r, useful) for r in report.values()] + [
        (r, line) for r in average.values()
    ]:
        assert row.useful == wanted
        assert wanted <= row.executed <= MOST * wanted


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_a_transposed_convolution_that_scatters_runs_as_a_gather(stride: int) -> None:
    report = rows(CONV_TRANSPOSED.iterations((7, 3), (3, 3, 2), stride=stride))
    for row in report.values():
        assert row.useful == 7 * 3 * 3 * 2
        assert row.executed <= MOST * row.useful


@pytest.mark.parametrize(
    ("formula", "attrs", "useful"),
    [
        (PAD, {"before": 40, "after": 60}, 5 * 7),
        (SLICE, {"start": 2, "step": 1}, 3 * 7),
        (SLICE, {"start": 0, "step": 2}, 3 * 7),
        (SLICE, {"start": 1, "step": 3}, 2 * 7),
    ],
)
def test_padding_and_slices_touch_what_there_is(formula, attrs, useful) -> None:
    for row in formula.iterations((5, 7), **attrs):
        assert row.useful == useful
        assert row.executed <= MOST * useful


@pytest.mark.parametrize("name", CASES)
def test_no_loop_of_first_and_second_derivatives_turns_in_vain(name: str) -> None:
    case = CASES[name]
    values = tuple(Value(s) for s in case.shapes)
    graph = Graph(values, (case.ours(*values, **case.attrs),))
    for g in (graph, vjp(graph), vjp(vjp(graph))):
        for row in of_graph(g):
            assert row.useful <= row.executed <= MOST * row.useful


def test_a_report_is_a_table() -> None:
    assert str(SLICE.iterations((9, 2), step=4)) == (
        "        useful  executed  executed / useful\n"
        "y            4         4              1.000\n"
        "y by x       4         4              1.000"
    )


def test_what_a_report_cannot_count_is_said() -> None:
    from ir.symbol import symbol

    with pytest.raises(ShapeError, match="a free size, want shapes of numbers"):
        PAD.iterations((symbol("n"), 3))
    with pytest.raises(FormulaError, match="2 inputs, want x"):
        PAD.iterations((3, 3), (3, 3))
