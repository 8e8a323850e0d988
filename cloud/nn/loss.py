"""Losses: functions of (a module's result, targets) that give a scalar; and metrics.

Each is the mean over examples, or over all elements where it says so. Those with settings are
made: `cross_entropy(smoothing=0.1)` is a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cloud import ops
from cloud.nn.ctc import ctc as ctc
from cloud.nn.targets import takes_arrays
from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Constant, Value, shape_text
from ir.ops.rules import elements

Loss = Callable[..., Value]


@takes_arrays
def softmax_cross_entropy(logits: Value, labels: Value) -> Value:
    """y = the mean over examples of -log softmax(logits)[label]     [n,classes], i32 [n] -> []"""
    return ops.reduce_mean(ops.softmax_cross_entropy(logits, labels), axes=(0,))


def cross_entropy(
    *, smoothing: float = 0.0, weights: Sequence[float] | None = None, ignore: int | None = None
) -> Loss:
    """The loss of (logits [...,classes], labels i32 [...]): the mean of
    -(1 - smoothing) log p[label] - smoothing / classes * the sum of log p, p = softmax(logits)

    `weights`, one a class: the mean is weighted by that of each label; `ignore`: a label that does
    not count (Szegedy et al. 2016).
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"cross_entropy: smoothing {smoothing}, want at least 0 and below 1")

    @takes_arrays
    def loss(logits: Value, labels: Value) -> Value:
        classes = logits.shape[-1]
        if weights is not None and len(weights) != classes:
            raise ShapeError(f"cross_entropy: {len(weights)} weights, want {classes}")
        rows = ops.reshape(logits, shape=(elements(logits.shape[:-1]), classes))
        labels = ops.reshape(labels, shape=rows.shape[:1])
        counted = None if ignore is None else ops.logical_not(ops.equal(labels, ignore))
        if counted is not None:
            labels = ops.where(counted, labels, 0)
        share = _shares(rows, labels, counted, weights)
        y = ops.softmax_cross_entropy(rows, labels)
        if share is not None:
            y = y * share
        if smoothing:
            y = y * (1 - smoothing) + _spread(rows, counted, weights) * smoothing
        if share is None:
            return ops.reduce_mean(y, axes=(0,))
        return ops.reduce_sum(y, axes=(0,)) / ops.reduce_sum(share, axes=(0,))

    loss.classifies = ignore is None  # type: ignore[attr-defined]
    return loss


@takes_arrays
def binary_cross_entropy(p: Value, target: Value) -> Value:
    """y = the mean over all elements of -t log p - (1 - t) log(1 - p), logarithms at least -100

    p, target: numbers in [0, 1] of one shape -> []. Rather learn logits: see the next.
    """
    log_p, log_q = (ops.maximum(ops.log(v), -100.0) for v in (p, 1.0 - p))
    return _mean(-(target * log_p + (1.0 - target) * log_q))


@takes_arrays
def binary_cross_entropy_with_logits(logits: Value, target: Value) -> Value:
    """y = the mean over all elements of log(1 + e^x) - t x, which is the binary cross-entropy of
    sigmoid(x)     two of one shape -> []"""
    return _mean(ops.softplus(logits) - logits * target)


def weighted_binary_cross_entropy(positive: float) -> Loss:
    """The binary cross-entropy of logits in which a target of 1 counts `positive` times."""

    @takes_arrays
    def loss(logits: Value, target: Value) -> Value:
        return _mean((1.0 - target) * logits + _share(target, positive) * ops.softplus(-logits))

    return loss


def _share(target: Value, positive: float) -> Value:
    return target * (positive - 1.0) + 1.0


@takes_arrays
def mean_squared_error(y: Value, target: Value) -> Value:
    """y = the mean over all elements of (y - target)^2     two of one shape -> []

    A target [n] beside a result [n,1] is read as [n,1].
    """
    if target.dtype is not y.dtype:
        raise DTypeError(
            f"mean_squared_error: the target {target.name} is {target.dtype!r}, want {y.dtype!r}; "
            f"name a float target, such as targets={{'target': ('batch', 1)}}"
        )
    if y.shape == (*target.shape, 1):
        target = ops.reshape(target, shape=y.shape)
    return ops.mean_squared_error(y, target)


@takes_arrays
def mean_absolute_error(y: Value, target: Value) -> Value:
    """y = the mean over all elements of |y - target|     two of one shape -> []"""
    return _mean(ops.abs(y - target))


def huber(delta: float = 1.0) -> Loss:
    """The mean over all elements of r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2),
    r = y - target (Huber 1964)"""
    if delta <= 0:
        raise ValueError(f"huber: delta {delta}, want above 0")

    @takes_arrays
    def loss(y: Value, target: Value) -> Value:
        r = y - target
        size = ops.abs(r)
        far = size * delta - delta * delta / 2
        return _mean(ops.where(ops.less_equal(size, delta), r * r * 0.5, far))

    return loss


@takes_arrays
def kl_divergence(log_q: Value, p: Value) -> Value:
    """y = the mean over examples of the sum of p (log p - log q)     two of [n,...] -> []

    log_q: the module's log-probabilities (nn.LogSoftmax); p: wanted probabilities, 0 allowed.
    """
    is_zero = ops.equal(p, 0.0)
    log_p = ops.log(ops.where(is_zero, 1.0, p))
    terms = ops.where(is_zero, 0.0, p * (log_p - log_q))
    return ops.reduce_mean(ops.reduce_sum(terms, axes=tuple(range(1, p.rank))), axes=(0,))


