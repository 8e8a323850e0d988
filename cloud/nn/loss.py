"""Losses: functions of (a module's result, targets) that give a scalar; and metrics."""

from __future__ import annotations

from collections.abc import Callable

from cloud import ops
from ir.errors import DTypeError
from ir.graph import Value

Loss = Callable[..., Value]


def softmax_cross_entropy(logits: Value, labels: Value) -> Value:
    """y = the mean over examples of -log softmax(logits)[label]     [n,classes], i32 [n] -> []"""
    return ops.reduce_mean(ops.softmax_cross_entropy(logits, labels), axes=(0,))


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


def distillation(*, temperature: float = 4.0, alpha: float = 0.5) -> Loss:
    """The loss of (logits, labels, teacher_logits) that makes a student follow a teacher:

    alpha * T^2 * KL(softmax(teacher / T) || softmax(student / T)) + (1 - alpha) * cross-entropy
    with the labels (Hinton et al. 2015). The teacher's logits are data.
    """
    if temperature <= 0 or not 0 <= alpha <= 1:
        raise ValueError(
            f"distillation: temperature {temperature} and alpha {alpha}, want > 0 and in [0, 1]"
        )

    def loss(logits: Value, labels: Value, teacher_logits: Value) -> Value:
        axis = logits.rank - 1
        student = ops.log_softmax(logits * (1 / temperature), axis=axis)
        teacher = ops.log_softmax(teacher_logits * (1 / temperature), axis=axis)
        terms = ops.exp(teacher) * (teacher - student)
        divergence = ops.reduce_mean(ops.reduce_sum(terms, axes=(axis,)), axes=(0,))
        soft = divergence * (alpha * temperature**2)
        return soft + softmax_cross_entropy(logits, labels) * (1 - alpha)

    return loss


def correct(logits: Value, labels: Value, *_: Value) -> Value:
    """y = how many examples have their largest logit at the label     [n,classes], [n] -> []"""
    hits = ops.equal(ops.argmax(logits, axis=logits.rank - 1), labels)
    return ops.reduce_sum(ops.cast(hits, to=logits.dtype), axes=(0,))
