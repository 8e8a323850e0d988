"""Give an imported model a training entry: a loss, its gradient, and an optimiser's updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from cloud import nn
from cloud.train.graphs import training_model
from cloud.train.optim import from_text
from converter.errors import ConvertError
from ir.dtype import DType
from ir.graph import Graph, Model, Value, Weight, substitute

LOSSES = {
    "softmax_cross_entropy": nn.loss.softmax_cross_entropy,
    "mean_squared_error": nn.loss.mean_squared_error,
}


@dataclass(frozen=True)
class TrainSpec:
    """What is trained on the device: `loss`, `optimizer` as text such as "sgd:lr=0.01" or
    "momentum:lr=0.01,momentum=0.9", and shell patterns of the weights that move."""

    loss: str = "softmax_cross_entropy"
    optimizer: str = "sgd:lr=0.01"
    trainable: Sequence[str] = field(default_factory=lambda: ["*"])

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ConvertError(f"loss is {self.loss!r}, want one of {', '.join(LOSSES)}")


def choose_weights(graph: Graph, spec: TrainSpec | None) -> Graph:
    """The graph over copies of its weights: those that `spec` names train, all others are fixed.

    Done before passes, which fold only what is fixed. Raises ConvertError for a pattern that
    matches nothing.
    """
    patterns = spec.trainable if spec else ()
    names = [w.name or "" for w in graph.weights]
    for pattern in patterns:
        if not any(fnmatchcase(n, pattern) for n in names):
            raise ConvertError(f"no weight matches {pattern!r}; there are {', '.join(names)}")
    statistics = {v for n in graph.nodes if n.op.name == "batch_norm" for v in n.inputs[3:]}

    def copy(w: Weight) -> Weight:
        trains = w.dtype is DType.f32 and w not in statistics
        trains = trains and any(fnmatchcase(w.name or "", p) for p in patterns)
        return Weight(w.data, name=w.name or "", trainable=trains)

    outputs = substitute(graph.outputs, {w: copy(w) for w in graph.weights})
    return Graph(graph.inputs, outputs, graph.output_names)


def add_training(model: Model, spec: TrainSpec) -> Model:
    """The model with entries `loss` and `train` beside `infer`."""
    infer = model.entries["infer"]
    (y,) = infer.outputs if len(infer.outputs) == 1 else (None,)
    if y is None:
        raise ConvertError(f"training needs one output, the model has {list(infer.output_names)}")
    batch = y.shape[:1]
    target = {
        "softmax_cross_entropy": ("label", Value(batch, DType.i32)),
        "mean_squared_error": ("target", Value(y.shape, y.dtype)),
    }[spec.loss]
    trained = training_model(
        nn.GraphModule(infer),
        LOSSES[spec.loss],
        from_text(spec.optimizer),
        {v.name or f"input{i}": Value(v.shape, v.dtype) for i, v in enumerate(infer.inputs)},
        dict([target]),
        outputs=infer.output_names,
    )
    entries = {**trained.entries, "infer": infer}
    return Model(entries, {**model.metadata, **trained.metadata})
