"""From a module, a loss and an optimiser to a model with the entries infer, loss and train."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from cloud import ops, parse
from cloud.autodiff import ones_like, value_and_gradients, zeros_like
from cloud.compile.fuse_norm_relu import fuse_norm_relu
from cloud.compile.simplify import simplify
from cloud.nn.loss import Loss
from cloud.nn.module import Module
from cloud.tracing import tracing
from cloud.train.optim import Optimizer, global_norm
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
SHARE = "share"  # of a micro-batch in its batch


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
    accumulate: bool = False,
) -> Model:
    """A model over the module's weights with three entries:

    - infer: inputs -> outputs, in inference mode;
    - loss: inputs, targets -> loss, metrics, outputs, in inference mode;
    - train: inputs, targets, lr (a scalar) -> loss, metrics; one step of the optimiser.

    `inputs` and `targets` give shapes by name, with strings for free dimensions, such as
    {"image": ("batch", 28, 28, 1)}. `trainable`: freeze all weights but those that match these
    patterns. A frozen weight leaves no node in the train entry. `accumulate`: two entries more,
    see `accumulation_graphs`, which do in parts what `train` does. Raises GraphError where nothing
    is left to train.
    """
    steps = step_model(
        module, loss, optimizer, inputs, targets, metrics=metrics, trainable=trainable,
        accumulate=accumulate,
    )  # fmt: skip
    return with_inference(steps, module, loss, inputs, targets, outputs=outputs, metrics=metrics)


def step_model(
    module: Module,
    loss: Loss,
    optimizer: Optimizer,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec] = LABELS,
    *,
    metrics: Metrics | None = None,
    trainable: Sequence[str] | None = None,
    accumulate: bool = False,
) -> Model:
    """Of a `training_model`, the entries that train."""
    if trainable is not None:
        module.freeze()
        module.unfreeze(*trainable)
    module.name_weights()
    entries = {"train": train_graph(module, loss, optimizer, inputs, targets, metrics=metrics)}
    if accumulate:
        entries |= accumulation_graphs(module, loss, optimizer, inputs, targets, metrics=metrics)
    metadata = {"train.optimizer": str(optimizer), "train.lr": repr(optimizer.lr)}
    return Model(entries, metadata)


def with_inference(
    steps: Model,
    module: Module,
    loss: Loss,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec] = LABELS,
    *,
    outputs: Sequence[str] = ("logits",),
    metrics: Metrics | None = None,
) -> Model:
    """The whole `training_model` whose entries that train are there."""
    entries = {
        "infer": inference_graph(module, inputs, outputs=outputs),
        "loss": loss_graph(module, loss, inputs, targets, outputs=outputs, metrics=metrics),
        **steps.entries,
    }
    return Model(entries, steps.metadata)


def inference_graph(
    module: Module, inputs: Mapping[str, Spec], *, outputs: Sequence[str] = ("logits",)
) -> Graph:
    """The module in inference mode."""
    values = named_values(inputs, module.dtype)
    with tracing():
        results = _call(module, values)
    return Graph(values, results, tuple(outputs))


def first_result(module: Module, inputs: Mapping[str, Spec]) -> Graph:
    """The module's first result alone, in inference mode."""
    values = named_values(inputs, module.dtype)
    with tracing():
        return Graph(values, _call(module, values)[:1])


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
    data, found, weights, g, states = _gradients(module, loss, inputs, targets, metrics)
    lr = Value((), module.dtype, name=LEARNING_RATE)
    updates = [*states, *optimizer.updates(weights, g, lr)]
    return _simple(Graph((*data, lr), tuple(found.values()), tuple(found), tuple(updates)))


def accumulation_graphs(
    module: Module,
    loss: Loss,
    optimizer: Optimizer,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec],
    *,
    metrics: Metrics | None = None,
) -> dict[str, Graph]:
    """One training step in parts, for batches that are too large for the memory:

    - accumulate: inputs, targets, share (a scalar, the part of the batch's rows that are here) ->
      loss, metrics; adds share times the gradients to their sums, and updates the layers' states;
    - apply: lr -> norm, that of all gradients together; one step of the optimiser with the sums,
      which are 0 again afterwards.
    """
    data, found, weights, g, states = _gradients(module, loss, inputs, targets, metrics)
    sums = optimizer.accumulators(weights)
    share = Value((), module.dtype, name=SHARE)
    added = [(s, ops.sgd_step(s, x, -share)) for s, x in zip(sums, g, strict=True)]
    accumulate = Graph((*data, share), tuple(found.values()), tuple(found), (*states, *added))
    lr = Value((), module.dtype, name=LEARNING_RATE)
    cleared = [(s, ops.ema_step(s, zeros_like(s), momentum=1.0)) for s in sums]
    updates = (*optimizer.updates(weights, sums, lr), *cleared)
    apply = Graph((lr,), (global_norm(sums),), ("norm",), updates)
    return {"accumulate": _simple(accumulate), "apply": _simple(apply)}


def _gradients(
    module: Module,
    loss: Loss,
    inputs: Mapping[str, Spec],
    targets: Mapping[str, Spec],
    metrics: Metrics | None,
) -> tuple[
    tuple[Value, ...], dict[str, Value], list[Weight], list[Value], list[tuple[Weight, Value]]
]:
    """Inputs and targets; loss and metrics; weights and their gradients; updates of states."""
    x, t = named_values(inputs, module.dtype), named_values(targets, module.dtype)
    with tracing(training=True) as trace:
        found = _losses(loss, metrics, _call(module, x), t)
    weights = _trained(module, found["loss"])
    updates = tuple(trace.updates.items())
    forward = fuse_norm_relu(Graph((*x, *t), tuple(found.values()), tuple(found), updates))
    roots = forward.roots
    seeds = [ones_like(v) if name == "loss" else None for v, name in zip_longest(roots, found)]
    values, g = value_and_gradients(roots, seeds, weights)
    found = dict(zip(found, values, strict=False))
    states = list(zip(trace.updates, values[len(found) :], strict=True))
    return (*x, *t), found, weights, g, states


def _simple(graph: Graph) -> Graph:
    return common_subexpression(simplify(graph))


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
    found = {name: parse.call(f, *results, *targets) for name, f in functions.items()}
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
