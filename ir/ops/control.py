"""Control flow over sub-graphs, and the tape on which its derivatives keep what they need.

A sub-graph reads its inputs, weights and constants; every other value of the graph around it comes
in as an operand. Free dimensions are those of the graph around it.
"""

from __future__ import annotations

import numpy as np

from ir.dtype import DType
from ir.errors import DTypeError, ShapeError
from ir.evaluate import call_steps, cond_steps, drive, while_steps
from ir.graph import Constant, Function, Graph, Value, shape_text
from ir.op import ANY_RESULTS, CONTROL_GRAD, NO_GRAD, Spec, bools, case, floats, ints, op
from ir.ops.compare import less
from ir.ops.elementwise import sin, tanh
from ir.ops.rules import zeros
from ir.ops.shaping import Element

NOTHING = Graph((), ())
NO_FUNCTION = Function("nothing", (), ())


def new_tape():
    """An empty tape as a value of a graph: a node without inputs."""
    return empty_tape.node([], {}).results[0]


def _check(name, what, have, want):
    """Types or shapes of what a sub-graph takes or gives, against those wanted."""
    if list(have) != list(want):
        kind = DTypeError if all(isinstance(d, DType) for d in (*have, *want)) else ShapeError
        texts = (
            ", ".join(repr(x) if isinstance(x, DType) else shape_text(x) for x in xs) or "none"
            for xs in (have, want)
        )
        raise kind(f"{name}: {what}: {' where the operands want '.join(texts)}")


def _types(of):
    """From values to what a rule speaks of: their shapes or their types."""
    return lambda values: [getattr(v, of) for v in values]


def _cond_rule(of, scalar):
    pick = _types(of)

    def rule(predicate, *xs, then, otherwise):
        _check("cond", "the predicate", [predicate], [scalar])
        for name, graph in (("then", then), ("otherwise", otherwise)):
            _check("cond", f"inputs of {name}", pick(graph.inputs), xs)
        _check("cond", "results of otherwise", pick(otherwise.outputs), pick(then.outputs))
        return pick(then.outputs)

    return rule


def _while_rule(of, scalar):
    pick = _types(of)

    def rule(*state, condition, body, **_):
        for name, graph in (("condition", condition), ("body", body)):
            _check("while_loop", f"inputs of {name}", pick(graph.inputs), state)
        _check("while_loop", "results of condition", pick(condition.outputs), [scalar])
        _check("while_loop", "results of body", pick(body.outputs), state)
        return list(state)

    return rule


def _call_rule(i):
    def rule(*xs, body, **_):
        _check("call", f"inputs of {body.name!r}", [t[i] for t in body.inputs], xs)
        return [t[i] for t in body.results]

    return rule


def _sample(fn, *inputs):
    values = [Value(s.shape, s.dtype) for s in inputs]
    return Graph.trace(fn, *values)


def _number(x, dtype=DType.f32):
    return Constant(x, dtype=dtype)


_XY = (floats(3), floats(3))
_COUNTED = (Spec((), DType.i32, 0, 4), floats(2, 2))


def _then():
    return _sample(lambda x, y: (sin(x) * y, x), *_XY)


def _cond_samples():
    branches = {"then": _then(), "otherwise": _sample(lambda x, y: (x + y, tanh(y)), *_XY)}
    yield case(bools(), *_XY, **branches)
    yield case(Spec((), DType.bool, data=np.array(True)), *_XY, **branches)


@op(
    code=310,
    results=ANY_RESULTS,
    shape=_cond_rule("shape", ()),
    dtype=_cond_rule("dtype", DType.bool),
    samples=_cond_samples,
    kernels=(),
    grad=CONTROL_GRAD,
)
def cond(predicate, *xs, then=NOTHING, otherwise=NOTHING):
    """ys = then(xs) if the predicate, a single truth value, holds, else otherwise(xs)

    Both graphs take xs and give results of equal shapes and types.
    """
    return drive(cond_steps(predicate, *xs, then=then, otherwise=otherwise))


