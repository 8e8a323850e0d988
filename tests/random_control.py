"""Random graphs with loops, branches and recursion inside of each other, on small vectors."""

from __future__ import annotations

import numpy as np

from cloud import ops
from ir.dtype import DType
from ir.graph import Constant, Function, Graph, Value, Weight

SHAPE = (3,)
INT, FLOATS = ((), DType.i32), (SHAPE, DType.f32)


def random_control_graph(seed: int, *, statements: int = 4, depth: int = 2) -> Graph:
    """A graph of two float vectors that is smooth but where a condition turns.

    Its statements are arithmetic, loops with fixed and with data-dependent numbers of turns,
    branches and recursive calls, nested `depth` deep; bodies read weights and constants.
    """
    writer = _Writer(np.random.default_rng(seed))
    inputs = tuple(Value(SHAPE, name=name) for name in ("x", "y"))
    made = writer.block(list(inputs), statements, depth)
    return Graph(inputs, tuple(made[-2:]))


class _Writer:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.weights = [
            Weight(rng.uniform(0.5, 1.5, SHAPE).astype(np.float32), name="scale"),
            Weight(rng.uniform(-0.5, 0.5, (3, 3)).astype(np.float32), name="mix"),
        ]

    def block(self, values: list[Value], statements: int, depth: int) -> list[Value]:
        """The values and what some statements make of them."""
        made = list(values)
        for _ in range(statements):
            kind = self.rng.integers(6) if depth else 0
            if kind < 3:
                made.append(self._arithmetic(made))
            elif kind == 3:
                made += self._loop(made, depth - 1)
            elif kind == 4:
                made += self._branch(made, depth - 1)
            else:
                made += self._recursion(made, depth - 1)
        return made

    def _arithmetic(self, values: list[Value]) -> Value:
        a, b = self._some(values, 2)
        scale, mix = self.weights
        match self.rng.integers(6):
            case 0:
                return ops.sin(a) * b
            case 1:
                return ops.tanh(a + b * scale)
            case 2:
                row = ops.reshape(a, shape=(1, 3))
                return ops.tanh(ops.reshape(ops.matmul(row, mix), shape=SHAPE)) + b
            case 3:
                return a / (b * b + Constant(np.float32(2)))
            case 4:
                return ops.sigmoid(a - b) * Constant(self._number(0.5, 1.5))
        return ops.tanh(ops.reduce_sum(a, axes=(0,)) * b)

    def _loop(self, values: list[Value], depth: int) -> list[Value]:
        """Two values changed for up to four turns; a third one is the same at each."""
        a, b, fixed = self._some(values, 3)
        i = Value((), DType.i32, name="i")
        state = [Value(SHAPE) for _ in range(3)]
        inputs = (i, *state)
        goes_on = ops.less(i, _int(self.rng.integers(5)))
        if self.rng.random() < 0.5:
            goes_on = ops.logical_and(goes_on, self._test(state[0]))
        made = self.block(state, 2, depth)
        after = [ops.tanh(made[-1]), ops.tanh(made[-2] + state[1])]
        every = int(self.rng.choice([1, 1, 2, 3]))
        results = ops.while_loop(
            _int(0),
            a,
            b,
            fixed,
            condition=Graph(inputs, (goes_on,)),
            body=Graph(inputs, (i + _int(1), *after, state[2])),
            every=every,
        )
        return list(results[1:3])

    def _branch(self, values: list[Value], depth: int) -> list[Value]:
        operands = self._some(values, 2)
        then, otherwise = (self._branch_graph(n, depth) for n in (2, 1))
        return list(ops.cond(self._test(values[-1]), *operands, then=then, otherwise=otherwise))

    def _branch_graph(self, statements: int, depth: int) -> Graph:
        inputs = [Value(SHAPE) for _ in range(2)]
        return Graph(tuple(inputs), tuple(self.block(inputs, statements, depth)[-2:]))

    def _recursion(self, values: list[Value], depth: int) -> list[Value]:
        """f(n, a, b): a block, f(n - 1) of what it gives, once or twice, and another block."""
        f = Function("f", [INT, FLOATS, FLOATS], [FLOATS])
        n, a, b = Value((), DType.i32, name="n"), Value(SHAPE, name="a"), Value(SHAPE, name="b")
        below = n - _int(1)
        before = self.block([a, b], 1, depth)
        (inner,) = ops.call(below, ops.tanh(before[-1]), b, body=f)
        if self.rng.random() < 0.4:
            (other,) = ops.call(below, b, inner, body=f)
            inner = inner - other
        after = self.block([a, inner], 1, 0)[-1]
        inputs = (n, a, b)
        f.graph = Graph(
            inputs,
            ops.cond(
                ops.greater(n, _int(0)),
                *inputs,
                then=Graph(inputs, (after,)),
                otherwise=Graph(inputs, (ops.sin(a) * b,)),
            ),
        )
        remat = bool(self.rng.random() < 0.3)
        turns = _int(self.rng.integers(4))
        return list(ops.call(turns, *self._some(values, 2), body=f, remat=remat))

    def _test(self, v: Value) -> Value:
        total = ops.reduce_sum(v, axes=(0,))
        return ops.less(total, Constant(self._number(-1, 2)))

    def _some(self, values: list[Value], n: int) -> list[Value]:
        return [values[i] for i in self.rng.integers(len(values), size=n)]

    def _number(self, low: float, high: float) -> np.float32:
        return np.float32(self.rng.uniform(low, high))


def _int(n: object) -> Constant:
    return Constant(n, dtype=DType.i32)
