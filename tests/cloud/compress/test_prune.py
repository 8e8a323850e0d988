"""Channel pruning: weights shrink together, the module traces again, and unimportant ones leave."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cloud import nn, ops
from cloud.compress import prune
from cloud.compress.prune import channel_groups, total_parameters
from cloud.interpreter import run
from cloud.models import dscnn, lenet, mobilenet_v2, resnet8
from cloud.nn.loss import softmax_cross_entropy
from cloud.train import Adam, evaluate, fit
from cloud.train.engine import InterpreterEngine
from cloud.train.graphs import inference_graph, training_model
from cloud.train.optim import SGD
from ir.graph import Graph, Value, Weight
from ir.verify import verify
from tests.cloud.compress.tasks import convnet, graph_of, textures

RNG = np.random.default_rng


class Joined(nn.Module):
    """Two branches, one with a residual sum, side by side, then a gate and a flatten."""

    def __init__(self, seed: int = 0) -> None:
        rng = RNG(seed)
        self.stem = nn.Conv2d(3, 12, 3, padding=1, rng=rng)
        self.body = nn.Conv2d(12, 12, 3, padding=1, rng=rng)
        self.other = nn.Conv2d(3, 8, 1, rng=rng)
        self.norm = nn.BatchNorm(20)
        self.depthwise = nn.DepthwiseConv2d(20, 3, padding=1, rng=rng)
        self.narrow, self.wide = nn.Linear(12, 8, rng=rng), nn.Linear(8, 12, rng=rng)
        self.fc = nn.Linear(20 * 4 * 4, 5, rng=rng)

    def forward(self, x: Value) -> Value:
        a = ops.relu(self.stem(x))
        gate = ops.sigmoid(self.wide(ops.relu(self.narrow(ops.reduce_mean(a, axes=(1, 2))))))
        a = a * ops.reshape(gate, shape=(x.shape[0], 1, 1, gate.shape[1])) + self.body(a)
        y = self.depthwise(self.norm(ops.concat(a, self.other(x), axis=3)))
        y = ops.max_pool2d(y, size=(2, 2), strides=(2, 2))
        return self.fc(ops.flatten(y))


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "joined": (Joined, (8, 8, 3)),
    "lenet": (lambda: lenet(rng=RNG(0)), (28, 28, 1)),
    "dscnn": (lambda: dscnn(width=16, rng=RNG(0)), (49, 10, 1)),
    "resnet8": (lambda: resnet8(width=8, rng=RNG(0)), (32, 32, 3)),
    "mobilenet_v2": (lambda: mobilenet_v2(7, width=0.25, size=32, rng=RNG(0)), (32, 32, 3)),
}


def traced(name: str) -> tuple[nn.Module, Graph]:
    make, shape = NETS[name]
    net = make()
    net.name_weights()
    return net, inference_graph(net, {"image": ("batch", *shape)})


def shapes(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {n: w.data.shape for n, w in net.weights().items()}


def silence(net: nn.Module, groups: dict[str, list[int]]) -> None:
    """Make channels of a layer, by name, worth nothing."""
    for name, channels in groups.items():
        w = net.weights()[name]
        data = w.data.copy()
        data[channels] = 0
        w.data = data


@pytest.mark.parametrize("name", NETS)
def test_a_pruned_net_traces_runs_and_trains(name: str) -> None:
    net, graph = traced(name)
    before = total_parameters(graph.weights)
    prune(graph, 0.5)
    image = {"image": ("batch", *NETS[name][1])}
    after = inference_graph(net, image)
    verify(after)
    assert total_parameters(after.weights) < 0.6 * before
    x = RNG(1).standard_normal((3, *NETS[name][1])).astype(np.float32)
    (y,) = run(after, x)
    assert y.shape == run(graph_outputs_only(traced(name)[1]), x)[0].shape
    model = training_model(net, softmax_cross_entropy, SGD(0.05), image)
    engine = InterpreterEngine(model)
    label = np.arange(3, dtype=np.int32)
    feed = {"image": x, "label": label, "lr": np.float32(0.02)}
    losses = [float(engine.run("train", feed)["loss"]) for _ in range(8)]
    assert losses[-1] < losses[0]


def graph_outputs_only(graph: Graph) -> Graph:
    return Graph(graph.inputs, graph.outputs, graph.output_names)


@pytest.mark.parametrize("name", NETS)
def test_pruning_by_nothing_changes_nothing(name: str) -> None:
    net, graph = traced(name)
    before = net.state_dict()
    assert prune(graph, 0.0) == []
    assert all(np.array_equal(a, before[n]) for n, a in net.state_dict().items())


def test_coupled_axes_shrink_together() -> None:
    net = Joined()
    net.name_weights()
    image = {"image": ("batch", 8, 8, 3)}
    graph = inference_graph(net, image)
    done = {p.name: (p.before, p.after) for p in prune(graph, 0.4, multiple=1, least=1)}
    assert done["stem.weight"] == ((12, 3, 3, 3), (7, 3, 3, 3))
    assert done["other.weight"] == ((8, 1, 1, 3), (5, 1, 1, 3))
    assert done["body.weight"] == ((12, 3, 3, 12), (7, 3, 3, 7))
    assert done["norm.running_mean"] == ((20,), (12,))
    assert done["depthwise.weight"] == ((3, 3, 20), (3, 3, 12))
    assert done["fc.weight"] == ((5, 320), (5, 192))


def test_only_silent_channels_leave_and_the_answers_stay() -> None:
    net = Joined()
    net.name_weights()
    image = {"image": ("batch", 8, 8, 3)}
    first, second = [1, 4, 5, 9], [0, 2, 3, 7]
    silence(net, {f"{k}.{w}": first for k in ("stem", "body", "wide") for w in ("weight", "bias")})
    silence(net, {f"other.{w}": second for w in ("weight", "bias")})
    mean = net.weights()["norm.running_mean"]
    assert not mean.data.any()  # so that a silent channel is still silent behind the norm
    graph = inference_graph(net, image)
    x = RNG(2).standard_normal((2, 8, 8, 3)).astype(np.float32)
    (want,) = run(graph, x)
    prune(graph, 0.4, multiple=4, least=4, spare=("narrow.*",))
    (got,) = run(inference_graph(net, image), x)
    assert net.weights()["stem.weight"].data.shape[0] == 8
    assert net.weights()["other.weight"].data.shape[0] == 4
    assert net.weights()["fc.weight"].data.shape == (5, 12 * 16)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_inputs_and_outputs_of_the_net_keep_their_channels() -> None:
    net, graph = traced("joined")
    prune(graph, 0.9)
    after = shapes(net)
    assert after["stem.weight"][3] == 3
    assert after["fc.weight"][0] == after["fc.bias"][0] == 5


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.75, 0.99])
def test_groups_keep_a_multiple_and_at_least_so_many(ratio: float) -> None:
    net, graph = traced("resnet8")
    prune(graph, ratio, multiple=2, least=4)
    widths = {s[0] for n, s in shapes(net).items() if n.endswith("conv.weight")}
    assert all(w >= 4 and w % 2 == 0 for w in widths)


def test_what_is_spared_keeps_its_channels() -> None:
    net, graph = traced("lenet")
    prune(graph, 0.5, spare=("conv2.*",))
    assert shapes(net)["conv2.weight"][0] == 16
    assert shapes(net)["fc1.weight"][0] == 60


def test_a_layer_that_is_used_twice_shrinks_once_and_alike() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.first = nn.Linear(6, 16, rng=RNG(0))
            self.again = nn.Linear(16, 16, rng=RNG(1))
            self.last = nn.Linear(16, 3, rng=RNG(2))

        def forward(self, x: Value) -> Value:
            y = ops.relu(self.first(x))
            return self.last(self.again(ops.relu(self.again(y))))

    net = Twice()
    net.name_weights()
    prune(inference_graph(net, {"x": ("n", 6)}), 0.5)
    assert shapes(net)["again.weight"] == (8, 8)
    inference_graph(net, {"x": ("n", 6)})


def test_a_layer_that_also_sees_the_input_keeps_its_columns() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            self.layer, self.last = nn.Linear(16, 16, rng=RNG(1)), nn.Linear(16, 3, rng=RNG(2))

        def forward(self, x: Value) -> Value:
            return self.last(self.layer(ops.relu(self.layer(x))))

    net = Shared()
    net.name_weights()
    prune(inference_graph(net, {"x": ("n", 16)}), 0.5)
    assert shapes(net)["layer.weight"] == (16, 16)


@pytest.mark.parametrize(
    "use",
    [
        lambda y: ops.transpose(y, perm=(0, 3, 1, 2)),
        lambda y: ops.softmax(y, axis=3),
        lambda y: ops.reduce_max(y, axes=(3,)),
        lambda y: ops.slice(y, begin=(0, 0, 0, 0), end=(1, 4, 4, 4), step=(1, 1, 1, 1)),
        lambda y: ops.concat(y, y, axis=1),
        lambda y: y * Weight(np.ones((1, 1, 1, 8), np.float32), name="gate"),
        lambda y: ops.pad(y, before=(0, 0, 0, 1), after=(0, 0, 0, 0)),
    ],
)
def test_channels_whose_use_is_not_understood_stay(use: Callable[[Value], Value]) -> None:
    w = Weight(np.ones((8, 1, 1, 3), np.float32), name="w")
    graph = Graph.trace(lambda x: use(ops.conv2d(x, w)), (1, 4, 4, 3))
    assert all(g.fixed for g in channel_groups(graph))
    assert prune(graph, 0.5) == []


def conv(x: Value, outputs: int, name: str) -> Value:
    data = RNG(len(name)).standard_normal((outputs, 1, 1, x.shape[3])).astype(np.float32)
    return ops.conv2d(x, Weight(data, name=name))  # type: ignore[no-any-return]


def test_a_sum_with_channels_that_stay_stays() -> None:
    def net(x: Value) -> tuple[Value, Value]:
        a, b = conv(x, 8, "a"), conv(x, 8, "bb")
        seen = ops.softmax(b, axis=3)  # an interface, before the two are known to be one group
        return seen, conv(a + b, 4, "ccc")

    graph = Graph.trace(net, (1, 4, 4, 3))
    assert prune(graph, 0.5) == []


def test_a_join_of_joins_keeps_its_order() -> None:
    def net(x: Value) -> Value:
        a, b, c = (conv(x, n, name) for n, name in ((8, "a"), (16, "bb"), (12, "ccc")))
        return conv(ops.concat(ops.concat(a, b, axis=3), c, axis=3), 4, "dddd")

    graph = Graph.trace(net, (1, 4, 4, 3))
    weights = list(graph.weights)
    before = {w.name: w.data for w in weights}
    kept = []
    for name, size in (("a", 8), ("bb", 16), ("ccc", 12)):
        norm = np.abs(before[name]).sum((1, 2, 3))
        start = {"a": 0, "bb": 8, "ccc": 24}[name]
        kept += sorted(start + np.argsort(-norm, kind="stable")[: size // 2])
    prune(graph, 0.5, multiple=2)
    last = next(w for w in weights if w.name == "dddd")
    np.testing.assert_array_equal(last.data, before["dddd"][..., kept])


def test_a_filter_counts_as_its_batch_norm_scales_it() -> None:
    net = convnet(8, seed=0)
    scale = net.weights()["norm1.scale"]
    scale.data = np.array([1, 1e-3, 1, 1e-3, 1, 1, 1e-3, 1e-3], np.float32)
    wanted = net.weights()["conv1.weight"].data[[0, 2, 4, 5]]
    prune(graph_of(net), 0.5)
    np.testing.assert_array_equal(net.weights()["conv1.weight"].data, wanted)


def test_a_pruned_net_recovers_by_training(trained: nn.Module) -> None:
    test = textures(400, 9)
    before = evaluate(trained, test)["accuracy"]
    prune(graph_of(trained), 0.5)
    assert trained.weights()["conv1.weight"].data.shape[0] == 8
    fit(trained, textures(1200, 0), optimizer=Adam(0.005), epochs=3, progress=False)
    after = evaluate(trained, test)["accuracy"]
    assert before > 0.85
    assert after > before - 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 1.0}, "ratio 1.0"),
        ({"ratio": -0.1}, "ratio -0.1"),
        ({"ratio": 0.5, "multiple": 0}, "multiple 0"),
        ({"ratio": 0.5, "spare": ["nothing"]}, "no weight matches 'nothing'; there are conv1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prune(traced("lenet")[1], **options)  # type: ignore[arg-type]
