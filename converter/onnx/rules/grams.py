"""Counts of n-grams in sequences of numbers."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, as_type, as_value, static
from converter.onnx.rules.common import Reader, rule
from ir.dtype import DType
from ir.graph import Constant, Value
from ir.ops.compare import equal, greater, logical_and
from ir.ops.linalg import matmul
from ir.ops.reduce import reduce_sum
from ir.ops.shaping import cast, reshape, slice_axis


@rule("TfIdfVectorizer")
def tf_idf(_: Reader, attrs: dict[str, Any], x: Item) -> Item:
    """How often each n-gram of a pool is found, with as many elements skipped between its own as
    are allowed; weighed as `mode` says."""
    if "pool_strings" in attrs:
        raise ConvertError("pool_strings: models hold no text; want pool_int64s")
    v = as_value(as_type(x, DType.i64))
    rows = v if v.rank == 2 else reshape(v, shape=(1, v.shape[0]))
    (length,) = static(rows.shape[1:], "TfIdfVectorizer")
    pool, begins = np.array(attrs["pool_int64s"], np.int64), list(attrs["ngram_counts"])
    places = np.array(attrs["ngram_indexes"])
    wide = int(places.max()) + 1
    total: Any = Constant(np.zeros((1, wide), np.float32))
    first = 0  # number of the first n-gram of this length
    for n, (begin, end) in enumerate(zip(begins, [*begins[1:], len(pool)], strict=True), start=1):
        grams = pool[begin:end].reshape(-1, n)
        to = np.eye(wide, dtype=np.float32)[places[first : first + len(grams)]]
        first += len(grams)
        if not attrs["min_gram_length"] <= n <= attrs["max_gram_length"] or not len(grams):
            continue
        for gap in range(1, (attrs["max_skip_count"] if n > 1 else 0) + 2):
            count = length - (n - 1) * gap
            if count > 0:
                total = total + matmul(_found(rows, grams, gap, count), Constant(to))
    mode = attrs["mode"]
    if mode == "IDF":
        total = cast(greater(total, 0.0), to=DType.f32)
    if mode != "TF" and "weights" in attrs:
        weights = np.zeros(wide, np.float32)
        weights[places] = np.array(attrs["weights"], np.float32)
        total = total * Constant(weights)
    shape = (*v.shape[:-1], wide)
    return total if total.shape == shape else reshape(total, shape=shape)  # type: ignore[no-any-return]


def _found(rows: Value, grams: np.ndarray, gap: int, count: int) -> Value:
    """How often each of the n-grams [g,n] stands in rows [r,c], its elements `gap` apart: [r,g]"""
    same = []
    for i in range(grams.shape[1]):
        part = slice_axis(rows, i * gap, i * gap + count, axis=1)
        column = reshape(part, shape=(rows.shape[0], count, 1))
        same.append(equal(column, Constant(np.ascontiguousarray(grams[:, i]))))
    return reduce_sum(cast(reduce(logical_and, same), to=DType.f32), axes=(1,))  # type: ignore[no-any-return]
