"""Many elementwise operators as one: a program of their numbers that a kernel runs tile by tile.

A program is a list of words: how many registers, constants and results there are; the constants,
bits of float32; the register that holds each result; then the instructions, seven words each:

    operator, register that it writes, three operands, two attributes

An operand is the number of an input, then of a constant, then of a register; -1: there is none.
Attributes are the bits of a float32, or the number of a choice. A register holds floats or truth
values; the register of a result is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ir.dtype import DType
from ir.errors import AttrError, DTypeError
from ir.graph import Constant, Graph, Node, Value
from ir.op import ANY_RESULTS, OPS, NoGrad, Op, Words, bools, case, op
from ir.ops.compare import greater, logical_and, where
from ir.ops.elementwise import clip, exp, sigmoid, tanh
from ir.ops.rules import broadcast, unbroadcast
from ir.ops.shaping import cast

NO_PROGRAM = Words()
INSTRUCTION = 7
MOST_INPUTS, MOST_CONSTANTS, MOST_REGISTERS, MOST_RESULTS, MOST_INSTRUCTIONS = 16, 16, 24, 8, 64

_FLOAT, _TRUTH = DType.f32, DType.bool
_LOGIC = ("logical_not", "logical_and", "logical_or")


def operand_types(op: Op) -> tuple[tuple[DType, ...], DType] | None:
    """The types of an operator's operands and of its result in a program; None: it is in none."""
    if op.name == "where":
        return (_TRUTH, _FLOAT, _FLOAT), _FLOAT
    if op.name == "cast":  # truth values to 0 and 1
        return (_TRUTH,), _FLOAT
    of = _TRUTH if op.name in _LOGIC else _FLOAT
    if op.family == "elementwise" and not op.view:
        return (of,) * len(op.inputs), _FLOAT
    return ((of,) * len(op.inputs), _TRUTH) if op.family == "compare" else None


def is_fusable(node: Node) -> bool:
    """Whether a node can be an instruction: its operator, its types, and what it casts to."""
    types = operand_types(node.op)
    if types is None or [v.dtype for v in node.present_inputs] != list(types[0]):
        return False
    return node.results[0].dtype is types[1]


@dataclass(frozen=True)
class Instruction:
    op: Op
    to: int  # a register
    operands: tuple[int, ...]
    attrs: dict[str, Any]


@dataclass(frozen=True)
class Program:
    """A program, read."""

    registers: int
    constants: tuple[np.float32, ...]
    results: tuple[int, ...]
    instructions: tuple[Instruction, ...]

    def run(self, inputs: Sequence[Any], constant: Callable[[Any], Any]) -> list[Any]:
        """What each instruction gives when its operator is called on arrays or on values."""
        known: dict[int, Any] = dict(enumerate((*inputs, *map(constant, self.constants))))
        first = len(known)
        made = []
        for i in self.instructions:
            made.append(i.op(*(known[k] for k in i.operands), **i.attrs))
            known[first + i.to] = made[-1]
        return made

    def types(self) -> list[DType]:
        """The element type of each result."""
        written = {i.to: i.op for i in self.instructions}
        return [operand_types(written[r])[1] for r in self.results]  # type: ignore[index]


def read(words: Sequence[int], inputs: int) -> Program:
    """The program of a node with so many inputs. Raises AttrError."""
    words = list(words)
    if len(words) < 3 or min(words[:3]) < 0:
        raise AttrError(f"fused_elementwise: a program of {len(words)} words, want at least 3")
    registers, constants, results = words[:3]
    first = 3 + constants + results
    count, rest = divmod(len(words) - first, INSTRUCTION)
    limits = zip(
        (inputs, constants, registers, results, count),
        (MOST_INPUTS, MOST_CONSTANTS, MOST_REGISTERS, MOST_RESULTS, MOST_INSTRUCTIONS),
        strict=True,
    )
    if rest or not results or count < 1 or any(have > most for have, most in limits):
        raise AttrError(f"fused_elementwise: no program of {len(words)} words on {inputs} inputs")
    rows = [words[first + INSTRUCTION * i :][:INSTRUCTION] for i in range(count)]
    return Program(
        registers,
        tuple(np.array(words[3 : 3 + constants], np.int32).view(np.float32)),
        tuple(words[3 + constants : first]),
        tuple(map(_instruction, rows)),
    )


def _instruction(row: Sequence[int]) -> Instruction:
    operator = next((o for o in OPS.values() if o.code == row[0]), None)
    types = operand_types(operator) if operator else None
    if operator is None or types is None:
        raise AttrError(f"fused_elementwise: no operator {row[0]} in a program")
    attrs = {}
    for (name, default), word in zip(operator.attrs.items(), row[5:], strict=False):
        choices = list(type(default)) if isinstance(default, Enum) else []
        attrs[name] = choices[word] if choices else float(np.int32(word).view(np.float32))
    return Instruction(operator, row[1], tuple(row[2 : 2 + len(types[0])]), attrs)


