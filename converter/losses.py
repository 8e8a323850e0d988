"""The losses that an imported model can train with: what target each takes, and of what."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cloud import nn, ops
from cloud.nn.loss import Loss
from converter.errors import ConvertError
from ir.dtype import DType
from ir.graph import Value, shape_text


@dataclass(frozen=True)
class LossKind:
    """`make` gives the loss for its settings. Its target is the number of a class, `label`, or
    numbers of the shape of the result, `target`; `of` makes what it reads of the model's result."""

    make: Callable[..., Loss]
    target: str = "target"
    of: Callable[[Value], Value] = lambda y: y

    def target_of(self, y: Value) -> tuple[str, Value]:
        """The name, shape and type of the target for a result. Raises ConvertError."""
        if self.target == "target":
            return self.target, Value(y.shape, y.dtype)
        if y.rank < 2:
            raise ConvertError(f"a result of {shape_text(y.shape)} has no classes to learn")
        return self.target, Value(y.shape[:-1], DType.i32)

    @property
    def settings(self) -> dict[str, float]:
        """Their names and defaults."""
        parameters = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in parameters if isinstance(p.default, float)}


def _logits(y: Value) -> Value:
    """What the model's last softmax is of, or the result of one that has none."""
    last = y.node
    is_last = last is not None and last.op.name in ("softmax", "log_softmax")
    if last is None or not is_last or last.attrs["axis"] != y.rank - 1:
        return y
    return last.present_inputs[0]


def _log_probabilities(y: Value) -> Value:
    z = _logits(y)
    return ops.log_softmax(z, axis=z.rank - 1)


def _before_sigmoid(y: Value) -> Value:
    """The sigmoid's argument; of a result in [0, 1] the loss is then the more exact one."""
    return y.node.present_inputs[0] if y.node is not None and y.node.op.name == "sigmoid" else y


def _plain(loss: Loss) -> Callable[[], Loss]:
    return lambda: loss


def _binary() -> Loss:
    """Of probabilities; of their logits where the model ends with a sigmoid."""

    def loss(y: Value, target: Value) -> Value:
        z = _before_sigmoid(y)
        if z is y:
            return nn.loss.binary_cross_entropy(y, target)
        return nn.loss.binary_cross_entropy_with_logits(z, target)

    return loss


def _smoothed(smoothing: float = 0.0) -> Loss:
    return nn.loss.cross_entropy(smoothing=smoothing)


def _softmax_cross_entropy(logits: Value, label: Value) -> Value:
    """That of the operator for rows of logits, else of every place."""
    kind = nn.loss.softmax_cross_entropy if logits.rank == 2 else nn.loss.cross_entropy()
    return kind(logits, label)


LOSSES: dict[str, LossKind] = {
    "softmax_cross_entropy": LossKind(_plain(_softmax_cross_entropy), "label", _logits),
    "cross_entropy": LossKind(_smoothed, "label", _logits),
    "multi_class_hinge": LossKind(nn.loss.multi_class_hinge, "label", _logits),
    "binary_cross_entropy": LossKind(_binary),
    "binary_cross_entropy_with_logits": LossKind(_plain(nn.loss.binary_cross_entropy_with_logits)),
    "mean_squared_error": LossKind(_plain(nn.loss.mean_squared_error)),
    "mean_absolute_error": LossKind(_plain(nn.loss.mean_absolute_error)),
    "huber": LossKind(nn.loss.huber),
    "hinge": LossKind(_plain(nn.loss.hinge)),
    "cosine": LossKind(_plain(nn.loss.cosine)),
    "kl_divergence": LossKind(_plain(nn.loss.kl_divergence), of=_log_probabilities),
}


def loss_from_text(text: str) -> tuple[LossKind, Loss]:
    """The loss of `name` or `name:key=value`, such as `huber:delta=0.5`. Raises ConvertError."""
    name, _, rest = text.partition(":")
    if name not in LOSSES:
        raise ConvertError(f"loss is {text!r}, want one of {', '.join(sorted(LOSSES))}")
    kind = LOSSES[name]
    settings = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    if unknown := settings.keys() - kind.settings.keys():
        have = ", ".join(kind.settings) or "none"
        raise ConvertError(f"loss {text!r}: no setting {sorted(unknown)}; has {have}")
    try:
        numbers = {k: float(v) for k, v in settings.items()}
        if odd := [v for v in numbers.values() if not math.isfinite(v)]:
            raise ValueError(f"{odd[0]} is not a finite number")
        made: Any = kind.make(**numbers)
    except ValueError as e:
        raise ConvertError(f"loss {text!r}: {e}") from None
    return kind, lambda y, target: made(kind.of(y), target)
