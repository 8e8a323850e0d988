"""Random programs of loops, branches, closures and recursion agree with a tape and with slopes."""

from __future__ import annotations

import pytest

from tests.cloud.parse.random_programs import (
    check,
    check_reference_kernels,
    check_second_derivatives,
    program,
)

COUNT = 200


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_program_agrees_with_a_tape_and_with_finite_differences(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(0, COUNT, 2))
def test_a_random_program_is_the_same_bits_in_both_modes_on_the_reference_kernels(
    seed: int,
) -> None:
    check_reference_kernels(seed)


@pytest.mark.parametrize("seed", range(0, COUNT, 8))
def test_second_derivatives_of_a_random_program_are_the_same_bits_in_both_modes(seed: int) -> None:
    check_second_derivatives(seed)


def test_random_programs_hold_what_they_are_to_test() -> None:
    text = "".join(program(seed)[1] for seed in range(COUNT))
    for word in ("while ", "for ", "break", "continue", "return", "lambda", "def r", "elif", "and"):
        assert text.count(word) > 20, word
