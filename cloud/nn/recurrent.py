"""Recurrent layers: stacks of them, in one direction or both, with PyTorch's equations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from cloud import ops
from cloud.nn import init
from cloud.nn.module import Module
from cloud.nn.norm import Dropout
from ir.errors import ShapeError
from ir.graph import Constant, Value, Weight, shape_text
from ir.ops.shaping import slice_axis


class _Direction(Module):
    """One layer in one direction: the weights, and the step from a sequence to a sequence."""

    gates: int

    def __init__(
        self, inputs: int, hidden: int, *, rng: np.random.Generator, bias: bool, reverse: bool
    ) -> None:
        make = init.uniform(1 / math.sqrt(hidden))
        rows = self.gates * hidden
        shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden)}
        for name, shape in shapes.items():
            setattr(self, name, Weight(make(rng, shape, init.fans(shape)), name=name))
        for name in ("bias_ih", "bias_hh"):
            drawn = Weight(make(rng, (rows,), (rows, rows)), name=name) if bias else None
            setattr(self, name, drawn)
        self.hidden, self.reverse = hidden, reverse

    weight_ih: Weight
    weight_hh: Weight
    bias_ih: Weight | None
    bias_hh: Weight | None

    def initial(self, x: Value) -> Value:
        zero = Constant(0.0, dtype=x.dtype)
        return ops.broadcast_to(zero, shape=(x.shape[0], self.hidden))


class _LSTMDirection(_Direction):
    gates = 4

    def forward(self, x: Value, h0: Value, c0: Value) -> tuple[Value, Value]:
        bias = None if self.bias_ih is None else self.bias_ih + self.bias_hh
        projected = ops.linear(x, self.weight_ih, bias)
        hidden, cell, _ = ops.lstm(projected, self.weight_hh, h0, c0, reverse=self.reverse)
        return hidden, cell


class _GRUDirection(_Direction):
    gates = 3

    def forward(self, x: Value, h0: Value) -> tuple[Value]:
        bias = inner = None
        if self.bias_ih is not None:
            assert self.bias_hh is not None
            kept, h = 2 * self.hidden, self.hidden
            resets = ops.slice(self.bias_hh, begin=(0,), end=(kept,), step=(1,))
            bias = self.bias_ih + ops.pad(resets, before=(0,), after=(h,))
            inner = ops.slice(self.bias_hh, begin=(kept,), end=(kept + h,), step=(1,))
        projected = ops.linear(x, self.weight_ih, bias)
        hidden, _ = ops.gru(projected, self.weight_hh, h0, inner, reverse=self.reverse)
        return (hidden,)


class _Recurrent(Module):
    """Layers of directions. `directions[layer][direction]` has the weights."""

    kind: type[_Direction]
    states: tuple[str, ...]  # what a step hands to the next

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        rng: np.random.Generator,
        layers: int = 1,
        bidirectional: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        return_state: bool = False,
    ) -> None:
        if min(inputs, hidden, layers) < 1:
            raise ValueError(
                f"{type(self).__name__}: {inputs} inputs, {hidden} hidden, {layers} layers; "
                "want at least 1 of each"
            )
        ways = (False, True) if bidirectional else (False,)
        sizes = [inputs] + [hidden * len(ways)] * (layers - 1)
        self.directions = [
            [self.kind(size, hidden, rng=rng, bias=bias, reverse=way) for way in ways]
            for size in sizes
        ]
        self.dropouts = [Dropout(dropout, rng=rng) for _ in range(layers - 1)] if dropout else []
        self.return_state = return_state

    def children(self) -> Iterator[tuple[str, Module]]:
        for i, ways in enumerate(self.directions):
            for name, direction in zip(("forward", "backward"), ways, strict=False):
                yield f"{i}.{name}", direction
        yield from ((f"dropout.{i}", d) for i, d in enumerate(self.dropouts))

    def forward(self, x: Value, *first: Value) -> Value | tuple[Value, ...]:
        """y [n,t,directions*hidden] of x [n,t,inputs]; `first`: the states before the first step,
        each [layers*directions,n,hidden] in PyTorch's order, zeros by default. With
        `return_state`: y and the states behind the last step."""
        if x.rank != 3:
            raise ShapeError(
                f"{type(self).__name__}: x is {shape_text(x.shape)}, want [n,t,inputs]"
            )
        last: list[tuple[Value, ...]] = []
        for i, ways in enumerate(self.directions):
            found = [d(x, *self._first(first, d, len(last) + k, x)) for k, d in enumerate(ways)]
            last += [self._last(d, states) for d, states in zip(ways, found, strict=True)]
            hidden = [states[0] for states in found]
            x = hidden[0] if len(hidden) == 1 else ops.concat(*hidden, axis=2)
            if i < len(self.dropouts):
                x = self.dropouts[i](x)
        if not self.return_state:
            return x
        return (x, *(ops.concat(*states, axis=0) for states in zip(*last, strict=True)))

    def _first(
        self, first: Sequence[Value], direction: _Direction, index: int, x: Value
    ) -> list[Value]:
        if not first:
            return [direction.initial(x) for _ in self.states]
        wanted = (self._count, x.shape[0], direction.hidden)
        if len(first) != len(self.states) or any(v.shape != wanted for v in first):
            given = ", ".join(shape_text(v.shape) for v in first)
            raise ShapeError(
                f"{type(self).__name__}: states of {given}; want {' and '.join(self.states)}, "
                f"each {shape_text(wanted)}"
            )
        rows = (slice_axis(v, index, index + 1, axis=0) for v in first)
        return [ops.reshape(v, shape=wanted[1:]) for v in rows]

    @property
    def _count(self) -> int:
        return sum(len(ways) for ways in self.directions)

    def _last(self, direction: _Direction, states: Sequence[Value]) -> tuple[Value, ...]:
        """Each state behind the direction's last step, [1,n,hidden]."""
        rows = []
        for v in states:
            end = 1 if direction.reverse else v.shape[1]
            row = slice_axis(v, end - 1, end, axis=1)
            rows.append(ops.reshape(row, shape=(1, v.shape[0], v.shape[2])))
        return tuple(rows)


class LSTM(_Recurrent):
    """Long short-term memory     x: [n,t,inputs] -> y: [n,t,hidden], or [n,t,2*hidden] of both ways

    i, f, o = sigmoid(w_ih x + b_ih + w_hh h + b_hh), g = tanh(the same), in the order i, f, g, o;
    c' = f c + i g, h' = o tanh(c') (Hochreiter and Schmidhuber 1997). `dropout` stands between
    layers. Called as lstm(x, h0, c0) it starts from those states; see `forward`.
    """

    kind, states = _LSTMDirection, ("h0", "c0")


class GRU(_Recurrent):
    """Gated recurrent units     x: [n,t,inputs] -> y: [n,t,hidden], or [n,t,2*hidden] of both ways

    r, z = sigmoid(w_ih x + b_ih + w_hh h + b_hh), n = tanh(w_ih x + b_ih + r (w_hh h + b_hh));
    h' = (1 - z) n + z h (Cho et al. 2014, as PyTorch has it). Called as gru(x, h0) it starts from
    that state; see `forward`.
    """

    kind, states = _GRUDirection, ("h0",)
