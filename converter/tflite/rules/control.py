"""Variables that outlive a call, and graphs inside of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, check_count, product
from converter.tflite.file import Tensor
from converter.tflite.rules.common import (
    MOVES,
    Call,
    Reader,
    as_value,
    is_scaled,
    is_wide,
    rule,
    zero_of,
)
from ir.graph import Constant, Graph, Value, Weight
from ir.op import OPS


def state_of(reader: Reader, name: str, t: Tensor) -> Value:
    """What a variable holds by now; zeros before anything was written."""
    if name not in reader.current:
        check_count(product(t.shape))
        if is_scaled(t):
            data = np.full(t.shape, zero_of(t), np.int16 if is_wide(t) else np.int8)
        elif t.element is not None and t.element.kind in "iu" and t.scales is None:
            data = np.zeros(t.shape, np.int32)
        else:
            data = np.zeros(t.shape, np.float32)
        reader.variables[name] = Weight(data, name=name, state=True)
        reader.current[name] = reader.variables[name]
    return reader.current[name]


@rule(MOVES, "VAR_HANDLE")
def var_handle(_: Reader, call: Call) -> Any:
    return call.attrs["shared_name"] or call.y.name or "variable"


@rule(MOVES, "READ_VARIABLE")
def read_variable(reader: Reader, call: Call, handle: Any) -> Item:
    return state_of(reader, _name(handle), call.y)


@rule(MOVES, "ASSIGN_VARIABLE")
def assign_variable(reader: Reader, call: Call, handle: Any, value: Item) -> list[Item]:
    """In the graph of CALL_ONCE it gives the first value, which must be known."""
    name = _name(handle)
    new = as_value(value)
    if reader.starts:
        if not isinstance(new, (Constant, Weight)):
            raise ConvertError(f"the first value of {name!r} is computed; want a constant")
        reader.variables[name] = Weight(new.data.copy(), name=name, state=True)
        reader.current[name] = reader.variables[name]
        return []
    old = state_of(reader, name, call.input(1))
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        raise ConvertError(f"{name!r} becomes {new!r} where it was {old!r}; want one shape")
    reader.current[name] = new
    return []


def _name(handle: Any) -> str:
    if not isinstance(handle, str):
        raise ConvertError("a variable without VAR_HANDLE")
    return handle


@rule(MOVES, "CALL_ONCE")
def call_once(reader: Reader, call: Call) -> list[Item]:
    reader.starts = True
    try:
        reader.run_graph(call.attrs["init_subgraph"], [])
    finally:
        reader.starts = False
    return []


@rule(MOVES, "CALL")
def call_graph(reader: Reader, call: Call, *items: Item) -> list[Item]:
    return reader.run_graph(call.attrs["subgraph"], items)


def is_leaf(x: Item) -> bool:
    """Whether a graph inside of another may read it as it is."""
    return not isinstance(x, Value) or isinstance(x, (Weight, Constant))


def traced(
    reader: Reader, number: int, items: Sequence[Item], kept: Sequence[bool]
) -> tuple[Graph, list[Value]]:
    """Graph `number` over inputs of its own, one for each item that is not kept as it is."""
    inputs = [Value(as_value(x).shape, as_value(x).dtype) for x in items]
    given = [x if same else v for x, v, same in zip(items, inputs, kept, strict=True)]
    before = dict(reader.current)
    outputs = [as_value(y) for y in reader.run_graph(number, given)]
    if reader.current != before:
        raise ConvertError(f"graph {number}, which may not run, or often, writes a variable")
    own = [v for v, same in zip(inputs, kept, strict=True) if not same]
    return Graph(tuple(own), tuple(outputs), tuple(f"y{i}" for i in range(len(outputs)))), outputs


@rule(MOVES, "IF")
def if_(reader: Reader, call: Call, condition: Item, *items: Item) -> list[Item]:
    then, otherwise = (call.attrs[f"{k}_subgraph"] for k in ("then", "else"))
    if isinstance(condition, np.ndarray):
        return reader.run_graph(then if condition.all() else otherwise, items)
    kept = [is_leaf(x) for x in items]
    a, _ = traced(reader, then, items, kept)
    b, _ = traced(reader, otherwise, items, kept)
    operands = [as_value(x) for x, same in zip(items, kept, strict=True) if not same]
    scalar = OPS["reshape"](as_value(condition), shape=())
    node = OPS["cond"].node([scalar, *operands], {"then": a, "otherwise": b})
    return list(node.results)


@rule(MOVES, "WHILE")
def while_(reader: Reader, call: Call, *items: Item) -> list[Item]:
    """Weights that the body hands on as it got them stay outside, so that they stay weights."""
    condition, body = (call.attrs[f"{k}_subgraph"] for k in ("cond", "body"))
    same = reader.passed_on(body)
    if len(same) != len(items):
        raise ConvertError(f"a loop over {len(items)} values whose body takes {len(same)}")
    kept = [s and is_leaf(x) for s, x in zip(same, items, strict=True)]
    turn, results = traced(reader, body, items, kept)
    state = [i for i, same in enumerate(kept) if not same]
    turn = Graph(turn.inputs, tuple(results[i] for i in state))
    ask, _ = traced(reader, condition, items, kept)
    asked = Graph(ask.inputs, (OPS["reshape"](ask.outputs[0], shape=()),))
    starts = [as_value(items[i]) for i in state]
    node = OPS["while_loop"].node(starts, {"condition": asked, "body": turn})
    out: list[Item] = list(items)
    for i, y in zip(state, node.results, strict=True):
        out[i] = y
    return out
