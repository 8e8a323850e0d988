"""Losses of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.items import Item, as_value, floats, indices
from converter.onnx.rules.common import Reader, rule
from ir.graph import Constant, Value
from ir.ops.compare import equal, where
from ir.ops.index import gather
from ir.ops.norm import log_softmax
from ir.ops.reduce import reduce_mean, reduce_sum
from ir.ops.scatter import gather_elements
from ir.ops.shaping import reshape


@rule("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    _: Reader, attrs: dict[str, Any], x: Item, target: Item, weight: Item = None
) -> Value:
    return _loss(attrs, floats(x), target, weight)


@rule("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    _: Reader, attrs: dict[str, Any], x: Item, target: Item, weight: Item = None
) -> tuple[Value, Value]:
    log_prob = log_softmax(floats(x), axis=1)
    return _loss(attrs, log_prob, target, weight), log_prob


def _loss(attrs: dict[str, Any], x: Value, target: Item, weight: Item) -> Value:
    """-x at the target's class, times its weight; x: [n,c,*s], target: [n,*s]. A target that is to
    be ignored may be no class at all."""
    classes = as_value(indices(target))
    ignored = None
    if "ignore_index" in attrs:
        ignored = equal(classes, attrs["ignore_index"])
        classes = where(ignored, 0, classes)
    n, *spatial = classes.shape
    at = reshape(classes, shape=(n, 1, *spatial))
    loss = -reshape(gather_elements(x, at, axis=1), shape=classes.shape)
    share = None if weight is None else gather(floats(weight), classes)
    if ignored is not None:
        one = Constant(np.ones((), np.float32)) if share is None else share
        share = where(ignored, 0.0, one)
    loss = loss if share is None else loss * share
    how = attrs.get("reduction", "mean")
    axes = tuple(range(loss.rank))
    if how == "none":
        return loss  # type: ignore[no-any-return]
    if how == "sum":
        return reduce_sum(loss, axes=axes)  # type: ignore[no-any-return]
    if share is None:
        return reduce_mean(loss, axes=axes)  # type: ignore[no-any-return]
    return reduce_sum(loss, axes=axes) / reduce_sum(share, axes=axes)  # type: ignore[no-any-return]
