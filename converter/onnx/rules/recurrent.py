"""RNN, GRU and LSTM in all their forms.

What PyTorch makes is one of the table's operators behind one product of all steps with the input's
weights. Everything else (other activations, clipping, peepholes, a reset before the product) is a
step that is written out, or a loop over steps where there are many or their number is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.errors import ConvertError, FixedSize
from converter.items import Item, as_value, floats, indices, iota, static
from converter.onnx.rules.common import RULES, Reader, Rule
from converter.onnx.rules.steps import stepped
from ir.graph import Constant, Value
from ir.ops.compare import greater_equal, less, where
from ir.ops.elementwise import (
    abs,
    clip,
    elu,
    hard_sigmoid,
    leaky_relu,
    relu,
    sigmoid,
    softplus,
    tanh,
)
from ir.ops.linalg import linear, matmul
from ir.ops.recurrent import gru, lstm
from ir.ops.scatter import gather_elements
from ir.ops.shaping import broadcast_to, concat, reshape, slice_axis, split, transpose
from ir.symbol import Expr

Function = Callable[[Value], Value]
States = tuple[Value, ...]
# One step: x_t of all gates [n,gates h], the states before it [n,h], the weights that it reads
Step = Callable[[Value, States, States], States]


@dataclass(frozen=True)
class Direction:
    """One direction of a layer: what it takes besides the sequences."""

    attrs: dict[str, Any]
    functions: list[Function]
    standard: bool  # the activations and options are those that PyTorch has
    w: Value  # [gates h,i]
    r: Value  # [gates h,h]
    bias: tuple[Value, Value] | None  # of w and of r: [gates h]
    peephole: Value | None  # [3 h]
    first: States  # before the first step: [n,h]

    @property
    def size(self) -> int:
        return static(self.r.shape, "hidden size")[1]

    def inputs(self, x: Value) -> Value:
        """[n,t,i] -> [n,t,gates h], with both biases that are sums."""
        return linear(x, self.w, None if self.bias is None else self.bias[0] + self.bias[1])  # type: ignore[no-any-return]


Run = Callable[[Direction, Value, bool], list[Value]]


def _rule(gates: int, states: int, defaults: Sequence[str], run: Run) -> Rule:
    """`run` gives the states after every step, each [n,t,h], the output first."""

    def apply(_: Reader, attrs: dict[str, Any], x: Item, *inputs: Item) -> tuple[Value, ...]:
        inputs += (None,) * (7 - len(inputs))
        batch_first = bool(attrs.get("layout", 0))
        xs = floats(x) if batch_first else transpose(floats(x), perm=(1, 0, 2))
        kind = attrs.get("direction", "forward")
        ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[kind]
        lengths = None if inputs[3] is None else as_value(indices(inputs[3]))
        found = []
        for i, reverse in enumerate(ways):
            part = _direction(attrs, (i, gates, states), defaults, xs, inputs)
            found.append(_directed(part, xs, reverse, lengths, run))
        return _arranged(found, batch_first)

    return apply


def _direction(
    attrs: dict[str, Any], sizes: tuple[int, int, int], defaults: Sequence[str], x: Value,
    inputs: Sequence[Item],
) -> Direction:  # fmt: skip
    i, gates, states = sizes
    w, r, b, _, *first, peephole = inputs
    weights = [_own(w, i), _own(r, i)]
    h = static(weights[1].shape, "hidden size")[1]
    bias = None if b is None else tuple(split(_own(b, i), (gates * h, gates * h), axis=0))
    names = [n.decode() if isinstance(n, bytes) else n for n in attrs.get("activations", ())]
    own = names[i * len(defaults) : (i + 1) * len(defaults)] or list(defaults)
    axis = 1 if attrs.get("layout", 0) else 0
    zeros = broadcast_to(Constant(np.zeros((), np.float32)), shape=(x.shape[0], h))
    before = tuple(zeros if s is None else _alike(_own(s, i, axis), zeros) for s in first[:states])
    plain = [n.lower() for n in own] == [n.lower() for n in defaults] and not attrs.get("clip")
    return Direction(
        attrs,
        _functions(attrs, own, i),
        plain and not attrs.get("input_forget") and peephole is None,
        *weights,
        bias,  # type: ignore[arg-type]
        None if peephole is None else _own(peephole, i),
        before,
    )


def _alike(first: Value, zeros: Value) -> Value:
    """A first state, which says how many sequences there are where that is free."""
    have, free = first.shape[0], str(zeros.shape[0])
    if isinstance(have, int) and isinstance(zeros.shape[0], Expr) and free.isidentifier():
        raise FixedSize(free, have)
    return first


def _own(item: Item, i: int, axis: int = 0) -> Value:
    """Part i along the axis of directions, which goes."""
    v = floats(item)
    part = slice_axis(v, i, i + 1, axis=axis)
    return reshape(part, shape=tuple(d for k, d in enumerate(v.shape) if k != axis))  # type: ignore[no-any-return]


def _functions(attrs: dict[str, Any], names: Sequence[str], i: int) -> list[Function]:
    """The activations of one direction, each behind the clip; alpha and beta in order of those
    that have one."""
    given = {k: list(attrs.get(f"activation_{k}", ())) for k in ("alpha", "beta")}
    made = []
    for at, name in enumerate(names):
        k = i * len(names) + at
        options = {key: v[k] for key, v in given.items() if k < len(v)}
        made.append(_function(name.lower(), **options))
    limit = attrs.get("clip")
    if not limit:
        return made
    # As ONNX Runtime has it: what goes into the gates, but not a cell's state on its way out.
    gates = [lambda x, f=f: f(clip(x, low=-limit, high=limit)) for f in made[:2]]  # type: ignore[misc]
    return [*gates, *made[2:]]


def _function(name: str, alpha: float | None = None, beta: float | None = None) -> Function:
    def a(default: float) -> float:
        return default if alpha is None else alpha

    def b(default: float) -> float:
        return default if beta is None else beta

    known: dict[str, Function] = {
        "relu": relu,
        "tanh": tanh,
        "sigmoid": sigmoid,
        "softplus": softplus,
        "affine": lambda x: x * a(1.0) + b(0.0),
        "leakyrelu": lambda x: leaky_relu(x, alpha=a(0.01)),
        "thresholdedrelu": lambda x: where(greater_equal(x, a(1.0)), x, 0.0),
        "scaledtanh": lambda x: tanh(x * b(1.0)) * a(1.0),
        "hardsigmoid": lambda x: hard_sigmoid(x, alpha=a(0.2), beta=b(0.5)),
        "elu": lambda x: elu(x, alpha=a(1.0)),
        "softsign": lambda x: x / (abs(x) + 1.0),
    }
    if name not in known:
        raise ConvertError(f"activation {name!r}; want one of {', '.join(known)}")
    return known[name]


def _directed(
    part: Direction, x: Value, reverse: bool, lengths: Value | None, run: Run
) -> tuple[Value, States]:
    """(output of every step [n,t,h], last states [n,h]); zeros behind a sequence's length."""
    n, t, _ = x.shape
    if lengths is None:
        states = run(part, x, reverse)
        at = 0 if reverse else t - 1
        last = tuple(reshape(slice_axis(s, at, at + 1, axis=1), shape=(n, part.size))
                     for s in states)  # fmt: skip
        return states[0], last
    steps = reshape(as_value(iota(t)), shape=(1, t, 1))
    count = reshape(lengths, shape=(n, 1, 1))
    inside = less(steps, count)
    backwards = where(inside, count - steps - 1, steps)

    def turned(v: Value) -> Value:
        if not reverse:
            return v
        return gather_elements(v, broadcast_to(backwards, shape=v.shape), axis=1)  # type: ignore[no-any-return]

    states = run(part, turned(x), False)
    end = broadcast_to(count - 1, shape=(n, 1, part.size))
    last = tuple(reshape(gather_elements(s, end, axis=1), shape=(n, part.size)) for s in states)
    none = less(reshape(lengths, shape=(n, 1)), 1)
    last = tuple(where(none, f, s) for f, s in zip(part.first, last, strict=True))
    return turned(where(inside, states[0], 0.0)), last


