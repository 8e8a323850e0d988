"""Compile a Python function once for each form of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cloud import interpreter, modes, parse
from cloud.compile.program import Program, counters
from cloud.eager import NeedsTrace, Tensor, array_of, at_once, known, runs_at_once, watching
from cloud.execute import program_for
from cloud.parse.structure import leaves as tree_leaves
from cloud.parse.structure import of_record, record, refuse_foreign
from cloud.tracing import is_training, tracing
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Array, Constant, Graph, Value, Weight

Updates = Mapping[Weight, Value]


def jit(f: Callable[..., Any]) -> Jitted:
    """The function `f`, compiled: traced once for each form of its arguments, then run as a whole.

    Arguments are arrays, numbers and dicts, lists and tuples of them, positional or by name. The
    form is their structure, and the shape and type of each array; integers, truth values, strings,
    None and objects such as modules are part of it by what they are. A Python float is data: it
    takes the float type of the arrays beside it. Weights that f reads are read at each call, and
    those that layers in training update (running means, random keys) are updated. Python around
    the tensors runs only while f is traced: arrays and numbers that f finds in closures, globals
    and attributes stay as they were then, whatever becomes of them. What is to change is an
    argument, or a weight. In eager mode f runs as it stands, and reads them at each call.
    """
    return Jitted(f)


def call(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f(*args, **kwargs) on arrays, in the mode that is set; traced anew at every call, so that it
    may depend on anything."""
    leaves: list[Any] = []
    form = flatten((args, kwargs), leaves)
    if runs_at_once(leaves):
        with suppress(NeedsTrace):
            return _at_once(f, form, leaves)
    arrays = as_arrays(leaves)
    return Compiled(trace_form(f, form, arrays))(arrays)


class Jitted:
    """A function of `jit`. `compilations` counts the forms that it was compiled for."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.compilations = 0
        self._made: dict[Hashable, Compiled] = {}
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        form = flatten((args, kwargs), leaves)
        if runs_at_once(leaves):
            if watching():
                return _watched(self.f, form, leaves)
            with suppress(NeedsTrace):
                return _at_once(self.f, form, leaves)
        values = [x for x in leaves if isinstance(x, Value)]
        in_trace = any(not isinstance(x, (Tensor, Weight)) for x in values)
        if in_trace or parse.is_tracing():
            return parse.call(self.f, *args, **kwargs)
        arrays = as_arrays(leaves)
        key = (form, is_training(), modes.settings(), *[(a.shape, a.dtype) for a in arrays])
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Compiled(trace_form(self.f, form, arrays))
            self.compilations += 1
        return made(arrays, as_tensors=any(isinstance(x, Tensor) for x in values))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """So that methods can be compiled too."""
        return self if instance is None else functools.partial(self, instance)


@dataclass(frozen=True)
class Traced:
    """A function as a graph, and how its arguments and results are packed."""

    graph: Graph
    form: Hashable
    result: Hashable

    def arrays(self, args: Sequence[Any]) -> list[Array]:
        """The graph's inputs in the function's arguments."""
        leaves: list[Any] = []
        flatten((tuple(args), {}), leaves)
        return as_arrays(leaves)


def trace(f: Callable[..., Any], args: Sequence[Any]) -> Traced:
    """The graph of `f` for arguments of this form; floats among them are data."""
    leaves: list[Any] = []
    form = flatten((tuple(args), {}), leaves)
    return trace_form(f.f if isinstance(f, Jitted) else f, form, as_arrays(leaves))


def trace_form(f: Callable[..., Any], form: Hashable, arrays: Sequence[Array]) -> Traced:
    """The graph of `f`, with the updates of the layers in it."""
    values = [Value(a.shape, DType.of(a)) for a in arrays]
    args, kwargs = unflatten(form, iter(values))
    counters.traces += 1
    with tracing(training=is_training()) as t:
        out = parse.call(f, *args, **kwargs)
    outputs: list[Any] = []
    result = flatten(out, outputs)
    made = [v if isinstance(v, Value) else Constant(v) for v in outputs]
    return Traced(Graph(tuple(values), tuple(made), (), tuple(t.updates.items())), form, result)


@dataclass
class Compiled:
    """A traced function that is ready to run."""

    traced: Traced
    program: Program | None = field(init=False)
    weights: tuple[Weight, ...] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.traced.graph
        _check_closed(graph)
        self.program = program_for(graph)
        self.weights = graph.weights

    def __call__(self, arrays: Sequence[Array], *, as_tensors: bool = False) -> Any:
        graph = self.traced.graph
        if self.program is None:
            outputs, new = interpreter.step(graph, *arrays)
            for w, a in new.items():
                w.data = a
        else:
            outputs, now = self.program(arrays, [w.data for w in self.weights])
            for (w, _), a in zip(graph.updates, now, strict=True):
                w.data = a
        made = map(Tensor, outputs) if as_tensors else iter(outputs)
        return unflatten(self.traced.result, made)


_LEAF = "*"
_ARRAY = (np.ndarray, np.generic, Value)
_DATA = (*_ARRAY, float)


def flatten(x: Any, leaves: list[Any]) -> Hashable:
    """The structure of x; what is data in it goes to `leaves`, in order. Raises TypeError."""
    if isinstance(x, _DATA):
        leaves.append(x)
        return _LEAF
    if isinstance(x, dict):
        return dict, tuple([(k, flatten(v, leaves)) for k, v in x.items()])
    if isinstance(x, (list, tuple)):
        kind: Any = type(x)
        return kind, tuple([flatten(v, leaves) for v in x])
    if (names := record(x)) is not None and not _is_setting(x):
        return type(x), tuple([(name, flatten(getattr(x, name), leaves)) for name in names])
    refuse_foreign(x, "an argument or result")
    if isinstance(x, Hashable):
        return object, _Static(x)
    raise TypeError(f"{type(x).__name__}: want arrays, numbers, or dicts, lists, tuples of them")


def unflatten(form: Any, leaves: Iterator[Any]) -> Any:
    """The structure with these leaves in place of those that `flatten` found."""
    if form == _LEAF:
        return next(leaves)
    kind, held = form
    if kind is object:
        return held.x
    if kind is dict:
        return {k: unflatten(v, leaves) for k, v in held}
    if hasattr(kind, "__dataclass_fields__"):
        return of_record(kind, {k: unflatten(v, leaves) for k, v in held})
    items = [unflatten(v, leaves) for v in held]
    if kind in (list, tuple):
        return kind(items)
    return kind(*items)  # a named tuple


def _is_setting(x: Any) -> bool:
    """Whether a dataclass is part of the form by its value: it can be, and holds no data."""
    return isinstance(x, Hashable) and not any(isinstance(v, _ARRAY) for v in tree_leaves(x))


class _Static:
    """An argument that is part of the form; 1, 1.0 and True are three."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and type(self.x) is type(other.x) and self.x == other.x

    def __hash__(self) -> int:
        return hash((type(self.x), self.x))