@op(
    code=311,
    results=ANY_RESULTS,
    shape=_while_rule("shape", ()),
    dtype=_while_rule("dtype", DType.bool),
    samples=lambda: [
        case(
            *_COUNTED,
            condition=_sample(lambda i, x: less(i, _number(4, DType.i32)), *_COUNTED),
            body=_sample(lambda i, x: (i + 1, sin(x) * x + x), *_COUNTED),
        )
    ],
    kernels=(),
    grad=CONTROL_GRAD,
)
def while_loop(*state, condition=NOTHING, body=NOTHING, every=1):
    """state = body(state) for as long as condition(state), a single truth value, holds

    body gives a state of the same shapes and types. `every`: where the loop is differentiated, only
    each such state is kept, and what lies between two of them is computed again (Griewank 1992).
    """
    return drive(while_steps(*state, condition=condition, body=body))


@op(
    code=312,
    results=ANY_RESULTS,
    shape=_call_rule(0),
    dtype=_call_rule(1),
    samples=lambda: [case(*_XY, body=Function.of("sine_and_sum", _then()))],
    kernels=(),
    grad=CONTROL_GRAD,
)
def call(*xs, body=NO_FUNCTION, remat=False):
    """ys = body(xs); a function may call itself, or others that call it

    `remat`: where the call is differentiated, only xs are kept and the function runs once more
    (Chen et al. 2016).
    """
    return drive(call_steps(*xs, body=body))


def _stack(pair):
    """A tape in numpy: an array without axes that holds a pair, or nothing."""
    tape = np.empty((), np.object_)
    tape[()] = pair
    return tape


@op(code=313, shape=lambda: (), dtype=DType.tape, samples=[case()], kernels=(), grad=NO_GRAD)
def empty_tape():
    """tape = one on which nothing was pushed; it is the zero among the cotangents of tapes"""
    return _stack(None)


def _push_dtype(tape, x):
    if tape is not DType.tape or x is DType.tape:
        raise DTypeError(f"push: {x!r} on {tape!r}; want anything but a tape on a tape")
    return DType.tape


def _push_grad(g, y, tape, x):
    if not x.dtype.is_float:
        return g, None
    return pop(g, shape=x.shape, dtype=x.dtype)


@op(
    code=314,
    shape=lambda tape, x: _scalar("push", tape),
    dtype=_push_dtype,
    samples=[
        case(Spec((), DType.tape, data=_stack(None)), (2, 3)),
        case(Spec((), DType.tape, data=_stack(None)), ints(2)),
    ],
    kernels=(),
    grad=_push_grad,
)
def push(tape, x):
    """tape' = tape with x on top, of any shape and any other type; the old tape stays as it is"""
    return _stack((x, tape[()]))


def _pop_dtype(tape, *, shape, dtype):
    if tape is not DType.tape:
        raise DTypeError(f"pop: from {tape!r}, want a tape")
    return [DType.tape, dtype.dtype]


def _pop_grad(g, y, tape, *, shape, dtype):
    below, x = g
    below = new_tape() if below is None else below
    if not dtype.dtype.is_float:
        return (below,)
    return (push(below, zeros(y[1]) if x is None else x),)


def _scalar(name, tape):
    if tape != ():
        raise ShapeError(f"{name}: a tape of shape {shape_text(tape)}, want []")
    return ()


_TOP = np.array([[1.5, -2.0, 0.5]], np.float32)


@op(
    code=315,
    results=("below", "x"),
    shape=lambda tape, *, shape, dtype: [_scalar("pop", tape), shape],
    dtype=_pop_dtype,
    samples=[
        case(Spec((), DType.tape, data=_stack((_TOP, None))), shape=(1, 3)),
        case(Spec((), DType.tape, data=_stack(None)), shape=(2,), dtype="i32"),
    ],
    kernels=(),
    grad=_pop_grad,
)
def pop(tape, *, shape=(), dtype=Element.f32):
    """below, x = the tape without what was pushed last, and that

    `shape` and `dtype` are those of what was pushed. An empty tape gives zeros and stays empty.
    """
    top = tape[()]
    if not top:
        return tape, np.zeros(shape, dtype.dtype.numpy)
    x, below = top
    return _stack(below), x
