"""From a module, a loss and an optimiser to a model with the entries infer, loss and train."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cloud.autodiff import gradients, ones_like
from cloud.nn.loss import Loss
from cloud.nn.module import Module
from cloud.nn.tracing import tracing
from cloud.simplify import simplified
from cloud.train.optim import Optimizer
from ir.dtype import DType
from ir.errors import GraphError, ShapeError
from ir.graph import Graph, Model, Value, Weight, shape_text
from ir.passes import common_subexpression
from ir.symbol import Dim, symbol

Size = int | str | Dim  # a string names a free dimension
Spec = Value | Sequence[Size]  # a bare shape is one of the module's float type
Metrics = Mapping[str, Callable[..., Value]]  # functions of (the module's results, targets)

LABELS: Mapping[str, Spec] = {"label": Value((symbol("batch"),), DType.i32)}
LEARNING_RATE = "lr"


def training_model(
    module: Module,
    loss: Loss,
    optimizer: Optimizer,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec] = LABELS,
    *,
    outputs: Sequence[str] = ("logits",),
    metrics: Metrics | None = None,
    trainable: Sequence[str] | None = None,
) -> Model:
    """A model over the module's weights with three entries:

    - infer: inputs -> outputs, in inference mode;
    - loss: inputs, targets -> loss, metrics, outputs, in inference mode;
    - train: inputs, targets, lr (a scalar) -> loss, metrics; one step of the optimiser.

    `inputs` and `targets` give shapes by name, with strings for free dimensions, such as
    {"image": ("batch", 28, 28, 1)}. `trainable`: freeze all weights but those that match these
    patterns. A frozen weight leaves no node in the train entry. Raises GraphError where nothing
    is left to train.
    """
    if trainable is not None:
        module.freeze()
        module.unfreeze(*trainable)
    module.name_weights()
    return Model(
        {
            "infer": inference_graph(module, inputs, outputs=outputs),
            "loss": loss_graph(module, loss, inputs, targets, outputs=outputs, metrics=metrics),
            "train": train_graph(module, loss, optimizer, inputs, targets, metrics=metrics),
        },
        {"train.optimizer": str(optimizer), "train.lr": repr(optimizer.lr)},
    )


def inference_graph(
    module: Module, inputs: Mapping[str, Spec], *, outputs: Sequence[str] = ("logits",)
) -> Graph:
    """The module in inference mode."""
    values = named_values(inputs, module.dtype)
    with tracing():
        results = _call(module, values)
    return Graph(values, results, tuple(outputs))


def loss_graph(
    module: Module,
    loss: Loss,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec],
    *,
    outputs: Sequence[str] = ("logits",),
    metrics: Metrics | None = None,
) -> Graph:
    """The loss in inference mode, with metrics and the module's results: what evaluation needs."""
    x, t = named_values(inputs, module.dtype), named_values(targets, module.dtype)
    with tracing():
        results = _call(module, x)
        found = _losses(loss, metrics, results, t)
    named = {**found, **dict(zip(outputs, results, strict=True))}
    return Graph((*x, *t), tuple(named.values()), tuple(named))


def train_graph(
    module: Module,
    loss: Loss,
    optimizer: Optimizer,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec],
    *,
    metrics: Metrics | None = None,
) -> Graph:
    """One training step: the loss, and updates of the trainable weights and of every state."""
    x, t = named_values(inputs, module.dtype), named_values(targets, module.dtype)
    lr = Value((), module.dtype, name=LEARNING_RATE)
    with tracing(training=True) as trace:
        found = _losses(loss, metrics, _call(module, x), t)
    weights = _trained(module, found["loss"])
    g = gradients([found["loss"]], [ones_like(found["loss"])], weights)
    updates = [*trace.updates.items(), *optimizer.updates(weights, g, lr)]
    graph = Graph((*x, *t, lr), tuple(found.values()), tuple(found), tuple(updates))
    return common_subexpression(simplified(graph))


def named_values(specs: Mapping[str, Spec], dtype: DType = DType.f32) -> tuple[Value, ...]:
    """A fresh graph input for each name; a bare shape is one of `dtype`."""
    return tuple(
        Value(spec.shape, spec.dtype, name=name)
        if isinstance(spec, Value)
        else Value([symbol(d) if isinstance(d, str) else d for d in spec], dtype, name=name)
        for name, spec in specs.items()
    )


def _call(module: Module, inputs: Sequence[Value]) -> tuple[Value, ...]:
    out = module(*inputs)
    return (out,) if isinstance(out, Value) else tuple(out)


def _losses(
    loss: Loss, metrics: Metrics | None, results: Sequence[Value], targets: Sequence[Value]
) -> dict[str, Value]:
    functions = {"loss": loss, **(metrics or {})}
    found = {name: f(*results, *targets) for name, f in functions.items()}
    for name, y in found.items():
        if y.shape != ():
            raise ShapeError(f"{name} gives shape {shape_text(y.shape)}, want a scalar")
    return found


def _trained(module: Module, loss: Value) -> list[Weight]:
    """The trainable weights that the loss depends on."""
    used = set(Graph((), (loss,)).leaves)
    weights = [w for w in module.trainable_weights().values() if w in used]
    if not weights:
        raise GraphError(f"{type(module).__name__}: no trainable weight reaches the loss")
    return weights
