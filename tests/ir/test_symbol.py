"""Free dimensions: arithmetic, text and evaluation."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.errors import ShapeError
from ir.symbol import (
    MAX_TERMS,
    Dim,
    evaluate,
    maximum,
    minimum,
    parse,
    postfix,
    substitute,
    symbol,
    symbols,
)

OPERATIONS = {
    "+": operator.add,
    "*": operator.mul,
    "//": operator.floordiv,
    "min": min,
    "max": max,
}
SIZES = {"a": 2, "b": 3, "c": 7}
a, b, c = map(symbol, SIZES)


def _divided(x: Dim, y: Dim) -> Dim:
    return x // y if isinstance(y, int) and y > 0 else x // (maximum(y, 1))


sizes: st.SearchStrategy[Dim] = st.recursive(
    st.one_of(st.integers(-9, 9), st.sampled_from([a, b, c])),
    lambda inner: st.one_of(
        st.builds(lambda x, y: x + y, inner, inner),
        st.builds(lambda x, y: x - y, inner, inner),
        st.builds(lambda x, y: x * y, inner, inner),
        st.builds(_divided, inner, inner),
        st.builds(minimum, inner, inner),
        st.builds(maximum, inner, inner),
    ),
    max_leaves=8,
)


@given(sizes)
def test_text_parses_back_to_an_equal_size(size: Dim) -> None:
    assert parse(str(size)) == size


@given(sizes)
def test_text_means_what_python_means_by_it(size: Dim) -> None:
    assert eval(str(size), {"min": min, "max": max, **SIZES}) == evaluate(size, SIZES)


@given(sizes, sizes)
def test_arithmetic_on_symbols_agrees_with_arithmetic_on_numbers(x: Dim, y: Dim) -> None:
    n, m = evaluate(x, SIZES), evaluate(y, SIZES)
    assert evaluate(x + y, SIZES) == n + m
    assert evaluate(x - y, SIZES) == n - m
    assert evaluate(x * y, SIZES) == n * m
    assert evaluate(minimum(x, y), SIZES) == min(n, m)
    assert evaluate(maximum(x, y), SIZES) == max(n, m)
    assert evaluate(x // 3, SIZES) == n // 3
    assert evaluate(x // maximum(y, 1), SIZES) == n // max(m, 1)


@given(sizes)
def test_postfix_tokens_compute_the_size(size: Dim) -> None:
    stack: list[int] = []
    for token in [size] if isinstance(size, int) else postfix(size):
        if isinstance(token, int):
            stack.append(token)
        elif token.startswith("$"):
            stack.append(SIZES[token[1:]])
        else:
            y, x = stack.pop(), stack.pop()
            stack.append(OPERATIONS[token](x, y))
    assert stack == [evaluate(size, SIZES)]


@given(sizes)
def test_substituting_every_symbol_leaves_the_number(size: Dim) -> None:
    assert substitute(size, dict(SIZES)) == evaluate(size, SIZES)


def test_sizes_that_are_always_equal_compare_equal() -> None:
    assert (a + b) * c == c * b + a * c
    assert a - a == 0
    assert (6 * a + 4) // 2 == 3 * a + 2
    assert (a * b) // b == a
    assert hash(a + b) == hash(b + a)
    assert minimum(a + b, b + a) == a + b
    assert a != b


def test_a_divisor_of_a_sum_stays_in_brackets() -> None:
    assert str(a // (b + 1)) == "(a//(b + 1))"
    assert str(2 * ((a + 1) // 4)) == "2*((a + 1)//4)"


def test_symbols_are_found_inside_operations() -> None:
    assert symbols(minimum(a, (b + 1) // 2) + 3) == {"a", "b"}


@pytest.mark.parametrize("text", ["a +", "a ** 2", "f(a)", "min(a)", "1.5", "True", "a; b", "-a.b"])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="want integers, names"):
        parse(text)


def test_dividing_by_less_than_one_is_refused() -> None:
    with pytest.raises(ValueError, match="want a divisor of at least 1"):
        _ = a // 0


def test_a_free_dimension_needs_an_identifier() -> None:
    with pytest.raises(ValueError, match="want an identifier"):
        symbol("batch size")


def test_a_size_whose_sum_of_products_explodes_is_refused_at_once() -> None:
    total: Dim = 0
    for i in range(16):
        total = total + symbol(f"s{i}")
    with pytest.raises(ShapeError, match="a product of 2176 terms, want a size of at most 256"):
        _ = total * total * total  # the square has 136 terms
    for i in range(MAX_TERMS - 16):
        total = total + symbol(f"t{i}")
    with pytest.raises(ShapeError, match="a sum of 257 terms, want a size of at most 256"):
        _ = total + symbol("one_more")
