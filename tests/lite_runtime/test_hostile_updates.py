"""Files in which names or updates contradict each other: both readers refuse them."""

from __future__ import annotations

import numpy as np
import pytest

import lite_runtime as lite
from ir import model_file
from ir.errors import FormatError
from tests.lite_runtime.handmade import Rows

SYMBOL = 16 - 2**31
W, G, LR, FIRST = range(4)  # ids: the weight, the inputs, the first result


def refused(rows: Rows, runtime: str, reader: str) -> None:
    """Both readers refuse the file, each in its words."""
    file = rows.file()
    with pytest.raises(lite.LiteError, match=runtime):
        lite.load(file)
    with pytest.raises(FormatError, match=reader):
        model_file.read(file)


def step(rows: Rows, w: int = W) -> tuple[int, ...]:
    return rows.node("sgd_step", (w, G, LR), (w,), (0,))


def column(rows: Rows, x: int, y: int) -> tuple[int, ...]:
    """[2] to [2,1]."""
    return rows.node("reshape", (x,), (y,), (2, 2, 1))


def train(rows: Rows, nodes: list[tuple[int, ...]], outputs: list[int], results: str) -> Rows:
    rows.entry("train", nodes, outputs, "vs" + results, ("g", "lr"))
    return rows


def test_a_view_may_be_read_before_an_update_and_made_behind_it() -> None:
    rows = Rows()
    before, new = column(rows, W, FIRST), column(rows, W, FIRST + 2)
    read = rows.node("neg", (FIRST,), (FIRST + 1,))
    train(rows, [before, read, step(rows), new], [FIRST + 1, FIRST + 2, W], "mmm")
    found = lite.load(rows.file()).run({"g": [1, 1], "lr": 0.25}, "train")
    assert found["y0"].ravel().tolist() == [-1, -1]
    assert found["y1"].ravel().tolist() == found["y2"].tolist() == [0.75, 0.75]
    assert [w.name for w, _ in model_file.read(rows.file()).entries["train"].updates] == ["w"]


@pytest.mark.parametrize("way", ["node", "output", "view", "chain"])
def test_an_old_view_cannot_be_read_behind_an_update(way: str) -> None:
    rows = Rows()
    nodes, end = [column(rows, W, FIRST), step(rows)], FIRST + 1
    if way == "node":
        nodes.append(rows.node("neg", (FIRST,), (end,)))
    elif way == "view":
        nodes.append(rows.node("reshape", (FIRST,), (end,), (2, 2, 1)))
    elif way == "chain":
        nodes.insert(1, rows.node("reshape", (FIRST,), (end,), (2, 2, 1)))
    shown = FIRST if way == "output" else end
    train(rows, nodes, [shown], "m" if way == "output" else "mm")
    node = 2 if way == "chain" else 1
    refused(
        rows,
        rf"^entry 0, node {node} \(sgd_step\): overwrites weight 0, whose old value is read behind",
        rf"node {node} \(sgd_step\): overwrites <weight w f32\[2\]>, which is read behind it$",
    )


@pytest.mark.parametrize("depth", [1, 2])
def test_a_sub_graph_cannot_read_a_weight_behind_its_update(depth: int) -> None:
    def rows_with(*order: str) -> Rows:
        rows = Rows()
        rows.entry("", [], [W])
        if depth == 2:
            rows.entry("", [rows.node("call", (), (1,), (0, 0))], [1], "v")
        nodes = {"step": step(rows), "call": rows.node("call", (), (FIRST,), (depth - 1, 0))}
        return train(rows, [nodes[o] for o in order], [FIRST], "v")

    good = rows_with("call", "step").file()
    found = lite.load(good).run({"g": [1, 1], "lr": 0.25}, "train")
    assert np.ravel(found["y0"] if isinstance(found, dict) else found).tolist() == [1, 1]
    model_file.read(good)
    refused(
        rows_with("step", "call"),
        r"node 0 \(sgd_step\): overwrites weight 0, whose old value is read behind it$",
        r"node 0 \(sgd_step\): overwrites <weight w f32\[2\]>, which is read behind it$",
    )


def test_a_weight_is_updated_once_in_an_entry_but_in_any_number_of_entries() -> None:
    rows = train(Rows(), [], [G], "")
    rows.entries[0].nodes = [step(rows)]
    rows.entry("again", [step(rows)], [G], "vs", ("g", "lr"))
    lite.load(rows.file())
    model_file.read(rows.file())
    rows.entries[1].nodes = [step(rows), step(rows)]
    refused(
        rows,
        r"^entry 1, node 1 \(sgd_step\): overwrites weight 0, which has been updated already$",
        "a weight of kind 1 or 2 that is not updated yet",
    )


def test_an_operator_cannot_update_one_weight_in_two_roles() -> None:
    rows = Rows()
    momentum = rows.node("momentum_step", (W, W, G, LR), (W, W), (0, 0, 0))
    refused(
        train(rows, [momentum], [G], ""),
        r"^entry 0, node 0 \(momentum_step\): overwrites weight 0, which has been updated already$",
        "result 1 is id 0, want the id of input 1, a weight of kind 1 or 2 that is not updated yet",
    )


def test_names_of_inputs_outputs_weights_and_free_dimensions_are_different() -> None:
    rows = Rows()
    rows.entry("f", [], [1, 2], "vv", ("x", "x"))
    refused(rows, "^entry 0, input x: stands there twice$", "input 'x' stands there twice")
    rows = Rows()
    rows.entry("f", [], [1, 2], "vv", ("x", "z"), ("y", "y"))
    refused(rows, "^entry 0, output y: stands there twice$", "want 2 different ones")
    rows = Rows()
    rows.entry("f", [], [1, 2], "vv", ("x", "z"), ("", ""))
    refused(rows, "^entry 0, output : stands there twice$", "want 2 different ones")
    rows = Rows(["w", "w"])
    rows.entry("f", [], [0, 1])
    refused(rows, "^weight w: stands there twice$", "weight 'w' stands there twice")
    rows = Rows()
    rows.entry("f", [], [1], "v", ("x",))
    rows.symbols = [(rows.name("n"), 1, 8), (rows.name("n"), 1, 8)]
    refused(rows, "^free dimension n: stands there twice$", "want different identifiers")


def test_names_may_be_left_out_any_number_of_times() -> None:
    rows = Rows(["", ""])
    rows.weights = [(dtype, 3, *rest) for dtype, _, *rest in rows.weights]  # frozen
    rows.entry("f", [], [0, 1, 2, 3], "vv", ("", ""))
    assert len(lite.load(rows.file()).inputs("f")) == 2
    assert len(model_file.read(rows.file()).entries["f"].inputs) == 2


def test_expressions_have_tokens_of_their_own() -> None:
    rows = Rows()
    rows.entry("f", [], [1], "v", ("x",))
    rows.symbols = [(rows.name("n"), 1, 8)]
    tokens = rows.words(SYMBOL)
    rows.expressions = [(tokens, 1)] * len(rows.pool)
    lite.load(rows.file())
    model_file.read(rows.file())
    rows.expressions.append((tokens, 1))
    refused(rows, "more tokens than the pool$", "more tokens than the pool has words")


def test_a_file_has_at_most_4096_free_dimensions() -> None:
    rows = Rows()
    rows.entry("f", [], [1], "v", ("x",))
    rows.symbols = [(rows.name(f"n{i}"), 1, 8) for i in range(4097)]
    refused(rows, "want at most 4096 free dimensions", "4097 symbols, want at most 4096")
    rows.symbols.pop()
    lite.load(rows.file())
    model_file.read(rows.file())
