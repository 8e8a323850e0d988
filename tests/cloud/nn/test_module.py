"""Modules: names, freezing, states, and the two ways to call one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cloud import grad, models, modes, nn, ops
from cloud.tracing import tracing
from cloud.train.graphs import inference_graph
from ir.dtype import DType
from ir.errors import GraphError, ShapeError
from ir.graph import Graph, Value, Weight
from ir.symbol import symbol


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def small() -> nn.Sequential:
    return nn.Sequential(
        features=nn.Sequential(
            nn.Conv2d(1, 2, 3, rng=rng()), nn.BatchNorm(2), nn.Dropout(0.5, rng=rng())
        ),
        flatten=nn.Flatten(),
        fc=nn.Linear(8, 3, rng=rng()),
    )


NAMES = [
    "features.0.weight", "features.0.bias", "features.1.scale", "features.1.bias",
    "features.1.running_mean", "features.1.running_variance", "features.2.key",
    "fc.weight", "fc.bias",
]  # fmt: skip


def test_weights_are_named_by_the_path_of_attributes_in_order_of_assignment() -> None:
    assert list(small().weights()) == NAMES
    assert next(iter(small().weights("net"))) == "net.features.0.weight"


def test_lists_of_modules_are_named_by_their_index() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.blocks = [nn.Linear(2, 2, bias=False, rng=rng()) for _ in range(2)]

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    assert list(Net().weights()) == ["blocks.0.weight", "blocks.1.weight"]


def test_a_shared_weight_and_a_shared_module_have_one_name() -> None:
    layer = nn.Linear(2, 2, rng=rng())
    other = nn.Linear(2, 2, rng=rng())
    other.weight = layer.weight
    assert list(nn.Sequential(layer, layer, other).weights()) == ["0.weight", "0.bias", "2.bias"]


def test_naming_writes_the_names_into_the_weights() -> None:
    net = small()
    net.name_weights()
    assert [w.name for w in net.weights().values()] == NAMES


def test_a_module_on_arrays_computes_the_inference() -> None:
    net = small()
    x = np.random.default_rng(1).standard_normal((5, 4, 4, 1)).astype(np.float32)
    y = net(x)
    assert (y.shape, y.dtype) == ((5, 3), np.float32)
    np.testing.assert_array_equal(y, net(x))


def test_a_module_on_values_adds_to_their_graph() -> None:
    graph = Graph.trace(small(), Value((symbol("batch"), 4, 4, 1)))
    assert graph.outputs[0].shape == (symbol("batch"), 3)
    assert not graph.updates


def test_training_mode_ends_with_its_context_also_after_an_error() -> None:
    net = small()
    with pytest.raises(ShapeError), nn.tracing(training=True):
        net(Value((1, 4, 4, 7)))
    assert not net.training
    with nn.tracing(training=True):
        assert net.training
        with nn.tracing():
            assert not net.training
        assert net.training


def test_freezing_by_pattern_makes_weights_constant() -> None:
    net = small()
    net.freeze("features.*")
    assert list(net.trainable_weights()) == ["fc.weight", "fc.bias"]
    net.unfreeze("*.0.weight")
    assert list(net.trainable_weights()) == ["features.0.weight", "fc.weight", "fc.bias"]
    net.unfreeze()
    assert len(net.trainable_weights()) == 6


def test_states_are_never_trainable() -> None:
    net = small()
    net.unfreeze("*running*", "*key")
    assert not any(w.trainable for w in net.weights().values() if w.state)


def test_a_frozen_layer_behaves_as_in_inference() -> None:
    net = small()
    net.freeze("features.*")
    with nn.tracing(training=True) as t:
        y = net(Value((2, 4, 4, 1)))
    kinds = [n.op.name for n in Graph((), (y,)).nodes]
    assert not t.updates
    assert "batch_norm" in kinds
    assert "random_uniform" not in kinds


def test_a_layer_with_some_trainable_weight_still_trains() -> None:
    net = small()
    net.freeze("features.1.scale", "features.1.bias")
    with nn.tracing(training=True) as t:
        net(Value((2, 4, 4, 1)))
    assert set(t.updates) == {w for w in net.weights().values() if w.state}


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(
        GraphError, match=r"no weight matches 'feature\.\*'; there are features\.0\.weight"
    ):
        small().freeze("feature.*")


def test_state_is_copied_out_and_in() -> None:
    a, b = small(), small()
    for w in a.weights().values():
        w.data = (w.data + 1).astype(w.data.dtype)
    state = a.state_dict()
    b.load_state_dict(state)
    for name, w in b.weights().items():
        np.testing.assert_array_equal(w.data, state[name])
    state["fc.bias"][:] = 9
    assert not np.any(a.weights()["fc.bias"].data == 9)
    assert not np.any(b.weights()["fc.bias"].data == 9)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    net = small()
    before = net.state_dict()
    odd = {**before, "fc.bias": np.zeros(4), "fc.weight": np.zeros((3, 8))}
    with pytest.raises(GraphError, match=r"state: fc.bias is \[4\], want \[3\]"):
        net.load_state_dict(odd)
    missing = {k: v + 1 for k, v in before.items() if k != "fc.bias"}
    with pytest.raises(GraphError, match=r"fc\.bias in only one"):
        net.load_state_dict(missing)
    for name, w in net.weights().items():
        np.testing.assert_array_equal(w.data, before[name])
    net.load_state_dict(missing, strict=False)
    np.testing.assert_array_equal(net.weights()["fc.weight"].data, before["fc.weight"] + 1)


def test_a_module_changes_its_float_type_as_a_whole_and_keeps_sharing() -> None:
    net = small()
    layer = net["fc"]
    assert isinstance(layer, nn.Linear)
    tied = nn.Sequential(net, layer)
    tied.freeze("0.features.*")
    tied.to(DType.f64)
    types = {name: w.dtype for name, w in tied.weights().items()}
    assert types.pop("0.features.2.key") is DType.i32
    assert set(types.values()) == {DType.f64}
    assert len(tied.weights()) == len(NAMES)
    assert list(tied.trainable_weights()) == ["0.fc.weight", "0.fc.bias"]
    assert tied.dtype is DType.f64


def test_a_weight_that_two_layers_share_is_still_shared_in_the_new_type() -> None:
    a, b = (nn.Linear(2, 2, rng=rng()) for _ in range(2))
    b.weight = a.weight
    nn.Sequential(a, b).to(DType.f64)
    assert a.weight is b.weight
    assert a.weight.dtype is DType.f64


def test_the_summary_has_a_line_a_layer_and_the_sums() -> None:
    net = small()
    net.freeze("features.*")
    lines = nn.summary(net, ("n", 4, 4, 1)).splitlines()
    assert lines[1].split() == ["features.0", "Conv2d", "[n,2,2,2]", "20"]
    assert lines[2].split() == ["features.1", "BatchNorm", "[n,2,2,2]", "4"]
    assert lines[-1] == "51 parameters, 27 trainable, 0.2 KiB with state"


def test_a_gradient_by_a_weight_of_a_module() -> None:
    layer = nn.Linear(2, 1, bias=False, rng=rng())
    g = grad(lambda x: ops.reduce_sum(layer(x), axes=(0, 1)), wrt=layer.weight)(
        np.ones((3, 2), np.float32)
    )
    np.testing.assert_array_equal(g, [[3, 3]])


def test_plain_functions_are_layers_without_weights() -> None:
    net = nn.Sequential(ops.relu, lambda x: x * 2)
    np.testing.assert_array_equal(net(np.array([-1.0, 3.0], np.float32)), [0, 6])


def test_a_residual_that_does_not_fit_says_so() -> None:
    block = nn.Residual(nn.Linear(2, 3, rng=rng()))
    with pytest.raises(ShapeError, match=r"the body gives \[1,3\], the shortcut \[1,2\]"):
        block(np.zeros((1, 2), np.float32))


@pytest.mark.parametrize("padding", [(1, 2, 3), "full", 1.5])
def test_a_padding_that_is_none_is_refused(padding: Any) -> None:
    with pytest.raises(ShapeError, match="want a number, 2 or 4 numbers"):
        nn.Conv2d(1, 1, 3, padding=padding, rng=rng())
    with pytest.raises(ShapeError, match="want a number, 2 or 4 numbers"):
        nn.DepthwiseConv2d(1, 3, padding=padding, rng=rng())
    with pytest.raises(ShapeError, match="want a number, 2 or 4 numbers"):
        nn.MaxPool2d(2, padding=padding)


def test_same_padding_with_stride_of_a_free_size_is_refused() -> None:
    conv = nn.Conv2d(1, 1, 3, stride=2, padding="same", rng=rng())
    with pytest.raises(ShapeError, match="size h is free, want a number"):
        conv(Value((1, symbol("h"), 4, 1)))


def test_groups_that_do_not_divide_the_channels_are_refused() -> None:
    with pytest.raises(ShapeError, match="6 inputs and 4 outputs, want multiples of 4 groups"):
        nn.Conv2d(6, 4, 3, groups=4, rng=rng())


@pytest.mark.parametrize(
    ("make", "shape", "parameters"),
    [
        (lambda r: models.mlp([12, 16, 3], rng=r), (2, 3, 4), 12 * 16 + 16 + 16 * 3 + 3),
        (lambda r: models.lenet(rng=r), (2, 28, 28, 1), 61_706),
        (lambda r: models.dscnn(rng=r), (1, 49, 10, 1), 2_688 + 4 * 4_928 + 780),
        (lambda r: models.resnet8(rng=r), (1, 32, 32, 3), 78_042),
        (lambda r: models.mobilenet_v2(rng=r), (1, 224, 224, 3), 3_504_872),
        (lambda r: models.mobilenet_v2(10, width=0.35, size=32, rng=r), (1, 32, 32, 3), 408_938),
    ],
    ids=["mlp", "lenet", "dscnn", "resnet8", "mobilenet_v2", "mobilenet_v2 small"],
)
def test_the_nets_of_the_zoo_have_as_many_parameters_as_their_papers_say(
    make: Any, shape: Any, parameters: int
) -> None:
    net = make(rng())
    y = net(Value(shape))
    weights = [w for w in net.weights().values() if not w.state]
    assert y.rank == 2
    assert sum(w.data.size for w in weights) == parameters
    assert all(isinstance(w, Weight) and w.dtype is DType.f32 for w in weights)


class Block(nn.Module):
    def __init__(self) -> None:
        self.conv = nn.Conv2d(2, 2, 3, padding="same", rng=rng())

    def forward(self, x: Value) -> Value:
        y = self.conv(x)
        return y + x


def test_a_node_says_which_module_made_it_and_on_which_line() -> None:
    net = nn.Sequential(features=nn.Sequential(Block(), nn.ReLU()), head=Block())
    graph = inference_graph(net, {"x": ("batch", 8, 8, 2)})
    sources = [n.source for n in graph.nodes]
    parts, lines = zip(*(s.removesuffix(")").split(" (") for s in sources), strict=True)
    assert parts == ("features.0.conv", "features.0", "features.1", "head.conv", "head")
    assert all(line.startswith("test_module.py:") for line in lines)
    with tracing():  # a module that is called by itself has no path
        assert Block()(Value((1, 8, 8, 2))).node.source == lines[1]


@pytest.mark.parametrize("mode", modes.MODES)
def test_weights_get_gradients_also_where_the_data_are_no_arguments(mode: str) -> None:
    net = nn.Sequential(nn.Linear(3, 4, rng=rng()), nn.Tanh(), nn.Linear(4, 1, rng=rng()))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)

    def loss(x: Any) -> Any:
        return ops.reduce_mean(net(x) * net(x), axes=(0, 1))

    with modes.using(mode=mode):
        given, closed_over = grad(loss, net)(x), grad(lambda: loss(x), net)()
    for name, g in given.items():
        assert np.abs(g).max() > 0
        np.testing.assert_allclose(closed_over[name], g, rtol=1e-6)
    assert isinstance(net(x), np.ndarray)
