"""Values that carry their elements: operators on them run at once, one by one."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from cloud import modes, parse
from cloud.compile.operator import compute, kernel_for
from cloud.parse.errors import NeedsTrace, Place, too_deep
from cloud.parse.faults import add_hint
from cloud.parse.functions import is_users
from cloud.parse.structure import values_in
from cloud.tensor import DEFAULT_FLOAT, Tensor
from ir.dtype import DType
from ir.errors import GraphError, IrError
from ir.graph import Array, Constant, Graph, Node, Value, Weight, order
from ir.op import AT_ONCE, OPS, Op

__all__ = ["NeedsTrace", "Tensor", "at_once", "tensor"]


def tensor(data: Any, dtype: DType | None = None) -> Tensor:
    """`data` as a tensor: operators on it run at once, in both modes. Python's own floats become
    float32."""
    array = np.asarray(data)
    if dtype is None and array.dtype == np.float64 and not hasattr(data, "dtype"):
        dtype = DType.f32
    return Tensor(array, dtype=dtype)


def watching() -> bool:
    """Whether results remember how they were made."""
    return _WATCHING.get()


@contextmanager
def at_once(data: Iterable[Value] = (), *, watch: bool = False) -> Iterator[None]:
    """Inside, operators run at once also where only weights and constants meet.

    `data`: what the program computes with; the widest float type among it is that of integers and
    truth values beside a Python float. `watch`: results remember how they were made, so that they
    can be differentiated. What is set outside stays so inside. Raises UnsupportedSyntax for a
    recursion too deep for Python.
    """
    floats = [v.dtype for v in data if v.dtype.is_float]
    widest = max(floats, key=lambda d: d.size_bytes, default=None)
    tokens = (
        AT_ONCE.set(run_operator),
        _WATCHING.set(watch or _WATCHING.get()),
        DEFAULT_FLOAT.set(DEFAULT_FLOAT.get() or widest),
    )
    try:
        yield
    except RecursionError as e:
        raise too_deep(_innermost(e)) from None
    except IrError as e:
        add_hint(e)
        raise
    finally:
        DEFAULT_FLOAT.reset(tokens[2])
        _WATCHING.reset(tokens[1])
        AT_ONCE.reset(tokens[0])


def _innermost(e: Exception) -> Place:
    """The user's line that an error comes from."""
    frames = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(e.__traceback__)]
    users = [at for at in frames if is_users(at[0])]
    return Place.in_file(*(users or frames)[-1])


def leaf(x: Any) -> Tensor:
    """A watched tensor with the elements of x; the gradient of x, a tensor, flows through it."""
    if isinstance(x, Value) and is_watched(x):
        return _same(x)
    new = Tensor(known(x) if isinstance(x, Value) else x)
    new.watched = True
    return new


def as_tensor(v: Value) -> Tensor:
    """A value that is known as a tensor, which has forgotten how it was made where results are not
    watched."""
    if not _WATCHING.get():
        return Tensor(known(v))
    if isinstance(v, Tensor):
        return v
    return _same(v) if is_watched(v) else Tensor(known(v))


def runs_at_once(*trees: Any) -> bool:
    """Whether a function of these runs as it stands: in eager mode, where it is not part of a trace
    that is under way."""
    if modes.mode() != "eager" or parse.is_tracing():
        return False
    return all(known(v) is not None for v in values_in(list(trees)))


def call(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f(*args, **kwargs), as it stands where it runs at once, else as a part of the graph."""
    if runs_at_once(args, kwargs):
        return f(*args, **kwargs)
    return parse.call(f, *args, **kwargs)


def known(v: Value) -> Array | None:
    """The elements of a value, computed if need be; None if it depends on a placeholder."""
    if isinstance(v, (Constant, Weight)):
        return v.data
    if v.node is None:
        return None
    leaves = Graph((), (v,)).leaves
    if any(not isinstance(x, (Constant, Weight)) for x in leaves):
        return None
    return _computed(v)


def array_of(v: Value) -> Array:
    """The elements of a value that is known. Raises GraphError for a placeholder."""
    found = known(v)
    if found is None:
        raise GraphError(f"{v!r} has no elements: it depends on an input of a graph")
    return found


def run_operator(
    op: Op, inputs: Sequence[Value | None], attrs: dict[str, Any]
) -> tuple[Value, ...] | None:
    """The operator's results on values that are known; None where one is a placeholder."""
    arrays = [None if v is None else known(v) for v in inputs]
    if any(a is None and v is not None for a, v in zip(arrays, inputs, strict=True)):
        return _left_to_the_graph(op, inputs, attrs)
    kernel, node = kernel_for(op, inputs, attrs)
    results = kernel([a for a in arrays if a is not None])
    watched = _WATCHING.get() and any(is_watched(v) for v in inputs)
    if not watched:
        return tuple(Tensor(a) for a in results)
    left_out = (None,) * (len(node.inputs) - len(inputs))
    return _results(Node(op, (*inputs, *left_out), node.attrs, ()), results)


_WATCHING: ContextVar[bool] = ContextVar("watching", default=False)


def _results(node: Node, arrays: Sequence[Array]) -> tuple[Tensor, ...]:
    """The node's results, which remember it."""
    made = []
    for i, a in enumerate(arrays):
        t = Tensor(a)
        t.node, t.index, t.watched = node, i, True
        made.append(t)
    node.results = tuple(made)
    return node.results


def is_watched(v: Value | None) -> bool:
    """Whether a gradient may flow through v."""
    if isinstance(v, Tensor):
        return v.watched
    return isinstance(v, Weight) or (v is not None and v.node is not None)


def _same(v: Value) -> Tensor:
    """v as a tensor, through which its gradient flows."""
    (same,) = _results(Node(OPS["reshape"], (v,), {"shape": v.shape}, ()), [array_of(v)])
    return same


def _left_to_the_graph(op: Op, inputs: Sequence[Value | None], attrs: dict[str, Any]) -> Any:
    """Beside a placeholder a tensor is a constant of the graph that is being traced."""
    if not any(isinstance(v, Tensor) for v in inputs):
        return None
    plain = [Constant(v.data) if isinstance(v, Tensor) else v for v in inputs]
    return op.node(plain, attrs).results


def _computed(v: Value) -> Array:
    """A value that rules of differentiation built node by node, computed node by node."""
    env: dict[Value, Array] = {}
    for node in order((v,)):
        if all(isinstance(r, Tensor) for r in node.results):
            continue
        given = [x for x in node.inputs if x is not None]
        arrays = [env[x] if x in env else _data(x) for x in given]
        env.update(zip(node.results, compute(node, arrays), strict=True))
    return env[v]


def _data(v: Value) -> Array:
    assert isinstance(v, (Constant, Weight))
    return v.data


Tensor.at_once = staticmethod(run_operator)
