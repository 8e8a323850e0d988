"""A graph as a module: it computes, names, freezes and trains like any other."""

from __future__ import annotations

import numpy as np
import pytest

from cloud import nn, ops
from cloud.train import ArrayDataset, Momentum, fit, inference_graph
from ir.dtype import DType
from ir.errors import GraphError, ShapeError
from ir.graph import Graph, Value, Weight
from ir.symbol import symbol


def layer() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4, rng=np.random.default_rng(0)), nn.ReLU())


def imported() -> nn.GraphModule:
    net = layer()
    net.name_weights()
    return nn.GraphModule(inference_graph(net, {"x": ("batch", 3)}))


def test_it_computes_what_the_graph_computes() -> None:
    x = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
    module, want = imported(), layer()(x)
    graph = Graph.trace(lambda v: module(v) * 2, Value((symbol("batch"), 3)))
    from cloud.execute import run

    np.testing.assert_array_equal(run(graph, x)[0], want * 2)


def test_its_weights_keep_their_names() -> None:
    module = imported()
    assert list(module.weights()) == ["0.weight", "0.bias"]
    assert list(nn.Sequential(module).weights()) == ["0.0.weight", "0.0.bias"]


def test_weights_of_one_name_or_none_are_told_apart() -> None:
    a, b, c = (Weight(np.ones(2, np.float32), name=n) for n in ("w", "w", ""))
    module = nn.GraphModule(Graph.trace(lambda x: x * a * b * c, (2,)))
    assert list(module.weights()) == ["w", "w.1", "weight2"]


def test_it_trains_and_freezes() -> None:
    module = imported()
    data = ArrayDataset(
        x=np.random.default_rng(2).standard_normal((32, 3)), label=np.arange(32) % 4
    )
    before = module.state_dict()
    history = fit(
        module, data, optimizer=Momentum(0.1), epochs=5, trainable=["*.bias"], engine="interpreter",
        progress=False,
    )  # fmt: skip
    after = module.state_dict()
    np.testing.assert_array_equal(before["0.weight"], after["0.weight"])
    assert history["loss"][-1] < history["loss"][0]


def test_inputs_of_another_shape_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"inputs are f32\[batch,4\], want f32\[batch,3\]"):
        imported()(Value((symbol("batch"), 4)))


def test_a_graph_that_trains_is_no_module() -> None:
    w = Weight(np.ones(2, np.float32), name="w")
    g, lr = Value((2,)), Value(())
    with pytest.raises(GraphError, match="a graph that updates w is no module"):
        nn.GraphModule(Graph((g, lr), (), updates=((w, ops.sgd_step(w, g, lr)),)))


def test_its_type_cannot_change() -> None:
    module = imported()
    module.to(DType.f32)
    with pytest.raises(GraphError, match="a graph of f32 cannot become one of f64"):
        module.to(DType.f64)
