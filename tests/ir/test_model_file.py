"""Model files: every byte of the layout, what comes back, and what they refuse to hold."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import model_file
from ir.errors import FormatError, GraphError
from ir.generated import model_generated as fb
from ir.graph import Array, Constant, Graph, Model, Value, Weight
from ir.op import OPS, Op
from ir.symbol import symbol
from ir.verify import same_graph
from tests.random_graphs import random_model, random_symbolic_graph

TRAILER = 184


def weight(*shape: int, name: str, **kind: bool) -> Weight:
    return Weight(np.ones(shape, np.float32), name=name, **kind)


def small_model() -> Model:
    """One weight of each kind, free dimensions, an update."""
    x = Value((symbol("batch"), 3), name="x")
    w, m = weight(3, name="w"), weight(3, name="m", state=True)
    y = OPS["tanh"](x * w) * weight(3, name="fixed", trainable=False)
    g, lr = OPS["reduce_sum"](y, axes=(0,)), Constant(np.float32(0.5))
    new = OPS["momentum_step"](w, m, g, lr, momentum=0.5)
    loss = OPS["reduce_mean"](y, axes=(0, 1))
    entries = {
        "infer": Graph((x,), (y,), ("y",)),
        "train": Graph((x,), (loss,), ("loss",), tuple(zip((w, m), new, strict=True))),
    }
    return Model(entries, {"licence": "CC0"}, {"batch": (1, 64)})


def same_model(a: Model, b: Model) -> bool:
    return list(a.entries) == list(b.entries) and all(
        same_graph(a.entries[n], b.entries[n]) for n in a.entries
    )


@given(seed=st.integers(0, 2**31), strip=st.booleans())
@settings(max_examples=60, deadline=None)
def test_random_models_come_back(seed: int, strip: bool) -> None:
    model = random_model(seed)
    again = model_file.read(model_file.write(model, strip_names=strip))
    if not strip:
        assert same_model(again, model)
    assert again.metadata == model.metadata
    arrays, arrays_again = ([w.data.tobytes() for w in m.weights] for m in (model, again))
    assert arrays == arrays_again
    assert model_file.write(again, strip_names=strip) == model_file.write(model, strip_names=strip)


@given(seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_sizes_and_attributes_may_be_expressions(seed: int) -> None:
    model = Model({"f": random_symbolic_graph(seed)}, symbol_ranges={"seq": (2, 100)})
    again = model_file.read(model_file.write(model))
    assert same_model(again, model)
    assert again.symbol_ranges == {"batch": (1, 2**31 - 1), "seq": (2, 100)}


def test_inner_names_and_sources_come_back() -> None:
    model = small_model()
    node = model.entries["infer"].nodes[0]
    node.results[0].name, node.source = "product", "net.py:3"
    (again, *_) = model_file.read(model_file.write(model)).entries["infer"].nodes
    assert (again.results[0].name, again.source) == ("product", "net.py:3")


def test_stripping_keeps_the_names_that_a_model_is_called_by() -> None:
    model = small_model()
    for node in model.entries["infer"].nodes:
        node.source, node.results[0].name = "secret.py:3", "inner"
    data = model_file.write(model, strip_names=True)
    again = model_file.read(data)
    assert b"secret" not in data
    assert b"inner" not in data
    assert b"fixed" not in data
    assert [v.name for v in again.entries["infer"].inputs] == ["x"]
    assert again.entries["infer"].output_names == ("y",)
    assert [w.name for w in again.weights] == ["w", "weight1", "m"]


def test_an_input_without_a_name_gets_one() -> None:
    graph = Graph.trace(lambda a, b: a + b, Value((3,)), Value((3,)))
    again = model_file.read(model_file.write(Model({"f": graph}))).entries["f"]
    assert [v.name for v in again.inputs] == ["input0", "input1"]


def test_the_layout_is_the_documented_one() -> None:
    data = model_file.write(small_model())
    trailer = data[-TRAILER:]
    magic, index_size, file_size = struct.unpack_from("<8sQQ", trailer)
    root, key, signature, digest = (
        trailer[a:b] for a, b in ((24, 56), (56, 88), (88, 152), (152, 184))
    )
    assert (magic, file_size, len(data) % 8) == (b"MSPNTAIL", len(data), 0)
    assert data[4:8] == b"MSPN"
    sizes = struct.pack("<QQ", file_size, index_size)
    index = data[:index_size]
    assert root == hashlib.sha256(b"mindspan model root 1\0" + sizes + index).digest()
    assert digest == hashlib.sha256(trailer[:152]).digest()
    assert key == bytes(32)
    assert signature == bytes(64)
    table = fb.Index.GetRootAs(index, 0)
    segments = [table.Segments(i) for i in range(table.SegmentsLength())]
    end = index_size
    for s in segments:
        assert s.Offset() == -(-end // 64) * 64
        assert not any(data[end : s.Offset()])
        end = s.Offset() + s.Size()
        assert hashlib.sha256(data[s.Offset() : end]).digest() == bytes(s.Sha256())
    assert not any(data[end:-TRAILER])
    assert len(data) == -(-end // 8) * 8 + TRAILER
    kinds = {(w.Kind(), w.Segment()) for w in map(table.Weights, range(table.WeightsLength()))}
    assert kinds == {(0, 0), (3, 0), (1, 1), (2, 2)}


def test_segments_that_would_hold_nothing_are_left_out() -> None:
    def segments(graph: Graph) -> int:
        data = model_file.write(Model({"f": graph}))
        return int(fb.Index.GetRootAs(data, 0).SegmentsLength())

    assert segments(Graph.trace(OPS["tanh"], (3,))) == 0
    assert segments(Graph.trace(lambda x: x * weight(3, name="w"), (3,))) == 1
    assert segments(Graph.trace(lambda x: x + weight(0, 3, name="empty"), (1, 3))) == 1


def test_tensors_start_at_multiples_of_16_in_memory_and_are_read_only() -> None:
    model = Model({"f": Graph.trace(lambda x: x * weight(3, name="a") * weight(3, name="b"), (3,))})
    data = model_file.write(model)
    a, b = model_file.read(data).weights
    assert b.data.ctypes.data - a.data.ctypes.data == 16
    assert not a.data.flags.writeable
    assert np.shares_memory(a.data, np.frombuffer(data, np.uint8))


def test_equal_constants_are_stored_once() -> None:
    def net(x: Value) -> Value:
        return x * Constant(np.full(50, 3, np.float32)) + Constant(np.full(50, 3, np.float32))

    data = model_file.write(Model({"f": Graph.trace(net, (50,)), "g": Graph.trace(net, (50,))}))
    assert data.count(np.full(50, 3, np.float32).tobytes()) == 1


def test_weights_are_shared_between_entries_after_reading() -> None:
    again = model_file.read(model_file.write(small_model()))
    assert [w.name for w in again.weights] == ["w", "fixed", "m"]
    assert [(w.trainable, w.state) for w in again.weights] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert again.entries["infer"].weights[0] is again.entries["train"].updates[0][0]


def test_the_same_model_gives_the_same_bytes() -> None:
    assert model_file.write(small_model()) == model_file.write(small_model())
    a, b = small_model(), small_model()
    a.metadata = {"b": "2", "a": "1"}
    b.metadata = {"a": "1", "b": "2"}
    assert model_file.write(a) == model_file.write(b)


def test_sub_graphs_are_stored_and_shared(apply_op: Op) -> None:
    w = weight(2, name="w")
    inner = Graph.trace(lambda x: OPS["tanh"](x * w), (2,))
    outer = Graph.trace(lambda x: apply_op(apply_op(x, body=inner), body=inner), (2,))
    model = Model({"f": Graph.trace(lambda x: apply_op(x, body=outer), (2,)), "g": inner})
    data = model_file.write(model)
    again = model_file.read(data)
    assert same_model(again, model)
    first, second = next(again.entries["f"].nodes[0].subgraphs()).nodes
    assert first.attrs["body"] is second.attrs["body"]
    assert fb.Index.GetRootAs(data, 0).EntriesLength() == 4


def test_a_sub_graph_that_updates_a_weight_is_refused(apply_op: Op) -> None:
    w = weight(2, name="w")
    x = Value((2,), name="x")
    inner = Graph((x,), (x,), ("y",), ((w, OPS["sgd_step"](w, x, Constant(np.float32(1)))),))
    with pytest.raises(GraphError, match="a sub-graph updates weights"):
        model_file.write(Model({"f": Graph.trace(lambda x: apply_op(x, body=inner), (2,))}))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Model({}), "want at least one, each with a name"),
        (Model({"": Graph.trace(OPS["tanh"], (3,))}), "each with a name"),
        (Model({"a\nb": Graph.trace(OPS["tanh"], (3,))}), "want no control characters"),
        (Model({"\ud800": Graph.trace(OPS["tanh"], (3,))}), "want no control characters"),
        (Model({"f": Graph.trace(OPS["tanh"], (3,))}, {"a": "\0"}), "want no control characters"),
        (Model({"f": Graph.trace(OPS["tanh"], (2**31,))}), "is 2147483648, want a number from"),
        (Model({"f": Graph.trace(lambda x: OPS["clip"](x, high=1e39), (3,))}), "high is 1e+39"),
    ],
    ids=str,
)
def test_what_a_file_cannot_hold_is_refused(model: Model, message: str) -> None:
    with pytest.raises((GraphError, FormatError)) as error:
        model_file.write(model)
    assert message in str(error.value)


def test_an_expression_that_is_too_long_is_refused() -> None:
    size = sum(symbol(f"s{i}") for i in range(200))
    with pytest.raises(FormatError, match="an expression of 399 tokens, want at most 256"):
        model_file.write(Model({"f": Graph((Value((size,), name="x"),), ())}))


def ds_cnn(*, folded: bool) -> Model:
    """DS-CNN for keyword spotting (Zhang et al. 2017), its batch norm folded or not."""

    def layer(x: Value, name: str, op: str, shape: tuple[int, ...], **attrs: object) -> Value:
        channels = shape[0] if op == "conv2d" else shape[-1]
        w = weight(*shape, name=f"{name}.weight", trainable=False)
        parts = [
            weight(channels, name=f"{name}.{part}", trainable=False)
            for part in (["bias"] if folded else ["scale", "shift", "mean", "variance"])
        ]
        if folded:
            y = OPS[op].node((x, w, parts[0]), {**attrs, "activation": "relu"}, name)
            return y.results[0]
        y = OPS[op](x, w, **attrs)
        return OPS["relu"](OPS["batch_norm"](y, *parts))

    def net(x: Value) -> dict[str, Value]:
        y = layer(x, "first", "conv2d", (64, 10, 4, 1), strides=(2, 2), pads=(4, 1, 5, 1))
        for i in range(4):
            y = layer(y, f"block{i}.depthwise", "depthwise_conv2d", (3, 3, 64), pads=(1, 1, 1, 1))
            y = layer(y, f"block{i}.pointwise", "conv2d", (64, 1, 1, 64))
        y = OPS["reduce_mean"](y, axes=(1, 2))
        head = [
            weight(*s, name=n, trainable=False)
            for s, n in (((12, 64), "head.w"), ((12,), "head.b"))
        ]
        return {"logits": OPS["linear"](y, *head)}

    x = Value((symbol("batch"), 49, 10, 1), name="x")
    return Model({"infer": Graph.trace(net, x)}, {"licence": "Apache-2.0"})


@pytest.mark.parametrize(("folded", "strip"), [(True, False), (False, True)])
def test_a_ds_cnn_costs_less_than_3_kilobytes_over_its_weights(folded: bool, strip: bool) -> None:
    model = ds_cnn(folded=folded)
    raw = sum(w.data.nbytes for w in model.weights)
    assert len(model_file.write(model, strip_names=strip)) - raw <= 3000


def test_a_file_above_one_megabyte_costs_less_than_one_percent() -> None:
    w = [weight(1000, 50, name=f"layer{i}.weight") for i in range(50)]

    def net(x: Value) -> Value:
        for part in w:
            x = OPS["relu"](x * part)
        return x

    model = Model({"f": Graph.trace(net, (1000, 50))})
    assert len(model_file.write(model)) <= 1.01 * 10_000_000


def test_save_writes_whole_files_and_load_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "model.ms"
    model_file.save(small_model(), path)
    assert same_model(model_file.load(path), small_model())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"model\.ms: model file"):
        model_file.load(path)


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "folder.ms"
    target.mkdir()
    with pytest.raises(OSError, match=r"folder\.ms"):
        model_file.save(small_model(), target)
    assert list(tmp_path.iterdir()) == [target]


def public_key(private: bytes) -> bytes:
    signer = model_file.signer(model_file.write(small_model(), sign_with=private))
    assert signer is not None
    return signer


def test_a_signed_file_is_read_with_the_key_of_its_signer() -> None:
    private = bytes(range(32))
    data = model_file.write(small_model(), sign_with=private)
    assert same_model(model_file.read(data, verify=public_key(private)), small_model())
    assert same_model(model_file.read(data), small_model())
    assert model_file.sign(model_file.write(small_model()), private) == data


@pytest.mark.parametrize("key", [public_key(bytes(32)), bytes(32)], ids=["another key", "zeros"])
def test_other_signers_are_refused(key: bytes) -> None:
    unsigned = model_file.write(small_model())
    for data in (unsigned, model_file.sign(unsigned, bytes(range(32)))):
        with pytest.raises(FormatError, match="signed by"):
            model_file.read(data, verify=key)
    assert model_file.signer(unsigned) is None


def test_a_signature_of_another_file_is_refused() -> None:
    private = bytes(range(32))
    other = small_model()
    other.metadata["licence"] = "CC1"
    donor = model_file.write(other, sign_with=private)[-TRAILER:]
    data = bytearray(model_file.write(small_model()))
    data[-128:-32] = donor[56:152]
    data[-32:] = hashlib.sha256(data[-TRAILER:-32]).digest()
    with pytest.raises(FormatError, match="the signature is not one of this file"):
        model_file.read(bytes(data), verify=public_key(private))


def test_keys_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="private key of 31 bytes, want 32"):
        model_file.write(small_model(), sign_with=bytes(31))
    with pytest.raises(ValueError, match="public key of 31 bytes, want 32"):
        model_file.read(model_file.write(small_model()), verify=bytes(31))


def test_float_attributes_and_all_element_types_come_back() -> None:
    arrays: list[Array] = [
        np.array([1, 2], t) for t in ("f4", "f2", "i1", "u1", "i4", "i8", "?", "f8")
    ]
    outputs = tuple(Constant(a) for a in arrays)
    again = model_file.read(model_file.write(Model({"f": Graph((), outputs)}))).entries["f"]
    for a, v in zip(arrays, again.outputs, strict=True):
        np.testing.assert_array_equal(a, v.data, strict=True)  # type: ignore[attr-defined]
