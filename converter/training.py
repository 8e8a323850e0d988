"""Give an imported model a training entry: a loss, its gradient, and an optimiser's updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast

from cloud.nn.graph_module import GraphModule
from cloud.train.graphs import training_model
from cloud.train.optim import from_text
from converter.errors import ConvertError
from converter.head import with_head
from converter.live_norm import LiveGraphModule
from converter.losses import loss_from_text
from ir.dtype import DType
from ir.graph import Graph, Node, Value, Weight, substitute

NORMS = ("frozen", "live")


@dataclass(frozen=True)
class TrainSpec:
    """What is trained on the device.

    `loss` and `optimizer` as text, such as "huber:delta=0.5" and "momentum:lr=0.01,momentum=0.9";
    `trainable`, shell patterns of the weights that move. `accumulate`: two entries more, which do a
    step in parts (`cloud.train.graphs.accumulation_graphs`): batches larger than the device's
    memory. `head`: the last layer is replaced by a new one of as many classes, which trains too.
    `batch_norm`: "live" ones, those whose scale or bias trains, take the moments of their batch in
    training and follow them; "frozen" ones stay as imported. `memory`: bytes that a step with a
    batch of `batch` may want; of what `trainable` names, as many of the last layers train as find
    room, and biases of the others where these do.
    """

    loss: str = "softmax_cross_entropy"
    optimizer: str = "sgd:lr=0.01"
    trainable: Sequence[str] = field(default_factory=lambda: ["*"])
    accumulate: bool = False
    head: int | None = None
    batch_norm: str = "frozen"
    memory: int | None = None
    batch: int = 8

    def __post_init__(self) -> None:
        loss_from_text(self.loss)
        if not self.trainable or isinstance(self.trainable, str):
            raise ConvertError(f"trainable is {self.trainable!r}, want a list of patterns")
        if self.batch_norm not in NORMS:
            raise ConvertError(f"batch_norm is {self.batch_norm!r}, want one of {', '.join(NORMS)}")
        for name, least in (("head", 2), ("memory", 1), ("batch", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConvertError(f"{name} is {value}, want at least {least}")
        try:
            from_text(self.optimizer)
        except ValueError as e:
            raise ConvertError(str(e)) from None

    @property
    def metadata(self) -> dict[str, str]:
        """What a training device reads: loss, optimiser and its default learning rate."""
        optimizer = from_text(self.optimizer)
        return {
            "train.loss": self.loss,
            "train.optimizer": str(optimizer),
            "train.lr": repr(optimizer.lr),
        }


def choose_weights(graph: Graph, spec: TrainSpec | None) -> Graph:
    """The graph over copies of its weights: those that `spec` names train, all others are fixed;
    with the new head that it wants.

    Done before passes, which fold only what is fixed. Raises ConvertError for a pattern that
    matches nothing.
    """
    imported = set(graph.weights)
    if spec is not None and spec.head is not None:
        graph = with_head(graph, spec.head)
    norms = [n for n in graph.nodes if n.op.name == "batch_norm"]
    statistics = {v for n in norms for v in n.inputs[3:]}
    can_train = [
        w for w in graph.weights if w.dtype is DType.f32 and w not in statistics and not w.state
    ]
    names = [w.name or "" for w in can_train]
    patterns = _matching(spec.trainable if spec else (), names)
    chosen = [
        w
        for w in can_train
        if w not in imported or any(fnmatchcase(w.name or "", p) for p in patterns)
    ]
    if twice := sorted({w.name or "" for w in chosen if names.count(w.name or "") > 1}):
        raise ConvertError(f"{', '.join(twice)}: used in two layouts, which would train apart")
    kept = {w for w, _ in graph.updates}  # what a run changes stays changeable
    if spec and spec.batch_norm == "live":
        kept |= _live_statistics(norms, chosen)

    def copy(w: Weight) -> Weight:
        state = w in kept and w not in chosen
        return Weight(w.data, name=w.name or "", trainable=w in chosen, state=state)

    copies: dict[Value, Value] = {w: copy(w) for w in graph.weights}
    roots = substitute(graph.roots, copies)
    count = len(graph.outputs)
    pairs = zip(graph.updates, roots[count:], strict=True)
    updates = tuple((cast(Weight, copies[w]), new) for (w, _), new in pairs)
    return Graph(graph.inputs, roots[:count], graph.output_names, updates)


def _matching(patterns: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """The patterns. Raises ConvertError for one that matches nothing."""
    for pattern in patterns:
        if not any(fnmatchcase(n, pattern) for n in names):
            have = ", ".join(names) or "none"
            raise ConvertError(f"no weight that can train matches {pattern!r}; there are {have}")
    return patterns


def _live_statistics(norms: Sequence[Node], chosen: Sequence[Weight]) -> set[Value | None]:
    """The running moments of batch norms that train."""
    return {v for n in norms if any(p in chosen for p in n.inputs[1:3]) for v in n.inputs[3:]}


def add_training(infer: Graph, spec: TrainSpec) -> dict[str, Graph]:
    """`infer`, and the entries `loss` and `train` over the same weights; with `accumulate` those
    that do a step in parts."""
    if len(infer.outputs) != 1:
        raise ConvertError(f"training needs one output, the model has {list(infer.output_names)}")
    (y,) = infer.outputs
    kind, loss = loss_from_text(spec.loss)
    module = LiveGraphModule(infer) if spec.batch_norm == "live" else GraphModule(infer)
    trained = training_model(
        module,
        loss,
        from_text(spec.optimizer),
        {v.name or f"input{i}": Value(v.shape, v.dtype) for i, v in enumerate(infer.inputs)},
        dict([kind.target_of(y)]),
        outputs=infer.output_names,
        accumulate=spec.accumulate,
    )
    return {**trained.entries, "infer": infer}
