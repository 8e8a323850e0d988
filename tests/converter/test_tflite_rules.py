"""Operators of TFLite one by one, on the lite runtime against LiteRT's kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from converter import convert
from converter.errors import ConvertError
from converter.report import Report
from tests.converter.tflite_cases import FLOAT
from tests.converter.tflite_graphs import G, O, T, constant, file_of, one
from tests.converter.tflite_int_cases import DENSE_W, INT8, INT16, UINT8, qw, wide

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed: pip install ai-edge-litert")

# The integer kernels that are not met bit for bit, and why.
OFF_BY_ONE = {
    ("int8", "matmul"),  # on real numbers
    ("int8", "squared difference"),
    ("int8", "lstm"),
    ("int8", "svdf"),
    ("int8", "hard swish"),  # its fixed point has fewer bits than our table
    ("uint8", "average pool"),  # halves of numbers without a sign go up, of int8 away from 0
    ("uint8", "bilinear"),
    ("int16", "mean"),  # on real numbers
    ("int16", "fully connected"),  # all bits of its multiplier count, of convolutions' the upper 16
}
# The reference kernel of SUM gives other numbers than the optimised one, which is right.
BROKEN = {("int8", "sum")}
INTEGERS = [
    pytest.param(kind, name, data, id=f"{kind} {name}")
    for kind, family in (("int8", INT8), ("uint8", UINT8), ("int16", INT16))
    for name, data in family.items()
    if (kind, name) not in BROKEN
]


def report_of(data: bytes, folder: Path) -> Report:
    """Of a conversion that would be refused for no difference."""
    return convert(data, folder / "m.ms", check=6, tol=1e9)


@pytest.mark.parametrize("name", FLOAT)
def test_a_float_operator_gives_the_numbers_of_the_reference_kernels(
    name: str, tmp_path: Path
) -> None:
    report = report_of(FLOAT[name], tmp_path)
    assert report.reference.startswith("LiteRT")
    assert all(a.relative <= 1e-5 for a in report.agreement)


@pytest.mark.parametrize(("kind", "name", "data"), INTEGERS)
def test_an_integer_operator_gives_the_bits_of_the_reference_kernels(
    kind: str, name: str, data: bytes, tmp_path: Path
) -> None:
    report = report_of(data, tmp_path)
    assert report.reference.startswith("LiteRT")
    (found,) = report.agreement
    most = (found.step or 1.0) if (kind, name) in OFF_BY_ONE else 0.0
    assert found.max_difference <= most


def test_a_sum_of_int8_is_that_of_the_real_numbers(tmp_path: Path) -> None:
    import lite_runtime as lite

    report_of(INT8["sum"], tmp_path)
    x = np.random.default_rng(0).integers(-128, 128, (2, 7, 6)).astype(np.int8)
    y = lite.load(tmp_path / "m.ms", threads=1).run(x)
    exact = np.clip((x - 3.0).sum(1) * 0.05 / 0.2 - 5, -128, 127)
    assert np.abs(y - exact).max() <= 0.75  # rounded twice


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("conv", "quantized_conv2d"),
        ("depthwise", "quantized_depthwise_conv2d"),
        ("requantize", "requantize"),
        ("average pool", "quantized_avg_pool2d"),
        ("add", "quantized_add"),
        ("mul", "quantized_mul"),
    ],
)
def test_activations_of_16_bits_stay_integers(name: str, op: str, tmp_path: Path) -> None:
    assert report_of(INT16[name], tmp_path).nodes == {op: 1}


@pytest.mark.parametrize(("scale", "bias"), [(1e-5, 1), (0.5, 2**46 + 1), (0.5, -(2**62))])
def test_a_layer_of_16_bits_beyond_what_its_sums_hold_is_computed_in_floats(
    scale: float, bias: int, tmp_path: Path
) -> None:
    import lite_runtime as lite

    w = qw(DENSE_W, channels=False)
    unit = np.float32(0.5) * np.float32(w.scale)
    b = constant("b", np.full(5, bias, np.int64), scale=unit)
    data = one(
        "FULLY_CONNECTED", [wide("x", 3, 8, scale=0.5), w, b], wide("y", 3, 5, scale=scale),
        version=11,
    )  # fmt: skip
    assert "linear" in report_of(data, tmp_path).nodes
    x = np.random.default_rng(0).integers(-(2**15), 2**15, (3, 8)).astype(np.int16)
    y = lite.load(tmp_path / "m.ms", threads=1).run(x)
    exact = (x.astype(np.float64) @ DENSE_W.T.astype(np.float64) + bias) * float(unit[0]) / scale
    np.testing.assert_allclose(y, np.clip(np.round(exact), -(2**15), 2**15 - 1), atol=1)


@pytest.mark.parametrize("place", ["input 'x'", "result 'y'", "tensor 'c'"])
def test_numbers_of_16_bits_with_a_scale_and_no_sign_are_refused_in_one_line(
    place: str, tmp_path: Path
) -> None:
    x, y, c = (T(n, (4,), np.uint16 if n in place else np.int16, scale=0.5) for n in "xyc")
    c = replace(c, data=np.ones(4, c.dtype))
    with pytest.raises(ConvertError, match=f"{place}: uint16 with a scale, which is not supported"):
        report_of(one("MUL", [x, c], y, version=4), tmp_path)


@pytest.mark.parametrize(
    ("number", "text"),
    [(5, "strings"), (8, "complex64"), (18, "bfloat16"), (21, "float8_e4m3fn"), (99, "type 99")],
)
@pytest.mark.parametrize("place", ["input 'x'", "result 'y'"])
def test_types_that_nothing_computes_with_are_named(
    number: int, text: str, place: str, tmp_path: Path
) -> None:
    x, y = (T(n, (4,), number if n in place else np.float32) for n in "xy")
    with pytest.raises(ConvertError, match=f"{place}: .*{text}, "):
        report_of(one("CAST", [x], y, in_type=0, out_type=0), tmp_path)


def test_a_cast_to_16_bits_wraps_around(tmp_path: Path) -> None:
    import lite_runtime as lite

    x = np.array([1, 70000, -40000], np.int32)
    nodes = [O("CAST", ["x"], ["s"], {"in_type": 2, "out_type": 7}),
             O("CAST", ["s"], ["y"], {"in_type": 7, "out_type": 2})]  # fmt: skip
    tensors = [T("x", (3,), np.int32), T("s", (3,), np.int16), T("y", (3,), np.int32)]
    report_of(file_of(G(tensors, nodes, ["x"], ["y"])), tmp_path)
    y = lite.load(tmp_path / "m.ms", threads=1).run(x)
    np.testing.assert_array_equal(y, x.astype(np.int16))
