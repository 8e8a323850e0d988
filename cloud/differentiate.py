"""Derivatives of Python functions: trace the function, transform its graph, run the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cloud import autodiff, interpreter
from cloud.emit import python_source
from cloud.simplify import simplified
from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.graph import Constant, Graph, Value, substitute
from ir.op import OPS
from ir.passes import common_subexpression

Wrt = int | Sequence[int | Value] | Value


def stop_gradient(x: Any) -> Any:
    """y = x, through which no gradient flows: what only leads here has no derivative."""
    return OPS["stop_gradient"](x)


def grad(f: Callable[..., Value], wrt: Wrt = 0) -> Callable[..., Any]:
    """The function that gives the gradient of scalar-valued `f`, of the same arguments.

    `wrt`: an argument number, a weight, or a sequence of them (then a tuple of gradients comes
    back). The result takes arrays and gives arrays, or takes values and adds to their graph, so
    `grad(grad(f))` is a second derivative.
    """
    both = value_and_grad(f, wrt)
    return _named(lambda *args: both(*args)[1], f, "grad")


def value_and_grad(f: Callable[..., Value], wrt: Wrt = 0) -> Callable[..., Any]:
    """Like `grad`, but gives (f's value, gradient). Raises ShapeError if f is not scalar-valued."""

    def build(graph: Graph) -> tuple[Value, ...]:
        (y,) = graph.outputs
        if y.shape != ():
            raise ShapeError(f"grad: {_name(f)} gives shape {list(y.shape)}, want a scalar")
        return (y, *autodiff.gradients([y], [autodiff.ones_like(y)], _chosen(graph, wrt)))

    def both(*args: Any) -> Any:
        y, *g = _transform(f, args, build)
        return y, (g[0] if isinstance(wrt, (int, Value)) else tuple(g))

    return _named(both, f, "value_and_grad")


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., tuple[Any, ...]]]:
    """(f(*primals), pull): pull(*cotangents of the outputs) gives those of every float input."""

    def pull(*cotangents: Any) -> tuple[Any, ...]:
        n = len(primals)

        def pulled(*all_: Value) -> tuple[Value, ...]:
            out = f(*all_[:n])
            outputs = [out] if isinstance(out, Value) else list(out)
            wrt = [v for v in all_[:n] if v.dtype.is_float]
            return tuple(autodiff.gradients(outputs, all_[n:], wrt))

        return tuple(_transform(pulled, (*primals, *cotangents), lambda g: g.outputs))

    out = _transform(f, primals, lambda g: g.outputs)
    return (out[0] if len(out) == 1 else tuple(out)), pull


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), the derivative of f along `tangents`), by differentiating the vjp, which is
    linear in its cotangents, with respect to them."""
    n = len(primals)

    def push(*all_: Value) -> tuple[Value, ...]:
        out = f(*all_[:n])
        outputs = [out] if isinstance(out, Value) else list(out)
        seeds = [Value(y.shape, y.dtype) for y in outputs]
        pulled = autodiff.gradients(outputs, seeds, all_[:n])
        pushed = autodiff.gradients(pulled, all_[n:], seeds)
        zeros = {s: autodiff.zeros_like(s) for s in seeds}
        return (*outputs, *substitute(pushed, zeros))

    out = _transform(push, (*primals, *tangents), lambda g: g.outputs)
    half = len(out) // 2
    return (out[0], out[1]) if half == 1 else (tuple(out[:half]), tuple(out[half:]))


def grad_source(f: Callable[..., Value], *examples: Any, wrt: Wrt = 0) -> str:
    """The gradient of `f` as readable Python on numpy arrays, given `np` and `cloud.ops` as `ops`.

    `examples`: arrays, or shapes of float32 arrays, one for each argument; without them every
    argument is a scalar.
    """
    if not examples:
        examples = ((),) * len(_argument_names(f))
    values = [_placeholder(f, i, x) for i, x in enumerate(examples)]
    graph = Graph.trace(f, *values)
    (y,) = graph.outputs
    chosen = _chosen(graph, wrt)
    found = autodiff.gradients([y], [autodiff.ones_like(y)], chosen)
    names = tuple(f"g_{v.name or i}" for i, v in enumerate(chosen))
    derivative = common_subexpression(simplified(Graph(graph.inputs, tuple(found), names)))
    return python_source(derivative, f"grad_{_name(f)}")


def _transform(
    f: Callable[..., Any], args: Sequence[Any], build: Callable[[Graph], Sequence[Value]]
) -> list[Any]:
    """Trace f on placeholders for `args`, transform, then run on arrays or splice into values."""
    placeholders = tuple(_placeholder(f, i, a) for i, a in enumerate(args))
    roots = tuple(build(Graph.trace(f, *placeholders)))
    if any(isinstance(a, Value) for a in args) or _reads_outer_values(placeholders, roots):
        actual = [a if isinstance(a, Value) else Constant(a) for a in args]
        return list(substitute(roots, dict(zip(placeholders, actual, strict=True))))
    return list(interpreter.run(Graph(placeholders, roots), *args))


def _reads_outer_values(placeholders: Sequence[Value], roots: Sequence[Value]) -> bool:
    """Whether f closes over a value of a trace that is under way: then the result belongs to it."""
    leaves = Graph((), tuple(roots)).leaves
    return any(type(v) is Value and v not in placeholders for v in leaves)


def _placeholder(f: Callable[..., Any], i: int, x: Any) -> Value:
    name = _argument_names(f)[i] if i < len(_argument_names(f)) else None
    if isinstance(x, Value):
        return Value(x.shape, x.dtype, name=name)
    if isinstance(x, tuple):
        return Value(x, name=name)
    array = np.asarray(x)
    return Value(array.shape, DType.of(array), name=name)


def _argument_names(f: Callable[..., Any]) -> list[str]:
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return [p.name for p in inspect.signature(f).parameters.values() if p.kind in fixed]
    except (TypeError, ValueError):  # a built-in without a signature
        return []


def _chosen(graph: Graph, wrt: Wrt) -> list[Value]:
    each = [wrt] if isinstance(wrt, (int, Value)) else wrt
    chosen = [graph.inputs[w] if isinstance(w, int) else w for w in each]
    for w, v in zip(each, chosen, strict=True):
        if not v.dtype.is_float:
            where = f"argument {w}" if isinstance(w, int) else f"{v!r}"
            raise DTypeError(f"grad: {where} holds {v.dtype!r}, want floats (3.0 for 3)")
    return chosen


def _name(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", "f")
    return name if name.isidentifier() else "f"


def _named(g: Callable[..., Any], f: Callable[..., Any], prefix: str) -> Callable[..., Any]:
    g.__name__ = f"{prefix}_{_name(f)}"
    g.__wrapped__ = f  # type: ignore[attr-defined]  # it takes the arguments of f, by the same names
    return g
