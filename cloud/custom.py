"""Gradients that their author gives: of a whole function, or what becomes of one on its way."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cloud import eager, modes
from cloud.autodiff import zeros_like
from cloud.differentiate import grad, vjp
from cloud.parse.capture import Closing
from cloud.parse.structure import NUMERIC
from cloud.trees import is_float, leaves, packed, rebuilt
from ir.errors import IrError, ShapeError
from ir.graph import Constant, Graph, Value, Weight, next_serial, shape_text
from ir.op import OPS
from ir.ops.custom import Rule

Backward = Callable[..., Any]


class GradientMismatch(IrError, ValueError):
    """A gradient that its author gives and that differs from the automatic one."""


class custom_gradient:
    """Decorate a function that gives (y, backward): its gradient is what `backward` says.

        @custom_gradient
        def clipped_exp(x):
            y = ops.exp(x)
            def backward(g):
                return ops.clip(g * y, low=-1.0, high=1.0)
            return y, backward

    `backward` takes one cotangent for each result and gives one gradient for each argument, or for
    each that holds floats (a tuple where there are several; None for one without). A known number
    counts as what it is: what is given for it is read by nobody, but it has to be there. Where the
    function reads weights that are to have gradients, backward gives (gradients, {weight: its
    gradient}); other weights get none. `backward` may read whatever the function computed. It is
    differentiated in turn for higher orders. Arguments may be given by name; those that can only be
    given so are settings, not data. `f.check(*args)` compares with the automatic gradient of y.

    Raises ShapeError where backward gives another number of gradients, or one of another shape.
    """

    def __init__(self, f: Callable[..., tuple[Any, Backward]]) -> None:
        self.f = f
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(x, Value) for x in leaves((args, kwargs))):
            y = eager.call(self.f, *args, **kwargs)[0]
            made = next((v for v in leaves(y) if isinstance(v, Value)), None)
            if made is None:
                return y
            args = rebuilt(args, lambda x: _constant(x, made))  # it reads weights: they count
        if kwargs:
            args, kwargs = self._by_place(args, kwargs)
        y, backward = self._parts(args, kwargs)
        results = [v for v in leaves(y) if isinstance(v, Value)]
        if not results:
            return y
        targets = [v for v in leaves(args) if isinstance(v, Value) and is_float(v)]

        def pulled(*cotangents: Any) -> tuple[list[Value], list[Weight]]:
            found, weights = _gradients(eager.call(backward, *_for_each_result(y, cotangents)))
            return self._matched(found, args, weights), list(weights)

        return packed(y, iter(_with_gradient(results, targets, pulled)))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """So that methods can have gradients of their own too."""
        return self if instance is None else functools.partial(self, instance)

    def check(self, *args: Any, rtol: float = 1e-4, atol: float = 1e-6, seed: int = 0) -> None:
        """Compare the gradient given with the automatic one, for random cotangents of the results:
        by each argument that holds floats, and by each weight that backward names.

        Raises GradientMismatch, which names the argument or weight, and both gradients.
        """
        weights: dict[Weight, None] = {}

        def plain(*xs: Any) -> Any:
            y, backward = self._parts(xs)
            floats = [v for v in leaves(y) if isinstance(v, Value) and is_float(v)]
            found = eager.call(backward, *map(zeros_like, floats))
            weights.update(dict.fromkeys(_gradients(found)[1]))
            return y

        vjp(plain, *args)  # to see which weights backward names
        places = [i for i, x in enumerate(args) if any(map(is_float, leaves(x)))]
        wrt = (*places, *weights)
        automatic = grad(_against_random(plain, seed), wrt)(*args)
        given = grad(_against_random(self, seed), wrt)(*args)
        names = [*places, *(w.name or "a weight" for w in weights)]
        for name, own, other in zip(names, given, automatic, strict=True):
            for a, b in zip(leaves(own), leaves(other), strict=True):
                self._compare(name, np.asarray(a), np.asarray(b), rtol, atol)

    def _compare(self, name: int | str, a: Any, b: Any, rtol: float, atol: float) -> None:
        if not np.allclose(a, b, rtol=rtol, atol=atol):
            worst = np.unravel_index(np.argmax(np.abs(a - b)), np.shape(a))
            place = list(map(int, worst))
            raise GradientMismatch(
                f"{self.f.__name__}: gradient {name} is {a[worst]:.6g} at {place}, "
                f"the automatic one {b[worst]:.6g}; the largest difference of {np.size(a)}"
            )

    def _by_place(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All arguments by place, but those that can only be given by name. Raises ShapeError."""
        bound = inspect.signature(self.f).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, x in bound.kwargs.items():
            if any(isinstance(v, Value) for v in leaves(x)):
                raise ShapeError(
                    f"{self.f.__name__}: argument {name!r}, given by name only, holds a value; "
                    "want a setting such as a number, or an argument that has a place"
                )
        return bound.args, bound.kwargs

    def _parts(
        self, args: Sequence[Any], kwargs: dict[str, Any] | None = None
    ) -> tuple[Any, Backward]:
        out = eager.call(self.f, *args, **(kwargs or {}))
        if not (isinstance(out, tuple) and len(out) == 2 and callable(out[1])):
            raise ShapeError(f"{self.f.__name__}: want it to give (result, backward function)")
        return out

    def _matched(self, found: Any, args: Sequence[Any], weights: dict[Weight, Any]) -> list[Value]:
        """A gradient for each value of floats among the arguments, then those of weights. How many
        there have to be is told by what the arguments hold, known or not. Raises ShapeError."""
        each = found if isinstance(found, tuple) and len(args) > 1 else (found,)
        if len(each) != len(args):  # then of those that hold floats
            args = [x for x in args if any(map(is_float, leaves(x)))]
        if len(each) != len(args):
            raise ShapeError(
                f"{self.f.__name__}: backward gives {len(each)} gradients, want {len(args)}, "
                "one for each argument that holds floats (settings are given by name only)"
            )
        matched: list[Value] = []
        for x, g in zip(args, each, strict=True):
            floats = [v for v in leaves(x) if is_float(v)]
            given = [None] * len(floats) if g is None or not floats else list(leaves(g))
            if len(given) != len(floats):
                raise ShapeError(
                    f"{self.f.__name__}: backward gives {len(given)} gradients for an argument, "
                    f"want {len(floats)}"
                )
            pairs = zip(given, floats, strict=True)
            matched += [self._fitting(d, v) for d, v in pairs if isinstance(v, Value)]
        return matched + [self._fitting(g, w) for w, g in weights.items()]

    def _fitting(self, g: Any, x: Value) -> Value:
        if g is None:
            return zeros_like(x)
        g = g if isinstance(g, Value) else OPS["add"](g, zeros_like(x))
        if g.shape != x.shape or g.dtype is not x.dtype:
            raise ShapeError(
                f"{self.f.__name__}: backward gives {g.dtype!r}{shape_text(g.shape)}, "
                f"want {x.dtype!r}{shape_text(x.shape)}"
            )
        return g


