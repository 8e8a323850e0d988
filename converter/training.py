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
from ir.graph import Graph, Value, Weight, substitute


def _cross_entropy(y: Value, label: Value) -> Value:
    """Of the logits, where the model ends with a softmax of them."""
    last = y.node
    if last is not None and last.op.name == "softmax" and last.attrs["axis"] == y.rank - 1:
        (y,) = last.present_inputs
    return nn.loss.softmax_cross_entropy(y, label)


LOSSES = {
    "softmax_cross_entropy": _cross_entropy,
    "mean_squared_error": nn.loss.mean_squared_error,
}


@dataclass(frozen=True)
class TrainSpec:
    """What is trained on the device: `loss`, `optimizer` as text such as "sgd:lr=0.01" or
    "momentum:lr=0.01,momentum=0.9", and shell patterns of the weights that move. `accumulate`: two
    entries more, which do a step in parts (`cloud.train.graphs.accumulation_graphs`): batches
    larger than the device's memory."""

    loss: str = "softmax_cross_entropy"
    optimizer: str = "sgd:lr=0.01"
    trainable: Sequence[str] = field(default_factory=lambda: ["*"])
    accumulate: bool = False

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ConvertError(f"loss is {self.loss!r}, want one of {', '.join(LOSSES)}")
        if not self.trainable or isinstance(self.trainable, str):
            raise ConvertError(f"trainable is {self.trainable!r}, want a list of patterns")
        try:
            from_text(self.optimizer)
        except ValueError as e:
            raise ConvertError(str(e)) from None

    @property
    def metadata(self) -> dict[str, str]:
        """What a training device reads: the optimiser and its default learning rate."""
        optimizer = from_text(self.optimizer)
        return {"train.optimizer": str(optimizer), "train.lr": repr(optimizer.lr)}


def choose_weights(graph: Graph, spec: TrainSpec | None) -> Graph:
    """The graph over copies of its weights: those that `spec` names train, all others are fixed.

    Done before passes, which fold only what is fixed. Raises ConvertError for a pattern that
    matches nothing.
    """
    patterns = spec.trainable if spec else ()
    statistics = {v for n in graph.nodes if n.op.name == "batch_norm" for v in n.inputs[3:]}
    can_train = [w for w in graph.weights if w.dtype is DType.f32 and w not in statistics]
    names = [w.name or "" for w in can_train]
    for pattern in patterns:
        if not any(fnmatchcase(n, pattern) for n in names):
            have = ", ".join(names) or "none"
            raise ConvertError(f"no weight that can train matches {pattern!r}; there are {have}")

    chosen = [w for w in can_train if any(fnmatchcase(w.name or "", p) for p in patterns)]
    if twice := sorted({w.name or "" for w in chosen if names.count(w.name or "") > 1}):
        raise ConvertError(f"{', '.join(twice)}: used in two layouts, which would train apart")

    def copy(w: Weight) -> Weight:
        return Weight(w.data, name=w.name or "", trainable=w in chosen)

    outputs = substitute(graph.outputs, {w: copy(w) for w in graph.weights})
    return Graph(graph.inputs, outputs, graph.output_names)


def add_training(infer: Graph, spec: TrainSpec) -> dict[str, Graph]:
    """`infer`, and the entries `loss` and `train` over the same weights; with `accumulate` those
    that do a step in parts."""
    if len(infer.outputs) != 1:
        raise ConvertError(f"training needs one output, the model has {list(infer.output_names)}")
    (y,) = infer.outputs
    target = {
        "softmax_cross_entropy": ("label", Value(y.shape[:1], DType.i32)),
        "mean_squared_error": ("target", Value(y.shape, y.dtype)),
    }[spec.loss]
    trained = training_model(
        nn.GraphModule(infer),
        LOSSES[spec.loss],
        from_text(spec.optimizer),
        {v.name or f"input{i}": Value(v.shape, v.dtype) for i, v in enumerate(infer.inputs)},
        dict([target]),
        outputs=infer.output_names,
        accumulate=spec.accumulate,
    )
    return {**trained.entries, "infer": infer}
