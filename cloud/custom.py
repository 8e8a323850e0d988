"""Gradients that their author gives: of a whole function, or what becomes of one on its way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cloud import eager, modes, parse
from cloud.autodiff import zeros_like
from cloud.differentiate import vjp
from cloud.parse.capture import Closing
from cloud.trees import is_float, leaves, packed
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

    `backward` takes one cotangent for each result and gives one gradient for each argument (a tuple
    where there are several; None for one without). Where the function reads weights that are to
    have gradients, backward gives (gradients, {weight: its gradient}); other weights get none.
    `backward` may read whatever the function computed. It is differentiated in turn for higher
    orders. `f.check(*args)` compares it with the automatic gradient of y.
    """

    def __init__(self, f: Callable[..., tuple[Any, Backward]]) -> None:
        self.f = f
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any) -> Any:
        if not any(isinstance(x, Value) for x in leaves(args)):
            return self.f(*args)[0]
        y, backward = self._parts(args)
        results = [v for v in leaves(y) if isinstance(v, Value)]
        targets = [v for v in leaves(args) if isinstance(v, Value) and is_float(v)]

        def pulled(*cotangents: Any) -> tuple[list[Value], list[Weight]]:
            found = _call(backward, *cotangents)
            weights: dict[Weight, Any] = {}
            if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
                found, weights = found
            return self._matched(found, args, targets, weights), list(weights)

        return packed(y, iter(_with_gradient(results, targets, pulled)))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """So that methods can have gradients of their own too."""
        return self if instance is None else functools.partial(self, instance)

    def check(self, *args: Any, rtol: float = 1e-4, atol: float = 1e-6, seed: int = 0) -> None:
        """Compare the gradient given with the automatic one, for random cotangents of the results.

        Raises GradientMismatch, which names the argument and both.
        """

        def plain(*xs: Any) -> Any:
            return self._parts(xs)[0]

        rng = np.random.default_rng(seed)
        y, automatic = vjp(plain, *args)
        outputs = [np.asarray(a) for a in leaves(y)]
        cotangents = [np.asarray(rng.standard_normal(a.shape), a.dtype) for a in outputs]
        given = vjp(self, *args)[1](*cotangents)
        for i, (a, b) in enumerate(zip(leaves(given), leaves(automatic(*cotangents)), strict=True)):
            if not np.allclose(a, b, rtol=rtol, atol=atol):
                worst = np.unravel_index(np.argmax(np.abs(a - b)), np.shape(a))
                place = list(map(int, worst))
                raise GradientMismatch(
                    f"{self.f.__name__}: gradient {i} is {a[worst]:.6g} at {place}, "
                    f"the automatic one {b[worst]:.6g}; the largest difference of {np.size(a)}"
                )

    def _parts(self, args: Sequence[Any]) -> tuple[Any, Backward]:
        out = _call(self.f, *args)
        if not (isinstance(out, tuple) and len(out) == 2 and callable(out[1])):
            raise ShapeError(f"{self.f.__name__}: want it to give (result, backward function)")
        return out

    def _matched(
        self, found: Any, args: Sequence[Any], targets: list[Value], weights: dict[Weight, Any]
    ) -> list[Value]:
        """A gradient for each float of the arguments, then those of weights. Raises ShapeError"""
        each = found if isinstance(found, tuple) and len(args) > 1 else (found,)
        if len(each) != len(args):
            raise ShapeError(
                f"{self.f.__name__}: backward gives {len(each)} gradients, want {len(args)}"
            )
        matched: list[Value] = []
        for x, g in zip(args, each, strict=True):
            floats = [v for v in leaves(x) if isinstance(v, Value) and is_float(v)]
            given = [None] * len(floats) if g is None else list(leaves(g))
            if len(given) != len(floats):
                raise ShapeError(
                    f"{self.f.__name__}: backward gives {len(given)} gradients for an argument, "
                    f"want {len(floats)}"
                )
            matched += [self._fitting(d, v) for d, v in zip(given, floats, strict=True)]
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
        new = _call(f, g)
        new = g if new is None else new
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
    if modes.mode() == "eager" and all(eager.known(v) is not None for v in results):
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


def _call(f: Callable[..., Any], *args: Any) -> Any:
    return f(*args) if modes.mode() == "eager" else parse.call(f, *args)
