"""What a node's speed is measured by: the multiply-adds of its shapes."""

import pytest

from lite_runtime.work import multiply_adds

X, W, Y = (2, 8, 8, 6), (10, 3, 3, 6), (2, 8, 8, 10)
CONV = 2 * 8 * 8 * 10 * 3 * 3 * 6
DEPTHWISE = 2 * 8 * 8 * 6 * 3 * 3


@pytest.mark.parametrize(
    ("op", "inputs", "result", "count"),
    [
        ("conv2d", [X, W], Y, CONV),
        ("conv2d_add", [X, Y, W], Y, CONV),
        ("quantized_conv2d", [X, W, (10,)], Y, CONV),
        ("conv2d_dx", [Y, W], X, CONV),
        ("conv2d_dw", [X, Y], W, CONV),
        ("depthwise_conv2d", [X, (3, 3, 6)], X, DEPTHWISE),
        ("depthwise_conv2d_dx", [X, (3, 3, 6)], X, DEPTHWISE),
        ("depthwise_conv2d_dw", [X, X], (3, 3, 6), DEPTHWISE),
        ("linear", [(4, 5, 7), (3, 7)], (4, 5, 3), 4 * 5 * 3 * 7),
        ("compressed_linear", [(5, 7), (3, 4)], (5, 3), 5 * 3 * 7),
        ("matmul", [(2, 5, 7), (7, 3)], (2, 5, 3), 2 * 5 * 3 * 7),
        ("matmul", [(7, 5), (7, 3)], (5, 3), 5 * 3 * 7),
        ("matmul", [(0, 7), (7, 3)], (0, 3), 0),
        ("lstm", [(2, 5, 12), (12, 3), (2, 3), (2, 3)], (2, 5, 3), 2 * 5 * 12 * 3),
        ("gru", [(2, 5, 9), (9, 3), (2, 3), (3,)], (2, 5, 3), 2 * 5 * 9 * 3),
        ("attention", [(2, 4, 8), (2, 6, 8), (2, 6, 5), ()], (2, 4, 5), 2 * 4 * 6 * (8 + 5)),
        ("add", [X, X], X, 0),
    ],
)
def test_every_product_counts_what_its_loops_multiply(op, inputs, result, count) -> None:
    assert multiply_adds(op, inputs, [result]) == count
