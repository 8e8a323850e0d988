"""Small models for the runtime's tests."""

from __future__ import annotations

import numpy as np

import lite_runtime as lite
from cloud import nn
from cloud.autodiff import gradients, ones_like
from cloud.nn.loss import softmax_cross_entropy
from cloud.train.graphs import training_model
from cloud.train.optim import Momentum
from ir import model_file
from ir.dtype import DType
from ir.graph import Constant, Function, Graph, Model, Value, Weight
from ir.op import OPS
from ir.symbol import symbol
from tests.lite_runtime.control_models import counted, factorial, newton, reversed_sum

BATCH = symbol("batch")


def open_model(model: Model | Graph, **options: object) -> lite.Session:
    """A session on the model's file in memory; a graph is the only entry, `infer`."""
    model = model if isinstance(model, Model) else Model({"infer": model})
    return lite.load(model_file.write(model), **options)


def linear_model(weight: str = "w") -> Model:
    """y = x w with x: [batch, 2]; `train` takes a step of gradient descent on the mean square."""
    w = Weight(np.zeros((2, 1), np.float32), name=weight)
    x, again = (Value((BATCH, 2), name="x") for _ in range(2))
    target, lr = Value((BATCH,), name="target"), Value((), name="lr")
    infer = Graph((x,), (OPS["reshape"](x @ w, shape=(BATCH,)),), ("y",))
    error = OPS["reshape"](again @ w, shape=(BATCH,)) - target
    loss = OPS["reduce_mean"](error * error, axes=(0,))
    (g,) = gradients([loss], [ones_like(loss)], [w])
    train = Graph((again, target, lr), (loss,), ("loss",), ((w, OPS["sgd_step"](w, g, lr)),))
    return Model({"infer": infer, "train": train}, {"licence": "CC0"})


def two_weights() -> Model:
    """`train` takes steps along the gradients x of `a` and 1e10 x of `b`."""
    a, b = (Weight(np.float32(1), name=name) for name in "ab")
    x, lr = Value((), name="x"), Value((), name="lr")
    updates = ((a, OPS["sgd_step"](a, x, lr)), (b, OPS["sgd_step"](b, x * 1e10, lr)))
    return Model({"train": Graph((x, lr), (a * b,), ("y",), updates)})


def odd_model() -> Model:
    """Two segments whose sizes are no multiples of anything: there is padding behind both."""
    kept = Constant(np.array([1, 2, 3], np.int8))
    w = Weight(np.float32([1, 2, 3]), name="w")
    x = Value((3,), name="x")
    return Model({"infer": Graph((x,), (x * w, kept), ("y", "kept"))})


def small_cnn(seed: int = 0) -> Model:
    """Images [batch, 8, 8, 3], five labels, momentum; batch norm has state."""
    rng = np.random.default_rng(seed)
    module = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, rng=rng),
        nn.BatchNorm(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 5, rng=rng),
    )
    return training_model(
        module, softmax_cross_entropy, Momentum(0.05), {"image": ("batch", 8, 8, 3)}
    )


def cnn_batch(size: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of the entry `train` of `small_cnn`."""
    rng = np.random.default_rng(seed)
    return {
        "image": rng.random((size, 8, 8, 3), np.float32),
        "label": rng.integers(0, 5, size).astype(np.int32),
        "lr": np.float32(0.05),
    }


def every_dtype() -> Graph:
    """One input and one output of every element type."""
    inputs = tuple(Value((2, 3), d, name=d.name) for d in DType if d is not DType.tape)
    outputs = tuple(OPS["reshape"](v, shape=(3, 2)) for v in inputs)
    return Graph(inputs, outputs, tuple(f"{v.name} out" for v in inputs))


def indices() -> Graph:
    """Rows of a table: an index out of range is an error of the run."""
    table = Constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    rows = Value((BATCH,), DType.i32, name="rows")
    return Graph((rows,), (OPS["gather"](table, rows),), ("found",))


def control_models() -> list[Model]:
    """Loops, branches, a recursion, tapes, loops in loops."""
    state = [Value((2, 3), name=n) for n in "ab"]
    inner = counted(state, lambda a, b: (b, a + b), 3)
    call = OPS["call"]
    nested = counted(state, lambda a, b: call(b, a, body=Function.of("inner", inner)), 2)
    graphs = newton(), factorial(), reversed_sum(5), nested
    return [Model({"infer": graph}) for graph in graphs]
