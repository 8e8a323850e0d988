"""Loop and Scan: loops over graphs of their own (ir/ops/control.py).

A result whose size differs from turn to turn goes out on a tape with its sizes beside it; who takes
it from there binds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.items import Item, Items, as_type, as_value, axis_of, product, shape_of, static
from converter.onnx.rules.branches import Kind, joined, single
from converter.onnx.rules.common import Reader, rule
from converter.onnx.rules.found import first_rows, fitted
from converter.onnx.rules.scopes import Scope, Traced, trace
from converter.onnx.types import kind_of_value
from ir.bound import bound_in
from ir.dtype import DType
from ir.graph import Constant, Graph, Value
from ir.op import OPS
from ir.ops.control import new_tape
from ir.ops.rules import zeros
from ir.symbol import Dim, symbols

MOST_BATCH = 64  # examples of a Scan of opset 8, each of which is a loop

LONGEST_BUFFER = 1 << 22  # elements that a loop may get for a result before it is known how many
FOREVER = 2**31 - 1  # turns: a larger bound is none


@rule("Loop")
def loop(
    reader: Reader, attrs: dict[str, Any], turns: Item, condition: Item, *initial: Item
) -> list[Item]:
    if _never_turns(turns, condition):
        rows = attrs["body"].output[1 + len(initial) :]
        reader.inner_kinds = [None, *reader.kinds[2:], *map(kind_of_value, rows)]
        return [*initial, *map(_no_rows, rows)]
    lists = [i for i, v in enumerate(initial) if isinstance(v, Items)]
    if any(len(initial[i]) for i in lists):  # type: ignore[arg-type]
        raise ConvertError("a sequence with elements goes into a loop; want an empty one")
    start = [as_value(v) for v in initial if not isinstance(v, Items)]
    kinds = [Kind(v.shape, v.dtype) for v in start]
    traced, kinds = _settled(reader, attrs["body"], lists, kinds)
    results: list[Any] = _Loop(reader, traced, kinds, start, turns, condition).results()
    rows = results[len(start) : len(start) + len(lists)]
    del results[len(start) : len(start) + len(lists)]
    for i, v in zip(lists, rows, strict=True):
        results.insert(i, Items(rows=v))
    return results


def _never_turns(turns: Item, condition: Item) -> bool:
    """Whether a loop is known to end before its first turn."""
    return (_is_known(turns) and int(np.asarray(turns).reshape(())) <= 0) or (
        _is_known(condition) and not np.all(condition)
    )


def _is_known(item: Item) -> bool:
    return isinstance(item, np.ndarray) and item.dtype != object


def _no_rows(info: Any) -> Item:
    """What is collected in no turn; sizes that are not declared are 0, as ONNX Runtime has them."""
    import onnx

    kind = info.type.tensor_type
    if not kind.HasField("shape"):
        raise ConvertError(f"{info.name!r} is collected in no turn; want its shape declared")
    dims = (0, *(d.dim_value for d in kind.shape.dim))
    return np.zeros(dims, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))


def _settled(
    reader: Reader, body: Any, lists: Sequence[int], kinds: list[Kind]
) -> tuple[_Body, list[Kind]]:
    """The body on state whose sizes are those of every turn: axes that a turn changes are open."""
    while True:
        traced = _Body.of(reader, body, lists, kinds)
        after = [
            Kind(k.shape, k.dtype, tuple(sorted({*k.open_axes, *joined(v, new).open_axes})))
            for k, v, new in zip(kinds, traced.state, traced.new_state, strict=True)
        ]
        # Values that come off a tape have sizes of their own in each turn.
        if all(a.open_axes == k.open_axes for a, k in zip(after, kinds, strict=True)):
            return traced, after
        kinds = after


@dataclass
class _Body:
    """A loop's body as it was traced. Sequences among its state, at `lists`, get an element in each
    turn, which is collected."""

    traced: Traced
    index: Value
    goes_on: Value
    places: list[Value]  # inputs for the state, packed
    state: list[Value]  # the state, unpacked
    lists: Sequence[int]
    declared: Sequence[Any]  # what the source says of what is collected

    @staticmethod
    def of(reader: Reader, body: Any, lists: Sequence[int], kinds: Sequence[Kind]) -> _Body:
        index, goes_on = Value((), DType.i32), Value((), DType.bool)
        places = [k.places() for k in kinds]
        state: list[Value] = []

        def given(scope: Scope) -> list[Item]:
            state[:] = [
                k.unpacked(scope.reader, list(p)) for k, p in zip(kinds, places, strict=True)
            ]
            items: list[Any] = list(state)
            for i in lists:
                items.insert(i, Items(base=places))
            return [as_type(index, DType.i64), goes_on, *items]

        traced = trace(reader, body, given)
        flat = [v for p in places for v in p]
        declared = list(body.output)[1 + len(kinds) + len(lists) :]
        return _Body(traced, index, goes_on, flat, state, lists, declared)

    @property
    def _ends(self) -> int:
        return 1 + len(self.state) + len(self.lists)

    @property
    def new_state(self) -> list[Value]:
        items = enumerate(self.traced.items[1 : self._ends])
        return [as_value(v) for i, v in items if i not in self.lists]

    @property
    def collected(self) -> list[Value]:
        added = [self._added(self.traced.items[1 + i]) for i in self.lists]
        ends = zip(self.traced.items[self._ends :], self.declared, strict=True)
        return [*added, *(_row(as_value(item), info) for item, info in ends)]

    @staticmethod
    def _added(item: Any) -> Value:
        if not isinstance(item, Items) or item.base is None or len(item) != 1:
            raise ConvertError("a loop changes a sequence; want one that gets an element a turn")
        v = as_value(item[0])
        if _finds_its_size(v):
            raise ConvertError(
                "a turn adds an element of a size that it finds itself; want elements of one size"
            )
        return v

    @property
    def never_stops(self) -> bool:
        """Whether the body asks for another turn each time."""
        again = self.traced.items[0]
        if isinstance(again, Value):
            return again is self.goes_on or (isinstance(again, Constant) and bool(again.data.all()))
        return bool(np.asarray(again).all())


def _finds_its_size(v: Value) -> bool:
    return bool({s for d in v.shape for s in symbols(d)} & set(bound_in(Graph((), (v,), ("row",)))))


def _row(v: Value, info: Any) -> Value:
    """A row that is collected: as declared, where it has a size that the turn itself finds."""
    if not _finds_its_size(v):
        return v
    dims = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
    if len(dims) != v.rank or not all(dims):
        raise ConvertError("a turn collects rows of a size that it finds itself; want it declared")
    return fitted(v, dims)


class _Loop:
    """A Loop as `while_loop`: counter, go-on, state, what it collects, what it reads."""

    def __init__(
        self,
        reader: Reader,
        body: _Body,
        kinds: Sequence[Kind],
        start: Sequence[Value],
        turns: Item,
        condition: Item,
    ) -> None:
        self.reader = reader
        self.body = body
        self.kinds = kinds
        self.start = start
        self.limit = self._limit(turns)
        if self.limit is not None and not isinstance(self.limit, Constant):
            body.traced.scope.inner(self.limit)
        self.outer = list(body.traced.scope.captured)
        starts = condition is None or (not isinstance(condition, Value) and bool(np.all(condition)))
        self.goes = Constant(np.array(True)) if starts else single(condition, DType.bool)
        self.counted = starts and body.never_stops and self.limit is not None
        self.rows = [self._rows(v) for v in body.collected]

    @staticmethod
    def _limit(turns: Item) -> Value | None:
        if turns is None:
            return None
        if isinstance(turns, Value) and not isinstance(turns, Constant):
            return single(turns, DType.i32)
        if isinstance(turns, np.ndarray) and turns.dtype == object:
            return single(turns, DType.i32)
        n = int(np.asarray(turns.data if isinstance(turns, Constant) else turns).reshape(()))
        return None if n >= FOREVER else Constant(np.int32(max(n, 0)))

    def _rows(self, v: Value) -> Dim | None:
        """How many rows to have ready for what a turn collects; None: it goes on a tape."""
        if self.limit is None:
            return None
        known = self.reader.found.known(self.limit)[0]
        if known is None and self.counted:
            at_least_0 = OPS["maximum"](self.limit, 0)
            return self.reader.found.sizes(OPS["reshape"](at_least_0, shape=(1,)))[0]
        if known is None or (not self.counted and not self._is_short(known, v)):
            return None
        return known

    @staticmethod
    def _is_short(rows: Dim, v: Value) -> bool:
        n = product((rows, *v.shape))
        return isinstance(n, int) and n <= LONGEST_BUFFER

    def results(self) -> list[Item]:
        state = [p for k, v in zip(self.kinds, self.start, strict=True) for p in k.packed(v)]
        room = [
            new_tape() if rows is None else zeros(Value((rows, *v.shape), v.dtype))
            for rows, v in zip(self.rows, self.body.collected, strict=True)
        ]
        out = list(
            OPS["while_loop"](
                Constant(np.int32(0)),
                self.goes,
                *state,
                *room,
                *self.outer,
                condition=self._condition([*state, *room, *self.outer]),
                body=self._body_graph(room),
            )
        )
        count, rest = out[0], out[2:]
        results = [k.unpacked(self.reader, rest) for k in self.kinds]
        return [*results, *self._collected(count, rest[: len(room)])]

    def _condition(self, state: Sequence[Value]) -> Graph:
        i, goes_on = Value((), DType.i32), Value((), DType.bool)
        inner = [Value(v.shape, v.dtype) for v in state]
        more: Value = goes_on
        if self.limit is not None:
            limit: Value = self.limit
            if not isinstance(limit, Constant):
                limit = inner[len(state) - len(self.outer) + self.outer.index(limit)]
            more = OPS["logical_and"](goes_on, OPS["less"](i, limit))
        return Graph((i, goes_on, *inner), (more,))

    def _body_graph(self, room: Sequence[Value]) -> Graph:
        body = self.body
        places = [Value(v.shape, v.dtype) for v in room]
        packed = [p for k, v in zip(self.kinds, body.new_state, strict=True) for p in k.packed(v)]
        filled = [
            OPS["push"](place, v) if rows is None else OPS["put_row"](place, body.index, v)
            for place, rows, v in zip(places, self.rows, body.collected, strict=True)
        ]
        inner = [body.traced.scope.inner(v) for v in self.outer]
        again = single(body.traced.items[0], DType.bool)
        inputs = (body.index, body.goes_on, *body.places, *places, *inner)
        return Graph(inputs, (body.index + 1, again, *packed, *filled, *inner))

    def _collected(self, count: Value, room: Sequence[Value]) -> list[Item]:
        out: list[Item] = []
        one = OPS["reshape"](count, shape=(1,))
        for rows, v, full in zip(self.rows, self.body.collected, room, strict=True):
            if rows is None:
                out.append(_off_tape(self.reader, full, one, v))
            else:
                out.append(full if self.counted else first_rows(self.reader, full, one))
        return out


def _off_tape(reader: Reader, tape: Value, count: Value, row: Value) -> Value:
    """The last `count` rows on a tape, the first one in front: [count, *row.shape]."""
    (n,) = reader.found.sizes(count)
    last = OPS["reshape"](count, shape=()) - 1
    room = OPS["after"](zeros(Value((n, *row.shape), row.dtype)), count)
    state = [Value((), DType.i32), Value((), DType.tape), Value(room.shape, room.dtype)]
    i, full, rows = state
    below, x = OPS["pop"](full, shape=row.shape, dtype=row.dtype.name)
    body = Graph(tuple(state), (i - 1, below, OPS["put_row"](rows, i, x)))
    inputs = tuple(Value(v.shape, v.dtype) for v in state)
    condition = Graph(inputs, (OPS["greater_equal"](inputs[0], 0),))
    out = OPS["while_loop"](last, tape, room, condition=condition, body=body)
    return out[2]  # type: ignore[no-any-return]


@rule("Scan")
def scan(reader: Reader, attrs: dict[str, Any], *items: Item) -> list[Item]:
    """A loop over slices of some inputs; opset 8 had a batch besides."""
    if reader.opset < 9:
        return _scan_of_batch(reader, attrs, *items)
    return _Scan(reader, attrs, items).results()


def _scan_of_batch(
    reader: Reader, attrs: dict[str, Any], lengths: Item, *items: Item
) -> list[Item]:
    """The Scan of opset 8: a loop for each example, whose axis is the first one of all values."""
    if lengths is not None:
        raise ConvertError("sequences of lengths of their own; want all of one length")
    (batch,) = static(shape_of(items[0])[:1], "the batch of Scan")
    if not 1 <= batch <= MOST_BATCH:
        raise ConvertError(f"Scan of {batch} examples; want 1 to {MOST_BATCH} in opset 8")
    back = attrs.get("directions", [0] * attrs["num_scan_inputs"])
    now = {**attrs, "scan_input_directions": back}
    values = [as_value(i) for i in items]
    found = []
    for i in range(batch):
        rows = [OPS["gather"](v, Constant(np.int32(i)), axis=0) for v in values]
        found.append(_Scan(reader, now, rows).results())
    return [_stacked(rows) for rows in zip(*found, strict=True)]


def _stacked(rows: Sequence[Item]) -> Value:
    """[batch, ...] of the results of each example."""
    wide = [OPS["reshape"](v, shape=(1, *v.shape)) for v in map(as_value, rows)]
    return OPS["concat"](*wide, axis=0) if len(wide) > 1 else wide[0]  # type: ignore[no-any-return]


class _Scan:
    def __init__(self, reader: Reader, attrs: dict[str, Any], items: Sequence[Item]) -> None:
        self.reader = reader
        self.attrs = attrs
        self.body = attrs["body"]
        count = attrs["num_scan_inputs"]
        values = [as_value(i) for i in items]
        self.start, scanned = values[: len(values) - count], values[len(values) - count :]
        axes = attrs.get("scan_input_axes", [0] * count)
        self.scanned = [_to_front(v, axis) for v, axis in zip(scanned, axes, strict=True)]
        self.turns: Dim = self.scanned[0].shape[0]
        self.backwards = attrs.get("scan_input_directions", [0] * count)

    def results(self) -> list[Item]:
        index = Value((), DType.i32)
        state = [Value(v.shape, v.dtype) for v in self.start]
        read = [Value(v.shape, v.dtype) for v in self.scanned]
        end = Value((), DType.i32)  # the last turn

        def given(_: Scope) -> list[Item]:
            at = [end - index if back else index for back in self.backwards]
            rows = [OPS["gather"](v, i, axis=0) for v, i in zip(read, at, strict=True)]
            return [*state, *rows]

        traced = trace(self.reader, self.body, given)
        new, collected = traced.values()[: len(state)], traced.values()[len(state) :]
        for a, b in zip(state, new, strict=True):
            if joined(a, b).open_axes:
                raise ConvertError(f"the state {a!r} becomes {b!r}; want one shape in every turn")
        back = self.attrs.get("scan_output_directions", [0] * len(collected))
        room = [zeros(Value((self.turns, *v.shape), v.dtype)) for v in collected]
        places = [Value(v.shape, v.dtype) for v in room]
        filled = [
            OPS["put_row"](p, end - index if b else index, v)
            for p, b, v in zip(places, back, collected, strict=True)
        ]
        outer = list(traced.scope.captured)
        inner = [traced.scope.inner(v) for v in outer]
        stays = (end, *read, *inner)
        body = Graph((index, *state, *places, *stays), (index + 1, *new, *filled, *stays))
        last = single(as_value(np.array([self.turns - 1], object)), DType.i32)
        given_state = [Constant(np.int32(0)), *self.start, *room, last, *self.scanned, *outer]
        inputs = tuple(Value(v.shape, v.dtype) for v in given_state)
        at_end = inputs[len(inputs) - len(stays)]
        condition = Graph(inputs, (OPS["less_equal"](inputs[0], at_end),))
        out = OPS["while_loop"](*given_state, condition=condition, body=body)
        rows = out[1 + len(state) : 1 + len(state) + len(room)]
        axes = self.attrs.get("scan_output_axes", [0] * len(rows))
        return [*out[1 : 1 + len(state)], *map(_from_front, rows, axes)]


def _to_front(v: Value, axis: int) -> Value:
    axis = axis_of(axis, v.rank)
    perm = (axis, *(i for i in range(v.rank) if i != axis))
    return OPS["transpose"](v, perm=perm) if axis else v  # type: ignore[no-any-return]


def _from_front(v: Value, axis: int) -> Value:
    axis = axis_of(axis, v.rank)
    perm = [*range(1, v.rank)]
    perm.insert(axis, 0)
    return OPS["transpose"](v, perm=tuple(perm)) if axis else v  # type: ignore[no-any-return]