def _arranged(found: Sequence[tuple[Value, States]], batch_first: bool) -> tuple[Value, ...]:
    """(Y, Y_h, Y_c) with an axis of directions."""
    n, t, h = found[0][0].shape
    if batch_first:
        y = concat(*(reshape(y, shape=(n, t, 1, h)) for y, _ in found), axis=2)
    else:
        turned = (transpose(y, perm=(1, 0, 2)) for y, _ in found)
        y = concat(*(reshape(v, shape=(t, 1, n, h)) for v in turned), axis=1)
    shape, axis = ((n, 1, h), 1) if batch_first else ((1, n, h), 0)
    last = zip(*(states for _, states in found), strict=True)
    return (y, *(concat(*(reshape(s, shape=shape) for s in each), axis=axis) for each in last))


def _stepped(
    part: Direction, x: Value, reverse: bool, step: Step, weights: Sequence[Value]
) -> list[Value]:
    """The states after every step of x [n,t,gates h]; `step` is given the weights."""

    def once(rows: States, states: States, fixed: States) -> tuple[States, States]:
        new = step(rows[0], states, fixed)
        return new, new

    by_step = transpose(x, perm=(1, 0, 2))
    _last, given = stepped(once, [_flipped(by_step, reverse)], part.first, weights)
    return [transpose(_flipped(y, reverse), perm=(1, 0, 2)) for y in given]


