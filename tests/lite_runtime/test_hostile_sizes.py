"""Files that speak of sizes which a run would find later, or never: both readers refuse them."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from ir import model_file
from ir.dtype import DType
from ir.errors import FormatError, GraphError, IrError
from tests.lite_runtime.handmade import Rows

K, L = -(2**31), -(2**31) + 1  # words of the expressions that are the free dimensions k and l
I32, BOOL = DType.i32.value, DType.bool.value
N, FIRST = 1, 2  # ids: the input, the first result


def rows() -> Rows:
    """Letters: n for i32[1], N for i32[2], k for i32[k], l for i32[l], p for bool[]."""
    made = Rows()
    made.symbols = [(made.name("k"), 0, 100), (made.name("l"), 0, 100)]
    made.expressions = [(made.words(16 - 2**31 + i), 1) for i in (0, 1)]
    shapes = {"n": (I32, 1), "N": (I32, 2), "k": (I32, K), "l": (I32, L)}
    made.types = {c: (dtype, 1, made.words(word)) for c, (dtype, word) in shapes.items()}
    made.types["p"] = (BOOL, 0, 0)
    return made


def bind(made: Rows, x: int, y: int, *sizes: int) -> tuple[int, ...]:
    return made.node("bind_sizes", (x,), (y,), (len(sizes), *sizes))


def iota(made: Rows, y: int, size: int = K) -> tuple[int, ...]:
    return made.node("iota", (), (y,), (size,))


def after(made: Rows, x: int, read: int, y: int) -> tuple[int, ...]:
    return made.node("after", (x, read), (y,))


def refused(made: Rows, runtime: str, reader: str) -> None:
    """Both readers refuse the file, each in its words."""
    file = made.file()
    with pytest.raises(lite.LiteError, match=runtime):
        lite.load(file)
    with pytest.raises((FormatError, GraphError), match=reader):
        model_file.read(file)


def test_a_size_may_be_spoken_of_behind_the_node_that_binds_it() -> None:
    made = rows()
    nodes = [
        bind(made, N, FIRST, K),
        iota(made, FIRST + 1),
        after(made, FIRST + 1, FIRST, FIRST + 2),
    ]
    made.entry("f", nodes, [FIRST + 2], "nnkk", ("n",))
    session = lite.load(made.file())
    assert session.run(np.array([3], np.int32)).tolist() == [0, 1, 2]
    assert session.run(np.array([0], np.int32)).tolist() == []
    with pytest.raises(lite.LiteError, match="k = 101: want 0 to 100"):
        session.run(np.array([101], np.int32))
    assert model_file.read(made.file()).symbol_ranges["k"] == (0, 100)


def test_a_size_cannot_be_spoken_of_before_it_is_bound() -> None:
    made = rows()
    nodes = [
        iota(made, FIRST),
        bind(made, N, FIRST + 1, K),
        after(made, FIRST, FIRST + 1, FIRST + 2),
    ]
    made.entry("f", nodes, [FIRST + 2], "nknk", ("n",))
    refused(made, "entry 0, node 0: speaks of a size before it is", "speaks of k before that is")


def test_a_size_is_not_bound_for_nothing() -> None:
    made = rows()
    made.entry("f", [bind(made, N, FIRST, K)], [N], "nn", ("n",))
    with pytest.raises(FormatError, match="binds k, but nothing reads its result"):
        model_file.read(made.file())


def test_an_input_cannot_have_a_size_that_is_bound() -> None:
    made = rows()
    made.entry("f", [bind(made, N + 1, FIRST + 1, K)], [N], "knn", ("x", "n"))
    file = made.file()
    with pytest.raises(lite.LiteError, match="an input has a size that is bound later"):
        lite.load(file)


def test_a_size_is_bound_once() -> None:
    made = rows()
    nodes = [bind(made, N, FIRST, K), bind(made, N, FIRST + 1, K)]
    made.entry("f", nodes, [FIRST, FIRST + 1], "nnn", ("n",))
    refused(made, "node 1: binds what is no free dimension, or one that", "k has a value already")


@pytest.mark.parametrize("sizes", [(3,), (K, K)])
def test_only_different_free_dimensions_are_bound(sizes: tuple[int, ...]) -> None:
    made = rows()
    letter = "n" if len(sizes) == 1 else "N"
    made.entry("f", [bind(made, N, FIRST, *sizes)], [FIRST], 2 * letter, ("n",))
    refused(made, "binds what is no free dimension", "want different free dimensions")


def test_as_many_sizes_are_bound_as_there_are_numbers() -> None:
    made = rows()
    made.entry("f", [bind(made, N, FIRST, K, L)], [FIRST], "nn", ("n",))
    with pytest.raises(lite.LiteError, match="shapes, types or attributes do not fit"):
        lite.load(made.file()).run(np.array([3], np.int32))
    with pytest.raises(IrError, match="for 2 sizes; want one for each"):
        model_file.read(made.file())


def test_a_function_binds_nothing() -> None:
    made = rows()
    made.entry("", [bind(made, N, FIRST, K)], [FIRST], "nn", ("n",))
    made.entry("f", [made.node("call", (N,), (FIRST,), (0, 0))], [FIRST], "nn", ("n",))
    refused(made, "entry 0, node 0: a function binds a size", "a function binds k")


def branches(made: Rows, results: str) -> None:
    """An entry that runs graph 0 or 1 on its input n."""
    node = made.node("cond", (N, N + 1), (N + 2,), (0, 1))
    made.entry("f", [node], [N + 2], "pn" + results, ("p", "n"))


def test_one_branch_does_not_know_what_the_other_one_binds() -> None:
    made = rows()
    made.entry("", [bind(made, N, FIRST, K)], [FIRST], "nn", ("n",))
    made.entry("", [iota(made, FIRST)], [N], "nk", ("n",))
    branches(made, "n")
    file = made.file()
    with pytest.raises(
        lite.LiteError, match="entry 1, node 0: speaks of a size before it is bound"
    ):
        lite.load(file)


def test_a_result_of_a_branch_has_no_size_that_is_bound_inside() -> None:
    made = rows()
    for _ in range(2):
        nodes = [bind(made, N, FIRST, K), iota(made, FIRST + 1)]
        made.entry("", nodes, [FIRST + 1], "nnk", ("n",))
    branches(made, "n")
    with pytest.raises(lite.LiteError, match="a result has a size that is bound inside"):
        lite.load(made.file())
    with pytest.raises(IrError):
        model_file.read(made.file())


def test_a_graph_inside_does_not_bind_what_is_bound_around_it() -> None:
    made = rows()
    for _ in range(2):
        made.entry("", [bind(made, N, FIRST, K)], [FIRST], "nn", ("n",))
    nodes = [bind(made, N + 1, N + 2, K), made.node("cond", (N, N + 2), (N + 3,), (0, 1))]
    made.entry("f", nodes, [N + 3], "pnnn", ("p", "n"))
    refused(made, "entry 2, node 0: binds what is", "k has a value already")


def test_graphs_that_bind_do_not_run_inside_of_themselves() -> None:
    made = rows()
    nodes = [bind(made, N + 1, N + 2, K), made.node("cond", (N, N, N + 1), (N + 3,), (0, 0))]
    made.entry("", nodes, [N + 3], "pnnn", ("p", "n"))
    node = made.node("cond", (N, N, N + 1), (N + 2,), (0, 0))
    made.entry("f", [node], [N + 2], "pnn", ("p", "n"))
    with pytest.raises(lite.LiteError, match="entry 0, node 1: runs a graph that does not stand"):
        lite.load(made.file())
    with pytest.raises(IrError):
        model_file.read(made.file())
