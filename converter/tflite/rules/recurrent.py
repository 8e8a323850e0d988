"""Recurrent layers on real numbers. Their state outlives a call, as TFLite's does."""

from __future__ import annotations

from typing import Any

from converter.errors import ConvertError
from converter.items import Item, shape_of, static
from converter.tflite.rules.common import (
    PLAIN,
    Call,
    Reader,
    activation_kind,
    as_value,
    compute,
    real,
    rule,
    stored,
    with_activation,
)
from converter.tflite.rules.control import state_of
from converter.tflite.rules.parts import along, reshaped
from ir.graph import Value
from ir.op import OPS

MOST_STEPS = 1024  # of a layer that is written out step by step
GATES = ("input", "forget", "cell", "output")


def state_name(call: Call, i: int) -> str:
    return call.input(i).name or f"state of {call.y.name}"


def _optional(items: Any, i: int) -> Item:
    return items[i] if i < len(items) else None


def _joined(items: Any, first: int, call: Call) -> Item:
    """The four gates' weights or biases as one, behind each other."""
    parts = [_optional(items, first + i) for i in range(4)]
    if all(p is None for p in parts):
        return None
    for gate, part in zip(GATES, parts, strict=True):
        if part is None:
            raise ConvertError(f"an LSTM without {gate} gate")
    return compute(OPS["concat"], *parts, axis=0)


def _by_time(x: Item, call: Call) -> Item:
    """[n,t,h] of [t,n,h] where time comes first, and back."""
    return compute(OPS["transpose"], x, perm=(1, 0, 2)) if call.attrs["time_major"] else x


def lstm(
    reader: Reader, call: Call, x: Item, items: Any, at: dict[str, int], reverse: bool = False
) -> Item:
    """One direction over x [n,t,in]. `at`: where among the inputs each group of them begins."""
    present = [i for i in (*range(at["peephole"], at["peephole"] + 3), at["projection"])
               if _optional(items, i) is not None]  # fmt: skip
    if present or call.attrs["cell_clip"] or call.attrs["proj_clip"]:
        raise ConvertError("an LSTM with peepholes, projection or clipped cells")
    if activation_kind(call) != "tanh":
        raise ConvertError(f"an LSTM with {activation_kind(call)}, want tanh")
    w, r = _joined(items, at["input"], call), _joined(items, at["recurrent"], call)
    b = _joined(items, at["bias"], call)
    names = [state_name(call, at[k]) for k in ("hidden", "memory")]
    tensors = [call.input(at[k]) for k in ("hidden", "memory")]
    old = [state_of(reader, n, t) for n, t in zip(names, tensors, strict=True)]
    h0, c0 = (as_value(real(v, t)) for v, t in zip(old, tensors, strict=True))
    gates = OPS["linear"](as_value(x), as_value(w), None if b is None else as_value(b))
    hidden, cell, _ = OPS["lstm"](gates, as_value(r), h0, c0, reverse=reverse)
    last = 0 if reverse else shape_of(x)[1] - 1
    for name, t, y in zip(names, tensors, (hidden, cell), strict=True):
        new = reshaped(along(y, 1, last, last + 1), h0.shape)
        reader.current[name] = as_value(stored(new, t))
    return hidden  # type: ignore[no-any-return]


@rule(PLAIN, "UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(reader: Reader, call: Call, *items: Item) -> Item:
    if any(_optional(items, i) is not None for i in range(20, 24)):
        raise ConvertError("an LSTM with layer normalisation")
    at = {"input": 1, "recurrent": 5, "peephole": 9, "bias": 12, "projection": 16, "hidden": 18,
          "memory": 19}  # fmt: skip
    return _by_time(lstm(reader, call, _by_time(items[0], call), items, at), call)


@rule(PLAIN, "BIDIRECTIONAL_SEQUENCE_LSTM")
def both_lstm(reader: Reader, call: Call, *items: Item) -> Item:
    if any(_optional(items, i) is not None for i in range(39, 48)):
        raise ConvertError("an LSTM with an auxiliary input")
    forward = {"input": 1, "recurrent": 5, "peephole": 9, "bias": 12, "projection": 16,
               "hidden": 35, "memory": 36}  # fmt: skip
    backward = {"input": 18, "recurrent": 22, "peephole": 26, "bias": 29, "projection": 33,
                "hidden": 37, "memory": 38}  # fmt: skip
    x = _by_time(items[0], call)
    ends = [
        _by_time(lstm(reader, call, x, items, at, reverse), call)
        for at, reverse in ((forward, False), (backward, True))
    ]
    return compute(OPS["concat"], *ends, axis=2) if call.attrs["merge_outputs"] else ends


@rule(PLAIN, "UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(reader: Reader, call: Call, x: Item, w: Item, r: Item, b: Item, _: Item) -> Item:
    """h = activation(w x + r h + b), written out step by step"""
    x = _by_time(x, call)
    (steps,) = static(shape_of(x)[1:2], "steps")
    if steps > MOST_STEPS:
        raise ConvertError(f"{steps} steps, want at most {MOST_STEPS}")
    inputs = OPS["linear"](as_value(x), as_value(w), as_value(b))
    name = state_name(call, 4)
    h = state_of(reader, name, call.input(4))
    states = []
    for t in range(steps):
        now = reshaped(along(inputs, 1, t, t + 1), h.shape)
        h = _step(call, now, r, h)
        states.append(reshaped(h, (h.shape[0], 1, h.shape[1])))
    reader.current[name] = h
    return _by_time(compute(OPS["concat"], *states, axis=1), call)


@rule(PLAIN, "RNN")
def rnn(reader: Reader, call: Call, x: Item, w: Item, r: Item, b: Item, _: Item) -> Item:
    name = state_name(call, 4)
    inputs = OPS["linear"](as_value(x), as_value(w), as_value(b))
    h = _step(call, inputs, r, state_of(reader, name, call.input(4)))
    reader.current[name] = h
    return h


def _step(call: Call, now: Item, r: Item, h: Value) -> Value:
    y = compute(OPS["add"], now, OPS["linear"](h, as_value(r)))
    return as_value(with_activation(activation_kind(call), y))


@rule(PLAIN, "SVDF")
def svdf(reader: Reader, call: Call, x: Item, w: Item, v: Item, b: Item, _: Item) -> Item:
    """A window over the last outputs of each filter, `rank` filters a unit     Nakkiran et al. 2015

    w: [filters, in], v: [filters, memory]; the state holds `memory` outputs of each filter.
    """
    filters, memory = static(shape_of(v), "weights_time")
    rank = call.attrs["rank"]
    if rank < 1 or filters % rank:
        raise ConvertError(f"{filters} filters of rank {rank}")
    name, t = state_name(call, 4), call.input(4)
    now = OPS["linear"](as_value(x), as_value(w))
    n = now.shape[0]
    old = as_value(real(state_of(reader, name, t), t))
    rows = OPS["reshape"](old, shape=(n, filters, memory))
    column = OPS["reshape"](now, shape=(n, filters, 1))
    new = compute(OPS["concat"], along(rows, 2, 1, memory), column, axis=2)
    reader.current[name] = as_value(stored(reshaped(new, old.shape), t))
    sums = compute(OPS["reduce_sum"], compute(OPS["mul"], new, v), axes=(2,))
    units = compute(OPS["reduce_sum"], reshaped(sums, (n, filters // rank, rank)), axes=(2,))
    y = units if b is None else compute(OPS["add"], units, b)
    return with_activation(activation_kind(call), y)