def hook(x: Any, f: Callable[[Any], Any]) -> Any:
    """y = x; the gradient g that flows back through y becomes f(g), or stays where f gives None.

    In eager mode f sees g's numbers; in graph mode it is traced, so that it sees g as a value.
    """
    if not isinstance(x, Value):
        return x

    def pulled(g: Any) -> tuple[list[Value], list[Weight]]:
        new = eager.call(f, g)
        if new is None:
            return [g], []
        new = new if isinstance(new, Value) else OPS["add"](new, zeros_like(g))
        if new.shape != x.shape:
            raise ShapeError(
                f"hook: the gradient becomes {shape_text(new.shape)}, want {shape_text(x.shape)}"
            )
        return [new], []

    return _with_gradient([x], [x], pulled, reads_weights=False)[0]


def _with_gradient(
    results: list[Value],
    targets: list[Value],
    pulled: Callable[..., tuple[list[Value], list[Weight]]],
    *,
    reads_weights: bool = True,
) -> list[Value]:
    """The results, whose cotangents `pulled` turns into gradients of the targets, then weights."""
    if eager.runs_at_once(results):
        weights = pulled(*map(zeros_like, results))[1] if reads_weights else []
        return _at_once(results, [*targets, *weights], pulled)
    cotangents = [Value(v.shape, v.dtype) for v in results]
    closing = Closing(next_serial(), cotangents)
    gradients, weights = pulled(*cotangents)
    roots = closing.close(gradients)
    outer = list(closing.captured)
    backward: Graph = closing.graph(roots, outer)
    operands = [*results, *targets, *weights, *outer]
    made = OPS["with_gradient"].node(operands, {"results": len(results), "backward": backward})
    return list(made.results)


def _at_once(
    results: list[Value],
    targets: list[Value],
    pulled: Callable[..., tuple[list[Value], list[Weight]]],
) -> list[Value]:
    """In eager mode `pulled` runs when the gradient is there."""

    def rule(*cotangents: Value) -> list[Value]:
        return pulled(*(_shown(g) for g in cotangents))[0]

    operands = [*results, *targets]
    made = OPS["with_gradient"](*operands, results=len(results), backward=Rule(rule))
    return list(made)


def _shown(g: Value) -> Value:
    """The cotangent as a tensor, so that whoever looks sees its numbers."""
    return eager.Tensor(g.data) if type(g) is Constant else g


def _for_each_result(y: Any, cotangents: Sequence[Value]) -> Iterator[Any]:
    """The cotangents, with zeros for results that are known numbers."""
    given = iter(cotangents)
    for v in leaves(y):
        if isinstance(v, Value):
            yield next(given)
        elif isinstance(v, NUMERIC):
            dtype = v.dtype if isinstance(v, (np.ndarray, np.generic)) else np.dtype(bool)
            wanted = dtype if dtype.kind == "f" else cotangents[0].dtype.numpy
            yield _constant(np.zeros(np.shape(v), wanted), cotangents[0])


def _constant(x: Any, like: Value) -> Any:
    """A float or an array of floats as a constant, in eager mode as a tensor; a number of Python in
    the type of `like`."""
    if not is_float(x):
        return x
    kind = eager.Tensor if modes.mode() == "eager" else Constant
    return kind(np.asarray(x, None if hasattr(x, "dtype") else like.dtype.numpy))


def _gradients(found: Any) -> tuple[Any, dict[Weight, Any]]:
    """What a backward function gives: gradients of the arguments, and those of weights."""
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
        return found
    return found, {}


def _against_random(f: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """The sum of f's results, each times random numbers, whose gradient is that of all results."""

    def scalar(*xs: Any) -> Any:
        rng, total = np.random.default_rng(seed), Constant(0.0)
        for y in (y for y in leaves(f(*xs)) if isinstance(y, Value) and is_float(y)):
            along = y * np.asarray(rng.standard_normal(y.shape), y.dtype.numpy)
            part = OPS["reduce_sum"](along, axes=tuple(range(y.rank))) if y.rank else along
            total = part if type(total) is Constant else total + part
        return total

    return scalar
