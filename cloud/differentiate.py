"""Derivatives of Python functions: trace the function, transform its graph, run the result.

Functions are read by `cloud.parse`, so that their control flow may depend on data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from cloud import autodiff, eager, forward
from cloud.autodiff.values import or_zeros
from cloud.compile.simplify import simplify
from cloud.parse.structure import NUMERIC, described, refuse_foreign
from cloud.transform import Traced, transform
from cloud.trees import arrays_like, is_float, leaves, packed, rebuilt
from cloud.wrt import Wrt, chosen_by, numbers_in
from ir.dtype import DType
from ir.errors import ShapeError
from ir.graph import Constant, Graph, Value, shape_text
from ir.op import OPS
from ir.passes import common_subexpression


def stop_gradient(x: Any) -> Any:
    """y = x, through which no gradient flows: what only leads here has no derivative."""
    return OPS["stop_gradient"](x)


def grad(f: Callable[..., Any], wrt: Wrt = 0) -> Callable[..., Any]:
    """The function that gives the gradient of scalar-valued `f`, of the same arguments.

    `wrt`: what the derivative is taken by: an argument's number or name, a weight, a module (then
    a dict of gradients of its trainable weights comes back), or a list, tuple or dict of these. The
    gradient of an argument that is a nested structure is one of the same structure. The result
    takes arrays and gives arrays, or takes values and adds to their graph, so `grad(grad(f))` is a
    second derivative. Raises ShapeError if f is not scalar-valued.
    """
    both = value_and_grad(f, wrt)
    return _named(lambda *args, **kwargs: both(*args, **kwargs)[1], f, "grad")


def value_and_grad(f: Callable[..., Any], wrt: Wrt = 0) -> Callable[..., Any]:
    """Like `grad`, but gives (f's value, gradient)."""

    def both(*args: Any, **kwargs: Any) -> Any:
        shape: list[Any] = []

        def build(traced: Traced) -> Sequence[Value]:
            y = _scalar(traced, f, "grad")
            chosen = chosen_by(wrt, traced)
            shape[:] = [chosen]
            seeds = [autodiff.ones_like(y)]
            (y, _), g = autodiff.value_and_gradients(
                [autodiff.renamed(y), y], [None, *seeds], _values(chosen)
            )
            return (y, *g)

        kwargs = _with_defaults(f, args, kwargs, numbers_in(wrt))
        y, *g = transform(f, args, kwargs, build, numbers_in(wrt), reverse=True)
        return y, packed(shape[0], map(_signless_zeros, g))

    return _named(both, f, "value_and_grad")


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., tuple[Any, ...]]]:
    """(f(*primals), pull): pull(*cotangents) gives the cotangent of every primal that holds floats.

    There is one cotangent for each of f's results: f gives one, or a tuple of them. None stands
    for zeros. Raises ShapeError where a cotangent has not the shape of its result.
    """
    form: list[Any] = []

    def plain(traced: Traced) -> Sequence[Value]:
        form.append(traced.result)
        return _results(traced, f, "vjp")

    out = transform(f, primals, {}, plain)

    def pull(*cotangents: Any) -> tuple[Any, ...]:
        n = len(primals)
        _check_foreign("vjp: cotangent", cotangents)
        inputs: list[Any] = []

        def pulled(*all_: Any) -> Any:
            return eager.call(f, *all_[:n])

        def build(traced: Traced) -> Sequence[Value]:
            primal, seeds = traced.args[:n], traced.args[n:]
            inputs[:] = [rebuilt(p, lambda v: v if is_float(v) else None) for p in primal]
            outputs = _results(traced, f, "vjp")
            given = _fitted("vjp: cotangent", "result", list(leaves(tuple(seeds))), outputs)
            return autodiff.gradients(outputs, given, _values(tuple(inputs)))

        found = transform(pulled, (*primals, *cotangents), {}, build, reverse=True)
        trees = (x for x in inputs if any(isinstance(v, Value) for v in leaves(x)))
        return tuple(packed(tuple(trees), map(_signless_zeros, found)))

    return packed(form[0], iter(out)), pull


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), the derivative of f along `tangents`), in forward mode: nothing is kept.

    Where a primal holds no floats its tangent is ignored. Results that are no floats have None.
    Raises ShapeError where a tangent has not the shape of its primal.
    """
    n = len(primals)
    forms: list[Any] = []

    def pushed(*all_: Any) -> Any:
        return eager.call(f, *all_[:n])

    def build(traced: Traced) -> Sequence[Value]:
        outputs = _results(traced, f, "jvp")
        pairs = zip(leaves(traced.args[:n]), leaves(traced.args[n:]), strict=True)
        pairs = [(p, t) for p, t in pairs if is_float(p)]
        floats = [p for p, _ in pairs]
        given = _fitted("jvp: tangent", "primal", [t for _, t in pairs], floats)
        along = [or_zeros(t, p) for t, p in zip(given, floats, strict=True)]
        values, found = forward.value_and_tangents(outputs, floats, along)
        moved = iter(found)
        forms.append(traced.result)
        forms.append(rebuilt(traced.result, lambda _: next(moved)))
        return [*values, *(t for t in found if t is not None)]

    for name, x in (("primals", primals), ("tangents", tangents)):
        if not isinstance(x, (tuple, list)):
            raise ShapeError(f"jvp: {name} is {described(x)}, want a tuple, one for each argument")
    if [len(list(leaves(p))) for p in primals] != [len(list(leaves(t))) for t in tangents]:
        raise ShapeError(
            f"jvp: {len(list(leaves(tuple(tangents))))} tangents for "
            f"{len(list(leaves(tuple(primals))))} primals; want the same structure of both"
        )
    _check_foreign("jvp: tangent", tangents)
    tangents = tuple(arrays_like(p, t) for p, t in zip(primals, tangents, strict=True))
    out = iter(transform(pushed, (*primals, *tangents), {}, build))
    return packed(forms[0], out), packed(forms[1], out)


def grad_source(f: Callable[..., Any], *examples: Any, wrt: Wrt = 0) -> str:
    """The gradient of `f` as a readable module of Python that needs numpy alone. Its last function
    gives the same numbers: of a loop with a loop, of a recursion with a recursion.

    `examples`: arrays, structures of them, or shapes of float32 arrays, one for each argument;
    without them every argument is a scalar. Integers, text and objects among them are known: they
    are part of the text. `wrt`: see `grad`.

    The last function is `grad_<name of f>`. It takes an array for each array or float among the
    examples, in their order and of their shapes and types, by the names of f's arguments (the
    leaves of a structure are x0, x1, …), then each weight that f reads by its name. It gives the
    gradient's arrays in the order of `wrt`: one array, or a tuple of several. Raises ShapeError if
    f is not scalar-valued.
    """
    from cloud.emit import python_source  # few programs print theirs

    if not examples:
        examples = ((),) * len(argument_names(f))
    args = tuple(_example(x) for x in examples)
    traced = Traced.of(f, args, {}, numbers_in(wrt))
    y = _scalar(traced, f, "grad_source")
    chosen = _values(chosen_by(wrt, traced))
    found = autodiff.gradients([y], [autodiff.ones_like(y)], chosen)
    names = _output_names(chosen)
    derivative = Graph(tuple(traced.values), tuple(found), names)
    return python_source(common_subexpression(simplify(derivative)), f"grad_{_name(f)}")


def argument_names(f: Callable[..., Any]) -> list[str]:
    """The names of the positional arguments of f, as far as they are known."""
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return [p.name for p in inspect.signature(f).parameters.values() if p.kind in fixed]
    except (TypeError, ValueError):  # a built-in without a signature
        return []


def _with_defaults(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], wanted: Collection[Any]
) -> dict[str, Any]:
    """The named arguments, with those that a derivative is wanted by and that have a default."""
    left = [n for n in wanted if isinstance(n, str) and n not in kwargs]
    left = [n for n in left if n not in argument_names(f)[: len(args)]]
    if not left:
        return kwargs
    parameters = inspect.signature(f).parameters
    found = {n: parameters[n].default for n in left if n in parameters}
    return kwargs | {n: x for n, x in found.items() if x is not inspect.Parameter.empty}


def _scalar(traced: Traced, f: Callable[..., Any], who: str) -> Value:
    y = traced.result
    if not isinstance(y, Value):
        if isinstance(y, (int, float)) and not isinstance(y, bool):
            return Constant(np.asarray(y, DType.f32.numpy))  # it depends on no argument
        raise ShapeError(f"{who}: {_name(f)} gives a {type(y).__name__}, want a scalar")
    if y.shape != ():
        raise ShapeError(f"{who}: {_name(f)} gives shape {shape_text(y.shape)}, want a scalar")
    return y


def _results(traced: Traced, f: Callable[..., Any], who: str) -> list[Value]:
    """What f gives, in order. Raises ShapeError for what is no array nor number."""
    found = list(leaves(traced.result))
    for y in found:
        if not isinstance(y, Value):
            raise ShapeError(f"{who}: {_name(f)} gives {described(y)}, want arrays or numbers")
    return found


def _fitted(what: str, of: str, given: Sequence[Any], values: Sequence[Any]) -> list[Value | None]:
    """One cotangent or tangent for each value, cast to its type; None for what is no float.

    Raises ShapeError where their number or shapes differ.
    """
    if len(given) != len(values):
        raise ShapeError(f"{what}s: {len(given)} given, want {len(values)}, one for each {of}")
    found: list[Value | None] = []
    for i, (g, v) in enumerate(zip(given, values, strict=True)):
        if g is None or not (isinstance(v, Value) and v.dtype.is_float):
            found.append(None)
            continue
        if not isinstance(g, NUMERIC):
            wanted = f"{v.dtype!r}{shape_text(v.shape)}, as the {of}"
            raise ShapeError(f"{what} {i} is {described(g)}, want {wanted}")
        g = g if isinstance(g, Value) else Constant(np.asarray(g, v.dtype.numpy))
        if g.shape != v.shape:
            shapes = f"is {shape_text(g.shape)}, want {shape_text(v.shape)}"
            raise ShapeError(f"{what} {i} {shapes}, the shape of the {of}")
        found.append(g if g.dtype is v.dtype else OPS["cast"](g, to=v.dtype))
    return found


def _check_foreign(what: str, trees: Sequence[Any]) -> None:
    for i, tree in enumerate(trees):
        for x in leaves(tree):
            refuse_foreign(x, f"{what} {i}")


def _signless_zeros(g: Any) -> Any:
    """A gradient with 0 in the place of -0. Whether a sum of nothing is 0 or -0 depends on how the
    program runs: a loop of the graph starts it as 0, eager mode with its first part."""
    return g if isinstance(g, Value) else g + g.dtype.type(0)


def _values(tree: Any) -> list[Value]:
    return [v for v in leaves(tree) if isinstance(v, Value)]


def _example(x: Any) -> Any:
    """An argument to trace with: a shape stands for a float32 array of it."""
    if isinstance(x, tuple) and all(isinstance(n, int) for n in x):
        return Value(x)
    return x


def _output_names(chosen: Sequence[Value]) -> tuple[str, ...]:
    names: list[str] = []
    for i, v in enumerate(chosen):
        name = f"g_{v.name or i}"
        names.append(name if name not in names else f"{name}_{i}")
    return tuple(names)


def _name(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", "f")
    return name if name.isidentifier() else "f"


def _named(g: Callable[..., Any], f: Callable[..., Any], prefix: str) -> Callable[..., Any]:
    g.__name__ = f"{prefix}_{_name(f)}"
    g.__wrapped__ = f  # type: ignore[attr-defined]  # it takes the arguments of f, by the same names
    return g
