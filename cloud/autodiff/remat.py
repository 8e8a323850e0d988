"""Less memory for more work: what the backward pass needs is computed again, not kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cloud.autodiff.values import blank
from ir.graph import Constant, Function, Graph, Value, Weight, next_serial, order, substitute
from ir.op import OPS


def remat(f: Callable[..., Any], *, every: int = 0) -> Callable[..., Any]:
    """The same function of values; where it is differentiated, less of it is kept.

    Without `every`, only its inputs are, and f runs once more before the backward pass reaches it
    (Chen et al. 2016). With it, loops of f keep each `every`th state and run again from one to the
    next, so that a loop of n turns keeps n / every + every states at a time (Griewank 1992).
    On arrays it is f. Raises TypeError for what is no function: loops take `cloud.remat`.
    """
    if not callable(f):
        raise TypeError(
            f"autodiff.remat: {type(f).__name__} {f!r:.60}, want a function of values; "
            "cloud.remat takes what a loop runs over"
        )

    def lighter(*args: Any) -> Any:
        if not any(isinstance(a, Value) and a.at_once is None for a in args):
            return f(*args)
        start = next_serial()
        out = f(*args)
        outputs = [out] if isinstance(out, Value) else list(out)
        found = _sparse_loops(outputs, every, start) if every else _one_call(outputs, args, start)
        return found[0] if isinstance(out, Value) else type(out)(found)

    lighter.__name__ = getattr(f, "__name__", "f")
    lighter.__wrapped__ = f  # type: ignore[attr-defined]  # the arguments are those of f
    return lighter


def _one_call(outputs: Sequence[Value], args: Sequence[Any], start: int) -> list[Value]:
    """What was computed since `start`, as one call of a function that is computed again."""
    operands = dict.fromkeys(a for a in args if isinstance(a, Value))
    operands |= dict.fromkeys(_read_before(outputs, start))
    inputs = {v: blank(v) for v in operands}
    body = Graph(tuple(inputs.values()), substitute(outputs, inputs))
    return list(OPS["call"](*inputs, body=Function.of("remat", body), remat=True))


def _read_before(outputs: Sequence[Value], start: int) -> list[Value]:
    """Values from before `start` that later nodes read, or that are outputs."""

    def is_before(v: Value) -> bool:
        if v.node is None:
            return not isinstance(v, (Constant, Weight))
        return v.node.serial < start

    later = [n for n in order(outputs) if n.serial > start]
    read = [v for n in later for v in n.present_inputs]
    return [v for v in (*read, *outputs) if is_before(v)]


def _sparse_loops(outputs: Sequence[Value], every: int, start: int) -> list[Value]:
    """The outputs, with loops since `start` that keep each `every`th state."""
    now: dict[Value, Value] = {}
    for node in (n for n in order(outputs) if n.serial > start):
        inputs = [None if v is None else now.get(v, v) for v in node.inputs]
        attrs = node.attrs | ({"every": every} if node.op.name == "while_loop" else {})
        copy = node.op.node(inputs, attrs, node.source)
        now.update(zip(node.results, copy.results, strict=True))
    return [now.get(v, v) for v in outputs]