def _flipped(v: Value, reverse: bool) -> Value:
    return slice_axis(v, v.shape[0] - 1, -1, axis=0, step=-1) if reverse else v  # type: ignore[no-any-return]


def _rnn(part: Direction, x: Value, reverse: bool) -> list[Value]:
    (f,) = part.functions

    def step(now: Value, states: States, weights: States) -> States:
        return (f(now + matmul(states[0], weights[0], transpose_b=True)),)

    return _stepped(part, part.inputs(x), reverse, step, [part.r])


def _gru(part: Direction, x: Value, reverse: bool) -> list[Value]:
    """Gates in ONNX's order: update, reset, new."""
    h = part.size
    if part.attrs.get("linear_before_reset") and part.standard:
        return _as_gru(part, x, reverse)
    f, g = part.functions
    behind = bool(part.attrs.get("linear_before_reset"))
    none = Constant(np.zeros(3 * h, np.float32))
    of_x, of_r = (none, none) if part.bias is None else part.bias
    rest = concat(slice_axis(of_r, 0, 2 * h, axis=0), Constant(np.zeros(h, np.float32)), axis=0)
    new_bias = slice_axis(of_r, 2 * h, 3 * h, axis=0)
    both, last = split(part.r, (2 * h, h), axis=0)

    def step(now: Value, states: States, weights: States) -> States:
        (before,) = states
        gates, new, shift = weights
        update, reset = split(matmul(before, gates, transpose_b=True), (h, h), axis=1)
        z, r, n = split(now, (h, h, h), axis=1)
        z, r = f(z + update), f(r + reset)
        if behind:
            n = g(n + r * (matmul(before, new, transpose_b=True) + shift))
        else:
            n = g(n + matmul(r * before, new, transpose_b=True) + shift)
        return ((1.0 - z) * n + z * before,)

    return _stepped(part, linear(x, part.w, of_x + rest), reverse, step, [both, last, new_bias])


def _as_gru(part: Direction, x: Value, reverse: bool) -> list[Value]:
    """The table's operator, whose gates are reset, update, new."""
    h = part.size

    def ordered(v: Value) -> Value:
        z, r, n = split(v, (h, h, h), axis=0)
        return concat(r, z, n, axis=0)  # type: ignore[no-any-return]

    bias = shift = None
    if part.bias is not None:
        of_x, of_r = map(ordered, part.bias)
        both, shift = split(of_r, (2 * h, h), axis=0)
        bias = of_x + concat(both, Constant(np.zeros(h, np.float32)), axis=0)
    xs = linear(x, ordered(part.w), bias)
    return [gru(xs, ordered(part.r), part.first[0], shift, reverse=reverse)[0]]


def _lstm(part: Direction, x: Value, reverse: bool) -> list[Value]:
    """Gates in ONNX's order: input, output, forget, cell."""
    h = part.size
    if part.standard:
        return _as_lstm(part, x, reverse)
    f, g, last = part.functions
    peephole = part.peephole
    views = [Constant(np.zeros(3 * h, np.float32))] if peephole is None else [peephole]

    def step(now: Value, states: States, weights: States) -> States:
        hidden, cell = states
        total = now + matmul(hidden, weights[0], transpose_b=True)
        i, o, forget, c = split(total, (h,) * 4, axis=1)
        of_i, of_o, of_f = split(weights[1], (h, h, h), axis=0)
        i, forget = f(i + of_i * cell), f(forget + of_f * cell)
        if part.attrs.get("input_forget"):
            forget = 1.0 - i
        cell = forget * cell + i * g(c)
        return f(o + of_o * cell) * last(cell), cell

    return _stepped(part, part.inputs(x), reverse, step, [part.r, *views])


def _as_lstm(part: Direction, x: Value, reverse: bool) -> list[Value]:
    """The table's operator, whose gates are input, forget, cell, output."""
    h = part.size

    def ordered(v: Value) -> Value:
        i, o, f, c = split(v, (h,) * 4, axis=0)
        return concat(i, f, c, o, axis=0)  # type: ignore[no-any-return]

    bias = None if part.bias is None else ordered(part.bias[0] + part.bias[1])
    xs = linear(x, ordered(part.w), bias)
    return list(lstm(xs, ordered(part.r), *part.first, reverse=reverse)[:2])


RULES |= {
    "RNN": _rule(1, 1, ["Tanh"], _rnn),
    "GRU": _rule(3, 1, ["Sigmoid", "Tanh"], _gru),
    "LSTM": _rule(4, 2, ["Sigmoid", "Tanh", "Tanh"], _lstm),
}
