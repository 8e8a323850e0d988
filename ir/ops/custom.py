"""Results with a gradient that their author gives."""

from __future__ import annotations

from ir.graph import Constant, Graph, substitute
from ir.op import ANY_RESULTS, case, ints, op
from ir.ops.shaping import broadcast_to

NO_RULE = Graph((), ())


class Rule(Graph):
    """A backward graph that is not traced yet: `rule(*cotangents)` gives what a graph would."""

    def __init__(self, rule):
        super().__init__((), ())
        object.__setattr__(self, "rule", rule)


def _first(values, *, results, backward):
    return list(values[:results])


def _with_gradient_grad(g, y, *xs, results, backward):
    cotangents = [_zeros(v) if d is None else d for d, v in zip(g, y, strict=True)]
    if isinstance(backward, Rule):
        found = list(backward.rule(*cotangents))
    else:
        others = xs[len(xs) - len(backward.inputs) + results :]
        inner = dict(zip(backward.inputs, (*cotangents, *others), strict=True))
        found = list(substitute(backward.outputs, inner))
    left = len(xs) - results - len(found)
    return (*(None,) * results, *found, *(None,) * left)


def _zeros(v):
    zero = Constant(0, dtype=v.dtype)
    return broadcast_to(zero, shape=v.shape) if v.shape else zero


@op(
    code=329,
    results=ANY_RESULTS,
    shape=lambda *xs, **attrs: _first(xs, **attrs),
    dtype=lambda *xs, **attrs: _first(xs, **attrs),
    samples=[case(ints(3), results=1), case(ints(3), ints(2), results=2)],
    kernels=(),
    grad=_with_gradient_grad,
)
def with_gradient(*xs, results=1, backward=NO_RULE):
    """ys = the first `results` of xs, as they are

    Their gradient does not flow back to them: backward(cotangents of ys, the last xs) gives the
    gradients of the xs that come next. Simplification takes the operator away.
    """
    return tuple(xs[:results])


def forget_gradient(node, inputs):
    """The rule of a pass: once derivatives are taken, results are what they were."""
    return inputs[: node.attrs["results"]] if node.op is with_gradient else None
