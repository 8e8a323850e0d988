"""Random graphs of the operator table's samples, for tests of what rewrites or stores graphs."""

from __future__ import annotations

import math

import numpy as np

from ir.dtype import DType
from ir.graph import Array, Constant, Graph, Model, Shape, Value, Weight
from ir.op import OPS, Case, Op, Spec
from ir.symbol import evaluate, symbol

NAMES = ("x", "/block.0/conv_1", 'say "no"', "größe", "x#1", "%0", "graph", "a b")
INPUTS = (0.5, 2.0)  # the range of what `random_arrays` gives


def random_graph(seed: int, *, nodes: int = 8) -> Graph:
    """A graph of about `nodes` samples of the table, each fed by earlier results where it can be.

    What feeds a sample is reshaped, or summed and stretched, to its shape and clipped to its range,
    so that logarithms stay real. Leaves are inputs, constants, and weights of every kind.
    """
    maker = _Maker(np.random.default_rng(seed))
    while len(maker.made) < nodes:
        maker.add_sample()
    return maker.graph()


def random_training_graph(seed: int, *, nodes: int = 6) -> Graph:
    """`random_graph` that also updates about half of its trainable weights, and their momentum."""
    rng = np.random.default_rng(seed)
    graph = random_graph(seed, nodes=nodes)
    updates: list[tuple[Weight, Value]] = []
    for w in (w for w in graph.weights if w.trainable and rng.random() < 0.5):
        g, lr = OPS["tanh"](w), Constant(np.float32(0.1))
        if rng.random() < 0.5:
            m = Weight(np.zeros_like(w.data), name=f"momentum of {w.name}", state=True)
            updates += zip((w, m), OPS["momentum_step"](w, m, g, lr), strict=True)
        else:
            updates.append((w, OPS["sgd_step"](w, g, lr)))
    outputs = [v for v in graph.outputs if v.node is None or not v.node.op.view]
    kept = [v for v in outputs if not isinstance(v, Weight)] or [graph.nodes[0].results[0]]
    names = tuple(f"y{i}" for i in range(len(kept)))
    return Graph(graph.inputs, tuple(kept), names, tuple(updates))


def random_symbolic_graph(seed: int, *, nodes: int = 8) -> Graph:
    """A graph on inputs with free dimensions, with attributes that are expressions of them."""
    rng = np.random.default_rng(seed)
    b, s = symbol("batch"), symbol("seq")
    inputs = (Value((b, s, 2), name="x"), Value((b, s, 2), name="y"))
    made = list(inputs)
    for _ in range(nodes):
        made.append(_symbolic_step(made[rng.integers(len(made))], inputs[0].shape, rng))
    return Graph(inputs, tuple(made[-3:]))


def _symbolic_step(v: Value, shape: Shape, rng: np.random.Generator) -> Value:
    last = v.rank - 1
    match rng.integers(6):
        case 0:
            return OPS["tanh"](v)
        case 1:
            return OPS["concat"](v, v * Constant(np.float32(rng.uniform(-1, 1))), axis=0)
        case 2:
            return OPS["reshape"](v, shape=(math.prod(v.shape, start=1),))
        case 3:
            return OPS["reduce_sum"](v, axes=(last,), keep_dims=True)
        case 4:
            return OPS["pad"](v, before=(1, *(0,) * last), after=(2,) * v.rank)
    mean = OPS["reduce_mean"](v, axes=tuple(range(v.rank)))
    return OPS["broadcast_to"](mean, shape=shape)


def random_model(seed: int) -> Model:
    """Two entries over shared weights, one of which trains, and metadata."""
    train = random_training_graph(seed)
    infer = Graph(train.inputs, train.outputs, train.output_names)
    return Model(
        {"infer": infer, "train": train}, {"licence": "CC0", "": "empty key", "ä": "line\n2"}
    )


def random_arrays(graph: Graph, seed: int, **sizes: int) -> list[Array]:
    """Arrays for the graph's inputs; `sizes` of its free dimensions."""
    rng = np.random.default_rng(seed)
    return [
        Spec(tuple(evaluate(d, sizes) for d in v.shape), v.dtype, *INPUTS).array(rng)
        for v in graph.inputs
    ]


class _Maker:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.made: list[Value] = []  # results
        self.inputs: list[Value] = []
        self.weights = 0
        self.choices = [
            (o, c)
            for o in OPS.values()
            for c in o.samples
            if not o.updates and c.inputs and _runs_on_a_device(o) and not _takes_a_tape(c)
        ]

    def add_sample(self) -> None:
        op, case = self.choices[self.rng.integers(len(self.choices))]
        node = op.node([self._operand(op, case, i) for i in range(len(case.inputs))], case.attrs)
        for v in node.results:
            v.name = str(self.rng.choice(NAMES)) if self.rng.random() < 0.3 else None
            self.made.append(v)

    def graph(self) -> Graph:
        read = {v for r in self.made for v in r.node.present_inputs}  # type: ignore[union-attr]
        ends = [v for v in self.made if v not in read]
        extra = [v for v in (*self.made, *self.inputs) if v in read and self.rng.random() < 0.1]
        outputs = (*ends, *extra)
        names = tuple(f"{self.rng.choice(NAMES)}{i}" for i in range(len(outputs)))
        return Graph(tuple(self.inputs), outputs, names)

    def _operand(self, op: Op, case: Case, i: int) -> Value | None:
        spec = case.inputs[i]
        if spec is None:
            return None
        fits = [v for v in self.made if v.dtype is spec.dtype and 0 not in v.shape]
        if (
            spec.dtype is not DType.f32
            or spec.data is not None
            or self.rng.random() < 0.3
            or not fits
        ):
            return self._leaf(spec)
        v = _reshaped(fits[self.rng.integers(len(fits))], spec.shape)
        return OPS["clip"](v, low=spec.low, high=spec.high)

    def _leaf(self, spec: Spec) -> Value:
        array = spec.array(self.rng)
        kind = self.rng.integers(4)
        if kind == 0 and spec.data is None and spec.dtype.is_float:
            self.inputs.append(Value(spec.shape, spec.dtype, name=f"input {len(self.inputs)}"))
            v = self.inputs[-1]
            inside = spec.low <= INPUTS[0] and INPUTS[1] <= spec.high
            return v if inside else OPS["clip"](v, low=spec.low, high=spec.high)
        if kind == 1:
            return Constant(
                array, name=str(self.rng.choice(NAMES)) if self.rng.random() < 0.3 else None
            )
        self.weights += 1
        return Weight(
            array,
            name=f"w.{self.weights}",
            trainable=kind == 2 and spec.dtype is DType.f32 and bool(np.isfinite(array).all()),
        )


def _runs_on_a_device(op: Op) -> bool:
    return bool(op.kernels) or op.name in ("cond", "while_loop", "call")


def _takes_a_tape(case: Case) -> bool:
    return any(spec is not None and spec.dtype is DType.tape for spec in case.inputs)


def _reshaped(v: Value, shape: tuple[int, ...]) -> Value:
    if math.prod(v.shape) == math.prod(shape):
        return v if v.shape == shape else OPS["reshape"](v, shape=shape)
    total = OPS["reduce_sum"](v, axes=tuple(range(v.rank)))
    return OPS["broadcast_to"](total, shape=shape)