def as_arrays(leaves: Sequence[Any]) -> list[Array]:
    """Data as arrays; Python floats are of the float type of the arrays, float64 without any."""
    arrays = [None if type(x) is float else _data(x) for x in leaves]
    floats = [a.dtype for a in arrays if a is not None and a.dtype.kind == "f"]
    plain = max(floats, key=lambda d: d.itemsize, default=np.dtype(np.float64))
    return [np.asarray(x, plain) if a is None else a for x, a in zip(leaves, arrays, strict=True)]


def _data(x: Any) -> Array:
    return known(x) if isinstance(x, Value) else np.asarray(x)


def _at_once(f: Callable[..., Any], form: Hashable, leaves: Sequence[Any]) -> Any:
    """f on tensors; arrays come back where arrays were given."""
    tensors = _tensors(leaves)
    args, kwargs = unflatten(form, iter(tensors))
    with at_once(tensors), tracing(training=is_training()) as t:
        out = f(*args, **kwargs)
    for w, v in t.updates.items():
        w.data = array_of(v)
    if any(isinstance(x, Tensor) for x in leaves):
        return out
    outputs: list[Any] = []
    result = flatten(out, outputs)
    return unflatten(result, (array_of(v) if isinstance(v, Value) else v for v in outputs))


def _watched(f: Callable[..., Any], form: Hashable, leaves: Sequence[Any]) -> Any:
    """f as a part of a derivative that is under way: it flows through arguments and weights, and
    states that layers hand on are those of the whole. What asks for a trace asks for that of the
    derivative."""
    tensors = _tensors(leaves)
    args, kwargs = unflatten(form, iter(tensors))
    with at_once(tensors):
        return f(*args, **kwargs)


def _tensors(leaves: Sequence[Any]) -> list[Value]:
    """Data as values that are known."""
    pairs = zip(leaves, as_arrays(leaves), strict=True)
    return [x if isinstance(x, Value) else Tensor(a) for x, a in pairs]


def _check_closed(graph: Graph) -> None:
    for v in graph.leaves:
        if v not in graph.inputs and not isinstance(v, (Constant, Weight)):
            raise GraphError(f"jit: f reads {v!r} of another trace; want it as an argument")
