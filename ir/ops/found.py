"""Operators that find things, of which there may be any number.

Each gives as much room as there could be, and how many it found. Who binds that number
(`bind_sizes`) and takes as many has a result of the right size.
"""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import shape_text
from ir.op import NO_GRAD, case, exactly, floats, ints, op
from ir.ops.rules import elements
from ir.symbol import minimum


@op(
    code=129,
    results=("indices", "count"),
    shape=lambda x: [(elements(x), len(x)), (1,)],
    dtype=DType.i32,
    samples=[
        case(exactly([[0, 2, 0], [1.5, 0, -1]])),
        case(exactly([0, 1, 1, 0], DType.i32)),
        case(exactly([2**32, 0, -(2**63)], DType.i64)),
        case(exactly([[True], [False]], DType.bool)),
        case(floats()),
    ],
    kernels=("f32", "i32", "i64", "boolean"),
    grad=NO_GRAD,
)
def nonzero(x):
    """indices, count = where x is not 0, in order, and how many places these are

    indices: int32[elements of x, rank of x], all 0 behind the first `count`; count: int32[1]
    """
    found = np.argwhere(x).astype(np.int32)
    indices = np.zeros((x.size, x.ndim), np.int32)
    indices[: len(found)] = found
    return indices, np.array([len(found)], np.int32)


def _unique_shape(x, *, in_order):
    if len(x) != 2:
        raise ShapeError(f"unique_rows: {shape_text(x)}; want [rows, columns]")
    return [(x[0],), (x[0],), (x[0],), (1,)]


@op(
    code=319,
    results=("first", "group", "counts", "count"),
    shape=_unique_shape,
    dtype=DType.i32,
    samples=[
        case(exactly([[2], [1], [1], [3], [2]])),
        case(exactly([[2, 0], [1, 5], [2, 0], [1, 4]], DType.i32), in_order=True),
        case(exactly([[2**32], [0], [-(2**40)], [2**32]], DType.i64)),
        case(exactly([[np.nan], [1], [np.nan]])),
        case(ints(0, 2)),
    ],
    kernels=("f32", "i32", "i64"),
    grad=NO_GRAD,
)
def unique_rows(x, *, in_order=False):
    """first, group, counts, count = the different rows of x [n, m], sorted, NaN last, or, where
    they are `in_order`, as they come

    first: int32[n], where each is for the first time; counts: int32[n], how often; both are 0
    behind the first `count`. group: int32[n], which of them each row is. count: int32[1]
    """
    n = len(x)
    out = [np.zeros(n, np.int32) for _ in range(3)]
    if n == 0:
        return (*out, np.zeros(1, np.int32))
    rows = x if x.shape[1] else np.zeros((n, 1), x.dtype)
    if x.dtype.kind == "f":
        rows = _ranks(rows)
    _, first, group, counts = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    place = np.argsort(first) if in_order else np.arange(len(first))
    out[0][: len(first)] = first[place]
    out[1][:] = np.argsort(place)[group.ravel()]
    out[2][: len(first)] = counts[place]
    return (*out, np.array([len(first)], np.int32))


def _ranks(rows):
    """Integers in the order of floats: NaN is equal to NaN and behind all others, 0 equal to -0."""
    return np.stack([np.unique(c + 0.0, return_inverse=True)[1] for c in rows.T], axis=1)


def _suppressed_shape(boxes, scores, most, overlap, threshold, *, center, limit):
    if len(boxes) != 3 or len(scores) != 3 or boxes != (scores[0], scores[2], 4):
        raise ShapeError(
            f"non_max_suppression: boxes {shape_text(boxes)}, scores {shape_text(scores)}; "
            "want [batch, boxes, 4] and [batch, classes, boxes]"
        )
    if (most, overlap, threshold) != ((), (), ()):
        raise ShapeError("non_max_suppression: want numbers without axes as bounds")
    batch, classes, n = scores
    return [(batch * classes * minimum(n, limit), 3), (1,), (n,)]


def _suppressed_dtype(boxes, scores, most, overlap, threshold, **_):
    given = [boxes, scores, most, overlap, threshold]
    if given != [DType.f32, DType.f32, DType.i32, DType.f32, DType.f32]:
        raise DTypeError(f"non_max_suppression: inputs of {given}; want f32, and i32 for `most`")
    return DType.i32


_BOXES = exactly([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [1, 11.1, 0, 10], [0, 10, 1, 11]]])
_SCORES = exactly([[[0.9, 0.75, 0.5, 0.95], [0.3, 0.2, 0.9, 0.9]]])


@op(
    code=320,
    results=("selected", "count", "order"),
    shape=_suppressed_shape,
    dtype=_suppressed_dtype,
    samples=[
        case(_BOXES, _SCORES, exactly(3, DType.i32), exactly(0.5), exactly(0.0), limit=3),
        case(
            _BOXES, _SCORES, exactly(2, DType.i32), exactly(0.4), exactly(0.6), center=True, limit=2
        ),
        case(_BOXES, _SCORES, exactly(0, DType.i32), exactly(0.5), exactly(0.0), limit=4),
    ],
    grad=NO_GRAD,
)
def non_max_suppression(boxes, scores, most, overlap, threshold, *, center=False, limit=2**30):
    """selected, count = of each class the boxes of the best scores, no more than `most`, that do
    not overlap a better one of it: boxes with scores above `threshold` whose intersection over
    union with each is at most `overlap`     (Neubeck and Van Gool 2006)

    boxes: [batch, n, 4], two corners (y, x, y, x) or, `center`, (x, y, width, height); scores:
    [batch, classes, n] -> selected: int32[batch classes min(n, limit), 3], rows of (batch, class,
    box), all 0 behind the first `count`; count: int32[1]; order: int32[n], what the last class was
    sorted to. `limit` bounds `most` where that is known.
    """
    batch, classes, n = scores.shape
    selected = np.zeros((batch * classes * min(n, limit), 3), np.int32)
    order = np.arange(n, dtype=np.int32)
    count = 0
    for b in range(batch):
        areas = [_corners(box, center) for box in boxes[b]]
        for c in range(classes):
            order = np.argsort(-scores[b, c], kind="stable").astype(np.int32)
            chosen: list[int] = []
            for i in order:
                if len(chosen) == min(int(most), limit) or not scores[b, c, i] > threshold:
                    break
                if all(_overlap(areas[i], areas[j]) <= overlap for j in chosen):
                    chosen.append(i)
            for i in chosen:
                selected[count] = b, c, i
                count += 1
    return selected, np.array([count], np.int32), order


def _corners(box, center):
    a, b, c, d = np.float32(box)
    if center:
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _overlap(p, q):
    """Intersection over union, in float32; 0 where both are nothing."""
    sides = [max(min(p[k + 2], q[k + 2]) - max(p[k], q[k]), np.float32(0)) for k in (0, 1)]
    common = sides[0] * sides[1]
    union = (p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]) - common
    return common / union if union > 0 else np.float32(0)
