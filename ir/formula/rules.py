"""Shapes, gradients, the reference and samples of the operator `formula`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, reduce

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.formula.derive import adjoint, parts, ties
from ir.formula.domain import minus, plus, shifted, unit
from ir.formula.evaluate import evaluate as evaluated
from ir.formula.expression import Index, Load, Number, apply
from ir.formula.nest import Nest
from ir.formula.program import MAX, MIN, SUM, read
from ir.formula.sizes import row_of
from ir.formula.work import check_work
from ir.graph import Value
from ir.op import OPS, case
from ir.symbol import Dim


@lru_cache(maxsize=1024)
def _read(words, inputs):
    return read(words, inputs)


def shape(*shapes, sizes, program):
    parsed = _read(program, len(shapes))
    if parsed.sizes != len(sizes):
        raise ShapeError(f"formula: {len(sizes)} sizes, want {parsed.sizes}")
    for piece in parsed.pieces:
        for x in piece.loads:
            if hasattr(x, "rows") and len(x.rows) != len(shapes[x.tensor]):
                rank = len(shapes[x.tensor])
                raise ShapeError(f"formula: {len(x.rows)} indices of an input of rank {rank}")
    result = tuple(_dim(r, sizes) for r in parsed.shape)
    if all(isinstance(n, int) for n in (*result, *sizes, *(n for s in shapes for n in s))):
        check_work(parsed, shapes, result, sizes)
    return result


def _dim(row, sizes) -> Dim:
    total: Dim = row[0]
    for c, size in zip(row[1:], sizes, strict=True):
        total = total + size * c if c else total
    return total


def dtype(*dtypes, sizes, program):
    if set(dtypes) != {DType.f32} and set(dtypes) != {DType.f64}:
        raise DTypeError(f"formula: inputs of {list(dtypes)}; want f32")
    return dtypes[0]


def grad(g, y, *xs, sizes, program):
    kind = _read(program, len(xs)).kind
    more = (g,)
    if kind != SUM:
        more = (y, g, _total(ties(program, len(xs)), (*xs, y), sizes))
    rows = [_rows(x.shape, sizes) for x in xs]
    return tuple(
        _total(adjoint(program, len(xs), i, of), (*xs, *more), sizes) for i, of in enumerate(rows)
    )


def evaluate(*xs, sizes, program):
    parsed = _read(program, len(xs))
    check_work(parsed, [x.shape for x in xs], [_dim(r, sizes) for r in parsed.shape], sizes)
    return evaluated(parsed, xs, sizes)


def _rows(shape, sizes):
    """Sizes of a tensor as rows over the node's sizes."""
    return tuple(row_of(d, sizes) for d in shape)


def _total(parts, inputs, sizes) -> Value | None:
    """The sum of what programs give on those of the inputs that each reads."""
    made = [
        OPS["formula"](*(inputs[i] for i in p.inputs), sizes=sizes, program=p.program)
        for p in parts
    ]
    return reduce(lambda a, b: a + b, made) if made else None


def _sample(kind, shape, nest, *specs, sizes=()):
    """A case of a program of one nest."""
    rows = tuple(row_of(d, sizes) for d in shape)
    (part,) = parts(kind, len(sizes), rows, [nest])
    return case(*(specs[i] for i in part.inputs), sizes=sizes, program=part.program)


def _box(*sizes):
    """The rows of loops that each run from 0 to below a size."""
    n = len(sizes)
    low = (unit(i + 1, n) for i in range(n))
    return (*low, *(shifted(minus(unit(i + 1, n)), size - 1) for i, size in enumerate(sizes)))


def samples():
    i, j, k = (unit(at, 3) for at in (1, 2, 3))
    product = apply("mul", Load(0, (i, k)), Load(1, (k, j)))
    matmul = Nest(0, 3, _box(3, 4, 5), (i, j), product)
    taps = plus(plus(j, j), shifted(k, -1))  # 2 j + k - 1, within a row of 9
    window = (*_box(3, 5, 3), taps, shifted(minus(taps), 8))
    seen = Load(0, (i, taps))
    convolved = Nest(0, 3, window, (i, j), apply("mul", seen, apply("exp", Load(1, (k,)))))
    scattered = replace(convolved, out=(i, taps), body=apply("mul", Load(0, (i, j)), Load(1, (k,))))
    largest = Nest(0, 3, window, (i, j), seen)
    running = Nest(0, 3, (*_box(2, 6, 6), plus(j, k, -1)), (i, j), Load(0, (i, k)))
    chosen = apply("where", apply("less", seen, Number(0.5)), apply("neg", Index(j)), seen)
    yield _sample(SUM, (3, 4), matmul, (3, 5), (5, 4))
    yield _sample(SUM, (3, 5), convolved, (3, 9), (3,))
    yield _sample(SUM, (3, 9), scattered, (3, 5), (3,))
    yield _sample(MAX, (3, 5), largest, (3, 9))
    yield _sample(MIN, (3, 5), largest, (3, 9))
    yield _sample(SUM, (2, 6), running, (2, 6))
    yield _sample(SUM, (3, 5), replace(largest, body=chosen), (3, 9))
    line = Nest(1, 1, ((0, 0, 1), (-1, 1, -1)), ((0, 0, 1),), Load(0, ((0, 0, 1),)))
    yield _sample(SUM, (7,), line, (7,), sizes=(7,))
    yield _sample(SUM, (), replace(line, out=()), (700,), sizes=(700,))
