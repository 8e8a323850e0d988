"""Every promise of every operator, sample by sample: made from the table, so that a new operator
needs no new test."""

from __future__ import annotations

import numpy as np
import pytest

import ir.ops  # noqa: F401
from ir.cases import arrays_of, results_of, samples
from ir.dtype import DType
from ir.errors import AttrError, ShapeError
from ir.gen import outputs
from ir.graph import Value
from ir.op import OPS, Case, NoGrad, Op
from ir.symbol import evaluate, symbol
from tests.helpers import ROOT, check_vjp, sample_arrays64, sample_graph

ALL_OPS = [pytest.param(op, id=op.name) for op in OPS.values()]
ALL_SAMPLES = [pytest.param(op, case, id=f"{op.name}[{case}]") for op, case in samples()]
# The gradient is meant to differ from the function's own; each has a test of its own.
SURROGATE_GRADIENTS = {"fake_quantize", "stop_gradient", "compressed_linear"}
DIFFERENTIABLE = [
    pytest.param(op, case, id=f"{op.name}[{case}]")
    for op, case in samples()
    if not isinstance(op.grad, NoGrad) and op.name not in SURROGATE_GRADIENTS
]


@pytest.mark.parametrize("op", ALL_OPS)
def test_an_operator_is_documented_and_has_samples_and_a_stated_gradient(op: Op) -> None:
    assert op.doc, "want a docstring: formula, shapes, dtypes, paper"
    assert op.samples, "want at least one sample"
    assert isinstance(op.grad, NoGrad) or callable(op.grad)


@pytest.mark.parametrize("op", ALL_OPS)
def test_every_reference_kernel_has_a_sample(op: Op) -> None:
    sampled = {repr(case.inputs[0].dtype) for case in op.samples if case.inputs and case.inputs[0]}
    words = {"boolean" if dtype == "bool" else dtype for dtype in sampled}  # as kernels are named
    missing = set(op.kernels) - words - {"any"}
    assert not missing or not op.inputs, f"no sample whose first input is {missing}"


@pytest.mark.parametrize("op", ALL_OPS)
def test_wrong_inputs_and_attributes_are_named(op: Op) -> None:
    leaves = _leaves(op.samples[0])
    attrs = op.samples[0].attrs
    with pytest.raises(AttrError, match=f"{op.name}: no attribute .'colour'"):
        op.node(leaves, {**attrs, "colour": 3})
    least = len(op.inputs) - op.optional - op.variadic
    if least:
        with pytest.raises(AttrError, match=f"{op.name}: .*(want|missing)"):
            op.node(leaves[: least - 1], attrs)
    if not op.variadic:
        with pytest.raises(AttrError, match=f"{op.name}: {len(op.inputs) + 1} inputs, want"):
            op.node([Value((2,))] * (len(op.inputs) + 1), attrs)
    for name in op.attrs:
        with pytest.raises(AttrError, match=f"{op.name}: {name} is"):
            op.node(leaves, {**attrs, name: object()})


@pytest.mark.parametrize(("op", "case"), ALL_SAMPLES)
def test_shape_and_dtype_rules_agree_with_the_reference(op: Op, case: Case) -> None:
    got = [(y.shape, y.dtype.numpy) for y in sample_graph(op, case).outputs]
    assert got == [(y.shape, y.dtype) for y in results_of(op, case)]


@pytest.mark.parametrize(("op", "case"), ALL_SAMPLES)
def test_a_reference_leaves_its_inputs_alone(op: Op, case: Case) -> None:
    arrays = arrays_of(op, case)
    before = [None if x is None else x.copy() for x in arrays]
    op.ref(*arrays, **op.checked_attrs(case.attrs))
    for x, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x, old)


@pytest.mark.parametrize(("op", "case"), ALL_SAMPLES)
def test_shape_rule_agrees_with_itself_on_a_free_first_size(op: Op, case: Case) -> None:
    """Where the rule takes a symbol for the common first size, any number in its place fits."""
    size = next((s.shape[0] for s in case.inputs if s and s.shape), 0)
    try:
        free = op.node(_leaves(case, size, symbol("n")), case.attrs).results if size else ()
    except ShapeError:
        free = ()
    if not free:
        pytest.skip("the first size is fixed here")
    for n in (size, size + 1, size + 4):
        try:
            fixed = op.node(_leaves(case, size, n), case.attrs).results
        except ShapeError:
            assert n != size
            continue
        for y, want in zip(free, fixed, strict=True):
            assert tuple(evaluate(d, {"n": n}) for d in y.shape) == want.shape


@pytest.mark.parametrize(("op", "case"), DIFFERENTIABLE)
def test_gradient_agrees_with_finite_differences_to_second_order(op: Op, case: Case) -> None:
    graph = sample_graph(op, case)
    if any(y.dtype is DType.f16 for y in graph.outputs):
        pytest.skip("float16 results are too coarse for differences")
    rng = np.random.default_rng(0)
    first, arrays = check_vjp(graph, sample_arrays64(op, case), rng)
    check_vjp(first, arrays, rng)


def test_generated_files_are_fresh() -> None:
    for path, text in outputs().items():
        assert path.read_text() == text, f"{path.relative_to(ROOT)}: run `make gen`"


def _leaves(case: Case, size: int = 0, new: object = None) -> list[Value | None]:
    """The sample's inputs as values; a first size of `size` is replaced by `new`."""
    out: list[Value | None] = []
    for spec in case.inputs:
        shape = spec.shape if spec else ()
        if new is not None and shape and shape[0] == size:
            shape = (new, *shape[1:])  # type: ignore[assignment]
        out.append(Value(shape, spec.dtype) if spec else None)
    return out