def cosine_similarity(a: Value, b: Value, *, epsilon: float = 1e-8) -> Value:
    """y = a b / (|a| |b|) over the last axis     two of [...,c] -> [...]"""
    last = (a.rank - 1,)
    product = ops.reduce_sum(a * b, axes=last)
    squares = (ops.reduce_sum(v * v, axes=last) for v in (a, b))
    norms = [ops.maximum(ops.sqrt(s), epsilon) for s in squares]
    return product / (norms[0] * norms[1])


@takes_arrays
def cosine(y: Value, target: Value) -> Value:
    """y = the mean over examples of 1 - the cosine of result and target     two of [...,c] -> []"""
    return _mean(1.0 - cosine_similarity(y, target))


def cosine_embedding(margin: float = 0.0) -> Loss:
    """The loss of (a, b, label): the mean of 1 - cos where the label is 1, of max(0, cos - margin)
    where it is -1     two of [n,c], [n] -> []"""

    @takes_arrays
    def loss(a: Value, b: Value, label: Value) -> Value:
        similarity = cosine_similarity(a, b)
        apart = ops.relu(similarity - margin)
        return _mean(ops.where(ops.equal(label, 1), 1.0 - similarity, apart))

    return loss


@takes_arrays
def hinge(y: Value, target: Value) -> Value:
    """y = the mean over all elements of max(0, 1 - target y), targets -1 and 1 (Vapnik 1995)"""
    return _mean(ops.relu(1.0 - y * target))


def multi_class_hinge(margin: float = 1.0) -> Loss:
    """The loss of (logits, labels): the mean over examples of the sum over other classes of
    max(0, margin - own logit + other logit) / classes (Crammer and Singer 2001)"""

    @takes_arrays
    def loss(logits: Value, labels: Value) -> Value:
        hot = _one_hot(logits, labels)
        own = ops.reduce_sum(logits * hot, axes=(1,), keep_dims=True)
        terms = ops.relu(logits - own + margin) * (1.0 - hot)
        return ops.reduce_mean(ops.reduce_mean(terms, axes=(1,)), axes=(0,))

    loss.classifies = True  # type: ignore[attr-defined]
    return loss


def distillation(*, temperature: float = 4.0, alpha: float = 0.5) -> Loss:
    """The loss of (logits, labels, teacher_logits) that makes a student follow a teacher:

    alpha * T^2 * KL(softmax(teacher / T) || softmax(student / T)) + (1 - alpha) * cross-entropy
    with the labels (Hinton et al. 2015). The teacher's logits are data.
    """
    if temperature <= 0 or not 0 <= alpha <= 1:
        raise ValueError(
            f"distillation: temperature {temperature} and alpha {alpha}, want > 0 and in [0, 1]"
        )

    @takes_arrays
    def loss(logits: Value, labels: Value, teacher_logits: Value) -> Value:
        axis = logits.rank - 1
        student = ops.log_softmax(logits * (1 / temperature), axis=axis)
        teacher = ops.log_softmax(teacher_logits * (1 / temperature), axis=axis)
        terms = ops.exp(teacher) * (teacher - student)
        divergence = ops.reduce_mean(ops.reduce_sum(terms, axes=(axis,)), axes=(0,))
        soft = divergence * (alpha * temperature**2)
        return soft + softmax_cross_entropy(logits, labels) * (1 - alpha)

    return loss


@takes_arrays
def correct(logits: Value, labels: Value, *_: Value) -> Value:
    """y = how many examples have their largest logit at the label     [n,classes], [n] -> []"""
    hits = ops.equal(ops.argmax(logits, axis=logits.rank - 1), labels)
    return ops.reduce_sum(ops.cast(hits, to=logits.dtype), axes=tuple(range(labels.rank)))


def top(k: int) -> Loss:
    """The share of examples whose label is among the k largest logits     [n,classes], [n] -> []"""

    @takes_arrays
    def metric(logits: Value, labels: Value, *_: Value) -> Value:
        hot = _one_hot(logits, labels)
        own = ops.reduce_sum(logits * hot, axes=(1,), keep_dims=True)
        larger = ops.cast(ops.greater(logits, own), to=logits.dtype)
        place = ops.reduce_sum(larger, axes=(1,))
        return _mean(ops.cast(ops.less(place, float(k)), to=logits.dtype))

    return metric


def _mean(x: Value) -> Value:
    return ops.reduce_mean(x, axes=tuple(range(x.rank)))


def _one_hot(logits: Value, labels: Value) -> Value:
    if logits.rank != 2 or not isinstance(logits.shape[1], int):
        raise ShapeError(f"logits {shape_text(logits.shape)}: want [n,classes], a number of them")
    return ops.cast(ops.one_hot(labels, depth=logits.shape[1]), to=logits.dtype)


def _constant(numbers: Sequence[float], dtype: DType) -> Value:
    return Constant(np.asarray(numbers, dtype.numpy))


def _shares(
    logits: Value, labels: Value, counted: Value | None, weights: Sequence[float] | None
) -> Value | None:
    """How much each example counts; None: all the same."""
    share = None
    if weights is not None:
        share = ops.gather(_constant(weights, logits.dtype), labels)
    if counted is not None:
        one = Constant(1.0, dtype=logits.dtype)
        share = ops.where(counted, one if share is None else share, 0.0)
    return share


def _spread(logits: Value, counted: Value | None, weights: Sequence[float] | None) -> Value:
    """The mean over classes of -log p, weighted."""
    terms = -ops.log_softmax(logits, axis=1)
    if weights is not None:
        terms = terms * _constant(weights, logits.dtype)
    y = ops.reduce_mean(terms, axes=(1,))
    return y if counted is None else ops.where(counted, y, 0.0)