def assemble(inputs: Sequence[Value], nodes: Iterable[Node], outputs: Sequence[Value]) -> Words:
    """The program that computes `outputs` from `inputs` by `nodes`, in an order of computation.

    Constants of one element need not be inputs. Registers are used again, but for those of outputs.
    Raises AttrError where the program would be too long.
    """
    nodes = tuple(nodes)
    numbers = {v: i for i, v in enumerate(inputs)}
    constants: dict[int, int] = {}
    last = {v: i for i, n in enumerate(nodes) for v in n.present_inputs}
    for node in nodes:
        for v in node.present_inputs:
            if isinstance(v, Constant) and v not in numbers:
                bits = int(np.float32(v.data.item()).view(np.int32))
                numbers[v] = len(inputs) + constants.setdefault(bits, len(constants))
    first = len(inputs) + len(constants)
    free: dict[DType, list[int]] = {_FLOAT: [], _TRUTH: []}
    registers = 0
    rows: list[int] = []
    for i, node in enumerate(nodes):
        (y,) = node.results
        operands = [numbers[v] for v in node.present_inputs]
        for v in dict.fromkeys(node.present_inputs):
            if last[v] == i and numbers[v] >= first and v not in outputs:
                free[v.dtype].append(numbers[v] - first)
        if free[y.dtype] and y not in outputs:
            register = free[y.dtype].pop()
        else:
            register, registers = registers, registers + 1
        numbers[y] = first + register
        rows += [node.op.code, register, *_padded(operands, 3, -1), *_attr_words(node)]
    results = [numbers[v] - first for v in outputs]
    words = Words((registers, len(constants), len(results), *constants, *results, *rows))
    read(words, len(inputs))
    return words


def _padded(words: Sequence[int], count: int, fill: int) -> list[int]:
    return [*words, *(fill,) * (count - len(words))]


def _attr_words(node: Node) -> list[int]:
    words = []
    for value in node.attrs.values():
        if isinstance(value, Enum):
            words.append(list(type(value)).index(value))
        else:
            words.append(int(np.float32(value).view(np.int32)))
    return _padded(words, 2, 0)


def _shape(*shapes, program):
    return [broadcast(*shapes)] * len(read(program, len(shapes)).results)


def _dtype(*dtypes, program):
    if not set(dtypes) <= {_FLOAT, _TRUTH}:
        raise DTypeError(f"fused_elementwise: inputs of {list(dtypes)}; want f32 and bool")
    return read(program, len(dtypes)).types()


def expand(inputs: Sequence[Value], program: Sequence[int]) -> list[Value]:
    """The instructions of a program as nodes: the value of each."""
    read_ = read(program, len(inputs))
    dtype = next((v.dtype for v in inputs if v.dtype.is_float), _FLOAT)
    return read_.run(inputs, lambda c: Constant(c, dtype=dtype))


def _grad(g, y, *xs, program):
    """In reverse through the instructions, each by the rule of its own operator."""
    steps = expand(xs, program)
    last = {i.to: v for i, v in zip(read(program, len(xs)).instructions, steps, strict=True)}
    bar: dict[Value, Value] = {}

    def add(v: Value, gv: Value) -> None:
        bar[v] = bar[v] + gv if v in bar else gv

    for register, gy in zip(read(program, len(xs)).results, g, strict=True):
        if gy is not None:
            add(last[register], unbroadcast(gy, last[register]))
    for v in reversed(steps):
        node = v.node
        if v not in bar or isinstance(node.op.grad, NoGrad):
            continue
        for x, gx in zip(
            node.inputs, node.op.grad(bar[v], v, *node.inputs, **node.attrs), strict=True
        ):
            if gx is not None and x.dtype.is_float and not isinstance(x, Constant):
                add(x, gx)
    return [bar.pop(x, None) for x in xs]  # one that stands twice gets its gradient once


def _sample(fn, *specs, **options):
    """A case of the program that `fn` traces to."""
    shapes = [s if isinstance(s, tuple) else s.shape for s in specs]
    values = [
        Value(s, _FLOAT if isinstance(t, tuple) else t.dtype)
        for s, t in zip(shapes, specs, strict=True)
    ]
    graph = Graph.trace(fn, *values)
    return case(*specs, program=assemble(graph.inputs, graph.nodes, graph.outputs), **options)


def _step(x, y):
    s = sigmoid(x * y)
    return s * (1.0 - s), tanh(x) + s


def _masked(x, g, keep):
    chosen = logical_and(greater(x, 0.0), keep)
    return where(chosen, g, 0.0) * cast(keep, to="f32"), chosen


@op(
    code=340,
    results=ANY_RESULTS,
    shape=_shape,
    dtype=_dtype,
    samples=lambda: [
        _sample(lambda x: exp(-x) * 0.5 + 1.0, (3, 4)),
        _sample(lambda x: exp(x * 0.5), (0, 3)),
        _sample(lambda x: clip(x, low=-1.0, high=0.5) - x * x, ()),
        _sample(_step, (2, 700), (700,)),
        _sample(_step, (2, 1, 5), (3, 1)),
        _sample(_masked, (5, 3), (5, 1), bools(3)),
    ],
    kernels=("any",),
    grad=_grad,
)
def fused_elementwise(*xs, program=NO_PROGRAM):
    """ys = what the program's operators make of xs, stretched to one shape by the numpy rule

    xs and ys are floats and truth values.
    """
    shape = np.broadcast_shapes(*(np.shape(x) for x in xs))
    dtype = next((x.dtype for x in xs if x.dtype.kind == "f"), np.float32)
    parsed = read(program, len(xs))
    made = parsed.run(xs, lambda c: c.astype(dtype))
    last: Mapping[int, Any] = dict(zip((i.to for i in parsed.instructions), made, strict=True))
    return tuple(np.broadcast_to(last[r], shape).copy() for r in parsed.results)
