"""From a function and its arguments to a graph, and from what is made of it to arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from cloud import autodiff, eager, parse
from cloud.execute import run
from cloud.parse.structure import refuse_foreign
from cloud.tracing import current
from cloud.trees import leaves, rebuilt
from ir.dtype import DType
from ir.errors import DTypeError
from ir.graph import Constant, Graph, Value, Weight, next_serial, substitute

Build = Callable[["Traced"], Sequence[Value]]


@dataclass
class Traced:
    """A function on values: `args` and `kwargs` with a value for each leaf that is data, and
    `result`, in which every number is a value. `values` and `data` are those leaves in order."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    values: list[Value]
    data: list[Any]
    names: list[str]
    plain: np.dtype[Any]  # the type of Python's own floats
    result: Any = None

    @staticmethod
    def of(
        f: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        numbers: Collection[int | str] = (),
    ) -> Traced:
        """Trace f. `numbers`: arguments, by place or name, that are data also as integers."""
        traced = _placed(f, args, kwargs, numbers, _placeholder)
        traced.result = _as_values(parse.call(f, *traced.args, **traced.kwargs), traced.plain)
        return traced

    def argument(self, key: int | str) -> Any:
        """An argument by its place or name. Raises IndexError or KeyError."""
        if isinstance(key, int) and len(self.args) <= key < len(self.names):
            key = self.names[key]  # it was given by name
        if isinstance(key, int):
            return self.args[key]
        return self.kwargs[key] if key in self.kwargs else self.args[self.names.index(key)]


def transform(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    build: Build,
    numbers: Collection[int | str] = (),
    *,
    reverse: bool = False,
) -> list[Any]:
    """Trace f on placeholders, let `build` say what is wanted of it, then run that on arrays, or
    splice it into the graph of the values among the arguments.

    In eager mode f and what is built from it run at once. `reverse`: it is differentiated so.
    """
    data = [x for x in leaves((tuple(args), kwargs)) if isinstance(x, Value)]
    again = autodiff.differentiated_again if reverse else nullcontext
    if eager.runs_at_once(args, kwargs):
        found = _at_once(f, args, kwargs, build, numbers, again)
        if found is not None:
            return found
    with again():
        start = next_serial()
        traced = Traced.of(f, args, kwargs, numbers)
    roots = tuple(build(traced))
    outer = _reads_outer_values(traced.values, roots)
    if not outer and all(isinstance(x, eager.Tensor) for x in data):
        arrays = [x.data if isinstance(x, Constant) else x for x in traced.data]
        found = list(run(Graph(tuple(traced.values), roots), *arrays))
        return [eager.Tensor(a) for a in found] if data else found
    actual = [autodiff.renamed(x) if isinstance(x, Value) else Constant(x) for x in traced.data]
    return _spliced(roots, dict(zip(traced.values, actual, strict=True)), start)


def _spliced(roots: Sequence[Value], actual: dict[Value, Value], start: int) -> list[Value]:
    """`roots`, traced since `start`, computed from actual values, and so the states that layers in
    f handed on."""
    updates = current().updates
    now = substitute((*roots, *updates.values()), actual, start)
    updates.update(zip(updates, now[len(roots) :], strict=True))
    return list(now[: len(roots)])


def _at_once(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    build: Build,
    numbers: Collection[int | str],
    again: Callable[[], AbstractContextManager[None]],
) -> list[Any] | None:
    """f on tensors that are watched, and what `build` makes of the graph that they remember; None
    where f reads a placeholder of a trace that is under way, or asks tensors what only a trace can
    answer (`math.sin(x)`, `x[i] = y`)."""
    data = [x for x in leaves((tuple(args), kwargs)) if isinstance(x, Value)]
    outermost = not eager.watching()
    with eager.at_once(watch=True):
        traced = _placed(f, args, kwargs, numbers, lambda x, _: eager.leaf(x))
    with eager.at_once(traced.values, watch=True):
        try:
            with again():
                traced.result = _as_values(f(*traced.args, **traced.kwargs), traced.plain)
            outputs = [v for v in leaves(traced.result) if isinstance(v, Value)]
            if any(eager.known(y) is None for y in outputs):
                return None
            roots = build(traced)
        except (eager.NeedsTrace, ValueError) as error:  # numpy hides one behind the other
            if outermost and any(isinstance(e, eager.NeedsTrace) for e in (error, error.__cause__)):
                return None
            raise
    if eager.watching() or data:
        return [eager.as_tensor(v) for v in roots]
    return [eager.array_of(v)[()] for v in roots]


