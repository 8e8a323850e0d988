"""ONNX's own node tests: those that passed when docs/operators.md was written still do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.converter.conformance import PAGE, PASSED, attempt, difference, node_tests, operator_of

LISTED = PASSED.read_text().split()
SHARDS = 8


@pytest.mark.parametrize("shard", range(SHARDS))
def test_what_passed_still_passes(shard: int) -> None:
    tests = node_tests()
    reasons = {name: attempt(tests[name]) for name in LISTED[shard::SHARDS]}
    assert {name: reason for name, reason in reasons.items() if reason} == {}


def test_the_page_tells_of_all_tests_and_of_those_listed() -> None:
    text = PAGE.read_text()
    passed, every = map(int, re.findall(r"\*\*(\d+) of (\d+) pass", text)[0])
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    assert (passed, every) == (len(LISTED), len(node_tests()))
    assert sum(int(p) for _, p, _ in rows) == passed
    assert {name for name, _, _ in rows} == {operator_of(t) for t in node_tests().values()}


@pytest.mark.parametrize(
    ("got", "reason"),
    [
        (np.float32([1, 2]), ""),
        (np.float64([1, 2]), "float64, want float32"),
        (np.float32([[1, 2]]), "[1, 2], want [2]"),
        (np.float32([1, 2.5]), "off by 0.5 at most"),
        (np.float32([1, np.nan]), "off by 0 at most"),
    ],
)
def test_another_type_shape_or_number_is_no_pass(got: np.ndarray, reason: str) -> None:
    assert difference(got, np.float32([1, 2]), 1e-3, 1e-7) == reason
