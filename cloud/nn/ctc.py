"""The loss of sequences whose labels are in order but not in time."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from cloud import ops
from cloud.autodiff import filled_like
from cloud.nn.targets import takes_arrays
from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Constant, Graph, Value, shape_text

NEVER = -1e30  # the logarithm of what cannot be: finite, so that differences of it are numbers


def ctc(*, blank: int = 0, padding: int = -1, zero_infinity: bool = False) -> Callable[..., Value]:
    """The loss of (logits [n,t,classes], labels i32 [n,l], lengths i32 [n] or none): the mean of
    -log p(labels) / the number of labels, p the sum over all ways to say the labels in t steps

    A step says a class, or `blank`; a class said twice in a row is one label. Rows of labels end
    with `padding`, which is no class; `lengths`, all t by default, says how many steps of each row
    there are. The loss of labels that do not fit into the steps is infinite, or 0 with
    `zero_infinity`; its gradient is 0. Sums are of logarithms (Graves et al. 2006, in log space).
    """

    @takes_arrays
    def loss(logits: Value, labels: Value, lengths: Value | None = None) -> Value:
        _check(logits, labels, blank)
        is_label = ops.logical_not(ops.equal(labels, padding))
        labels = ops.where(is_label, labels, blank)
        count = ops.reduce_sum(ops.cast(is_label, to=DType.i32), axes=(1,))
        states = _interleaved(labels, blank)
        spoken = _spoken(ops.log_softmax(logits, axis=2), states)
        alpha = _last_alpha(spoken, _may_skip(states, blank), lengths)
        found = _ended(alpha, count)
        impossible = ops.less(found, NEVER / 10)
        each = ops.where(impossible, 0.0 if zero_infinity else np.inf, -found)
        share = ops.cast(ops.maximum(count, 1), to=logits.dtype)
        return ops.reduce_mean(each / share, axes=(0,))

    return loss


def _check(logits: Value, labels: Value, blank: int) -> None:
    if logits.rank != 3 or labels.rank != 2:
        shapes = f"{shape_text(logits.shape)} and labels of {shape_text(labels.shape)}"
        raise ShapeError(f"ctc: logits of {shapes}; want [n,t,classes] and [n,l]")
    if labels.dtype is not DType.i32:
        raise DTypeError(f"ctc: labels of {labels.dtype!r}, want i32")
    t, classes = logits.shape[1:]
    if not isinstance(t, int) or not isinstance(labels.shape[1], int):
        raise ShapeError(f"ctc: {t} steps and {labels.shape[1]} labels; want numbers")
    if not isinstance(classes, int) or not 0 <= blank < classes:
        raise ShapeError(f"ctc: blank {blank}, want one of {classes} classes")


def _interleaved(labels: Value, blank: int) -> Value:
    """[n,l] -> the states [n,2l+1]: a blank before, between and after the labels"""
    n, size = labels.shape
    between = filled_like(Value((n, size, 1), DType.i32), blank)
    pairs = ops.concat(ops.reshape(labels, shape=(n, size, 1)), between, axis=2)
    first = filled_like(Value((n, 1), DType.i32), blank)
    return ops.concat(first, ops.reshape(pairs, shape=(n, 2 * size)), axis=1)  # type: ignore[no-any-return]


def _spoken(log_p: Value, states: Value) -> Value:
    """The logarithm of each state's class at each step     [n,t,classes], [n,s] -> [n,t,s]"""
    chosen = ops.one_hot(states, depth=log_p.shape[2])
    chosen = ops.cast(chosen, to=log_p.dtype) if chosen.dtype is not log_p.dtype else chosen
    return ops.matmul(log_p, chosen, transpose_b=True)  # type: ignore[no-any-return]


def _may_skip(states: Value, blank: int) -> Value:
    """Where the blank before a state may be left out: at labels unlike the label before."""
    is_blank = ops.equal(states, blank)
    repeats = ops.equal(states, _moved(states, 2, blank))
    return ops.logical_not(ops.logical_or(is_blank, repeats))  # type: ignore[no-any-return]


def _last_alpha(spoken: Value, may_skip: Value, lengths: Value | None) -> Value:
    """log p of being in each state after the last step, having said all before it: [n,s]"""
    n, steps, size = spoken.shape
    begins = ops.reshape(ops.slice_axis(spoken, 0, 1, axis=1), shape=(n, size))
    place = Constant(np.arange(size, dtype=np.int32)[None])
    alpha = ops.where(ops.less(place, 2), begins, NEVER)
    ends = filled_like(Value((n,), DType.i32), steps) if lengths is None else lengths

    def after(k: Value, alpha: Value, spoken: Value, may_skip: Value, ends: Value) -> Value:
        skipped = ops.where(may_skip, _moved(alpha, 2, NEVER), NEVER)
        there = _log_sum(alpha, _moved(alpha, 1, NEVER), skipped) + ops.gather(spoken, k, axis=1)
        goes_on = ops.reshape(ops.less(k, ends), shape=(n, 1))
        return ops.where(goes_on, there, alpha)  # type: ignore[no-any-return]

    state = [Constant(np.int32(1)), alpha, spoken, may_skip, ends]
    inner = [Value(v.shape, v.dtype) for v in state]
    condition = Graph.trace(lambda k, *_: ops.less(k, steps), *inner)
    body = Graph.trace(lambda k, a, *kept: (k + 1, after(k, a, *kept), *kept), *inner)
    return ops.while_loop(*state, condition=condition, body=body)[1]  # type: ignore[no-any-return]


def _ended(alpha: Value, count: Value) -> Value:
    """log p of having said all labels: of ending with the last one, or the blank after it: [n]"""
    place = Constant(np.arange(alpha.shape[1], dtype=np.int32)[None])
    last = ops.reshape(2 * count, shape=(count.shape[0], 1))
    at_end = (ops.equal(place, last), ops.equal(place, last - 1))
    picked = (ops.reduce_max(ops.where(e, alpha, NEVER), axes=(1,)) for e in at_end)
    return _log_sum(*picked)


def _moved(x: Value, by: int, filling: float) -> Value:
    """x [n,s] moved to the right, with the filling at its front"""
    n, size = x.shape
    front = filled_like(Value((n, by), x.dtype), filling)
    return ops.concat(front, ops.slice_axis(x, 0, size - by, axis=1), axis=1)  # type: ignore[no-any-return]


def _log_sum(*xs: Value) -> Value:
    """log of the sum of e^x"""
    most = ops.stop_gradient(functools.reduce(ops.maximum, xs))
    return most + ops.log(functools.reduce(ops.add, [ops.exp(x - most) for x in xs]))  # type: ignore[no-any-return]