def _placed(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    numbers: Collection[int | str],
    make: Callable[[Any, str | None], Value],
) -> Traced:
    """The arguments with a value in the place of each leaf that is data."""
    names = _argument_names(f)
    every = [x for x in leaves((tuple(args), kwargs)) if not _is_plain(x)]
    floats = [x.dtype.numpy if isinstance(x, Value) else x.dtype for x in every if _is_array(x)]
    floats = [d for d in floats if d.kind == "f"]
    plain = max(floats, key=lambda d: d.itemsize, default=np.dtype(np.float64))
    values: list[Value] = []
    data: list[Any] = []

    def place(tree: Any, key: int | str, name: str | None) -> Any:
        several = isinstance(tree, (tuple, list, dict))

        def leaf(x: Any) -> Any:
            _check_leaf(x, key if name is None else name)
            if _is_plain(x) and not (key in numbers and type(x) is int and x is tree):
                return x
            x = np.asarray(x, plain) if isinstance(x, (int, float)) and not _is_array(x) else x
            x = x if isinstance(x, Value) else np.asarray(x)
            values.append(make(x, None if several else name))
            data.append(x)
            return values[-1]

        return rebuilt(tree, leaf)

    placed = tuple(
        place(a, i if i in numbers or name not in numbers else name, name)
        for i, (a, name) in enumerate(_with_names(args, names))
    )
    named = {k: place(a, k, k) for k, a in kwargs.items()}
    return Traced(placed, named, values, data, names, plain)


def _check_leaf(x: Any, key: int | str) -> None:
    """Raises TypeError for an array that nothing here computes with, and names the argument."""
    refuse_foreign(x, f"argument {key!r}")
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "fiub":
        want = "floats, integers or truth values"
        raise DTypeError(f"argument {key!r} is an array of {x.dtype}; want {want}")


def _placeholder(x: Any, name: str | None) -> Value:
    return Value(x.shape, x.dtype if isinstance(x, Value) else DType.of(x), name=name)


def _with_names(args: Sequence[Any], names: list[str]) -> list[tuple[Any, Any]]:
    return [(a, names[i] if i < len(names) else None) for i, a in enumerate(args)]


def _is_array(x: Any) -> bool:
    return isinstance(x, (Value, np.ndarray, np.generic))


def _is_plain(x: Any) -> bool:
    """Whether a leaf is known while f is traced: everything but arrays, values and floats."""
    return not (_is_array(x) or isinstance(x, float))


def _as_values(tree: Any, plain: np.dtype[Any]) -> Any:
    """Results with a constant for each number that turned out to be known, Python's floats in the
    type `plain`, that of the arrays among the arguments."""

    def leaf(x: Any) -> Any:
        if isinstance(x, Value) or x is None:
            return x
        if isinstance(x, (int, float, np.ndarray, np.generic)):
            whole = np.dtype(np.int32 if type(x) is int and abs(x) < 2**31 else np.int64)
            own = {int: whole, float: plain}.get(type(x))
            return Constant(np.asarray(x, own))
        return x

    return rebuilt(tree, leaf)


def _reads_outer_values(placeholders: Sequence[Value], roots: Sequence[Value]) -> bool:
    """Whether f closes over a value of a trace that is under way, or reads a weight in one, which
    may be what a derivative is by: then the result belongs to it."""
    graph = Graph((), tuple(roots))
    if parse.is_tracing() and graph.weights:  # loops and branches read them inside
        return True
    own = set(placeholders)
    return any(not isinstance(v, (Constant, Weight)) and v not in own for v in graph.leaves)


def _argument_names(f: Callable[..., Any]) -> list[str]:
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return [p.name for p in inspect.signature(f).parameters.values() if p.kind in fixed]
    except (TypeError, ValueError):  # a built-in without a signature
        return []
