"""Fused elementwise nodes: the same bits, in fewer nodes and less memory."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from cloud import interpreter
from cloud.autodiff import vjp
from cloud.compile.fuse_elementwise import fuse_elementwise
from cloud.compile.program import runs_on_runtime
from ir import model_file
from ir.errors import AttrError
from ir.graph import Array, Constant, Graph, Model, Value, Weight
from ir.op import OPS
from ir.ops.fused import INSTRUCTION, read
from ir.symbol import symbol
from ir.verify import verify
from tests.random_graphs import random_arrays, random_graph, random_symbolic_graph


def counts(graph: Graph) -> tuple[int, int]:
    """How many nodes there are, and how many of them are fused ones."""
    return len(graph.nodes), sum(n.op.name == "fused_elementwise" for n in graph.nodes)


def outputs(graph: Graph, arrays: list[Array], **options: object) -> list[Array]:
    session = lite.load(model_file.write(Model({"infer": graph})), **options)
    names = [str(v.name) for v in graph.inputs]
    return list(session.run(dict(zip(names, arrays, strict=True))).values())


def assert_same_bits(graph: Graph, fused: Graph, arrays: list[Array]) -> None:
    verify(fused)
    with np.errstate(all="ignore"):
        for x, y in zip(
            interpreter.run(graph, *arrays), interpreter.run(fused, *arrays), strict=True
        ):  # numpy's own loops round differently by the layout of an array
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)
    for options in ({"backend": "ref"}, {}, {"threads": 3}):
        found = outputs(graph, arrays, **options), outputs(fused, arrays, **options)
        for x, y in zip(*found, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_keep_their_bits(seed: int) -> None:
    graph = random_graph(seed, nodes=12)
    if not runs_on_runtime(graph):
        pytest.skip("only numpy computes it")
    assert_same_bits(graph, fuse_elementwise(graph), random_arrays(graph, seed))


@pytest.mark.parametrize("seed", range(10))
def test_derivatives_of_symbolic_graphs_keep_their_bits(seed: int) -> None:
    graph = vjp(random_symbolic_graph(seed, nodes=5))
    arrays = random_arrays(graph, seed, batch=3, seq=5)
    assert_same_bits(graph, fuse_elementwise(graph), arrays)


SHAPES = [(1000, 3), (3,), (1000, 1), (), (1, 3)]


def test_a_chain_with_stretched_inputs_becomes_one_node() -> None:
    x, bias, scale, number, row = (Value(s, name=f"x{i}") for i, s in enumerate(SHAPES))
    y = OPS["tanh"]((x + bias) * scale * 0.5) * number
    graph = Graph((x, bias, scale, number, row), (y - row, OPS["exp"](y)))
    fused = fuse_elementwise(graph)
    assert counts(graph) == (7, 0)
    assert counts(fused) == (1, 1)
    assert_same_bits(graph, fused, random_arrays(graph, 0))


def test_forward_and_backward_fuse_alike() -> None:
    x = Value((300, 70), name="x")
    w = Weight(np.random.default_rng(0).uniform(-1, 1, (70, 70)).astype(np.float32), name="w")
    h = OPS["silu"](x @ w) * 0.5 + x
    loss = OPS["reduce_sum"](OPS["relu"](h) * h, axes=(0, 1))
    graph = vjp(Graph((x,), (loss,)), [x, w])
    fused = fuse_elementwise(graph)
    kept = {n.op.name for n in fused.nodes}
    assert kept.isdisjoint({"silu", "sigmoid", "relu", "greater", "where", "mul", "broadcast_to"})
    assert_same_bits(graph, fused, random_arrays(graph, 1))


def test_a_value_that_others_read_in_between_is_not_waited_for() -> None:
    """tanh(x) is read by a product that the last node needs: they cannot be one."""
    x = Value((8, 8), name="x")
    a = OPS["tanh"](x)
    b = OPS["exp"](a @ a) + a
    graph = Graph((x,), (b,))
    fused = fuse_elementwise(graph)
    assert [n.op.name for n in fused.nodes] == ["tanh", "matmul", "fused_elementwise"]
    assert_same_bits(graph, fused, random_arrays(graph, 0))


def test_numbers_and_integers_and_lone_nodes_are_left_alone() -> None:
    n, x = Value((), name="n"), Value((4, 5), name="x")
    graph = Graph((n, x), (OPS["exp"](n * 2.0 + 1.0), OPS["tanh"](x)))
    assert counts(fuse_elementwise(graph)) == (4, 0)


def test_loops_fuse_inside() -> None:
    x = Value((64,), name="x")
    body = Graph.trace(lambda x: (OPS["sin"](x) * 0.5 + x,), Value((64,)))
    small = Graph.trace(
        lambda x: (OPS["less"](OPS["reduce_sum"](x * x, axes=(0,)), 600.0),), Value((64,))
    )
    graph = Graph((x,), OPS["while_loop"](x, condition=small, body=body))
    fused = fuse_elementwise(graph)
    assert counts(fused.nodes[0].attrs["body"]) == (1, 1)
    assert_same_bits(graph, fused, random_arrays(graph, 0))


def test_a_fused_node_may_take_the_place_of_its_input() -> None:
    x = Value((symbol("n"), 4), name="x")
    y = OPS["softmax"](x, axis=1)
    graph = Graph((x,), (OPS["tanh"](y * 2.0) + 1.0,))
    session = lite.load(model_file.write(Model({"infer": fuse_elementwise(graph)})))
    session.run(np.ones((1000, 4), np.float32))
    assert session.planned_bytes() == 16000
    # ... but not while the program still reads it after a result has been written
    a, b = OPS["exp"](y), OPS["sin"](y)
    graph = Graph((x,), (a * 2.0, b + a * 2.0))
    assert_same_bits(graph, fuse_elementwise(graph), random_arrays(graph, 0, n=1000))


def test_long_chains_are_cut_where_a_program_ends() -> None:
    x = Value((10,), name="x")
    y = x
    for k in range(150):
        y = y * np.float32(1 + k / 1000) + 0.5 if k % 2 else OPS["sin"](y)
    graph = Graph((x,), (y,))
    fused = fuse_elementwise(graph)
    assert counts(fused)[0] < 40
    assert_same_bits(graph, fused, random_arrays(graph, 0))


def test_damaged_programs_are_refused() -> None:
    x = Value((10,), name="x")
    (node,) = fuse_elementwise(Graph((x,), (OPS["exp"](x * 2.0),))).nodes
    words = list(node.attrs["program"])
    assert len(read(words, 1).instructions) == 2
    for damaged in ([], words[:-1], [99, *words[1:]], [*words[:-INSTRUCTION], 900, *words[-6:]]):
        with pytest.raises(AttrError, match="fused_elementwise: "):
            node.op.node([x], {"program": damaged})
    with pytest.raises(AttrError, match="fused_elementwise: program is"):
        node.op.node([x], {"program": (2**31,)})


def test_constants_of_other_types_stay_inputs() -> None:
    x = Value((6,), name="x")
    keep = Constant(np.array([True] * 3 + [False] * 3))
    graph = Graph((x,), (OPS["where"](OPS["logical_not"](keep), OPS["neg"](x), x * x),))
    fused = fuse_elementwise(graph)
    assert counts(fused) == (1, 1)
    assert_same_bits(graph, fused, random_arrays(graph, 0))
