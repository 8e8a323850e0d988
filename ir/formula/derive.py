"""Derivatives of programs: the adjoint of every gather, turned into gathers again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ir.formula.domain import Rows
from ir.formula.expression import ONE, ZERO, Index, Load, apply, derivatives
from ir.formula.nest import Nest
from ir.formula.program import SUM, Program, read, words_of
from ir.formula.schedule import programs
from ir.op import Words


@dataclass(frozen=True)
class Part:
    """A program, and which of the inputs at hand are its inputs."""

    program: Words
    inputs: tuple[int, ...]


@lru_cache(maxsize=1024)
def adjoint(words: Words, inputs: int, wanted: int, shape: Rows) -> tuple[Part, ...]:
    """Programs whose sum is the gradient by input `wanted`, of this shape.

    Inputs are those of the formula, then the cotangent of its result. Where it is a maximum or a
    minimum: then the result, the cotangent, and `ties` of both. There is no program where the
    gradient is zero.
    """
    program = read(words, inputs)
    nests = list(_adjoint_nests(program, inputs, wanted))
    return tuple(parts(SUM, program.sizes, shape, nests)) if nests else ()


@lru_cache(maxsize=1024)
def ties(words: Words, inputs: int) -> tuple[Part, ...]:
    """Programs whose sum counts, for each element, how many values equal the extremum.

    Inputs are those of the formula, then its result.
    """
    program = read(words, inputs)
    nests = [_at_extremum(n, inputs) for n in program.nests()]
    return tuple(parts(SUM, program.sizes, program.shape, nests))


def parts(kind: int, sizes: int, shape: Rows, nests: Sequence[Nest]) -> Iterator[Part]:
    """Programs that together compute the nests, each with the inputs that it reads."""
    for program in programs(kind, sizes, shape, nests):
        loads = (x for p in program.pieces for x in p.loads if isinstance(x, Load))
        read_ = sorted({x.tensor for x in loads}) or [0]
        number = {tensor: i for i, tensor in enumerate(read_)}
        yield Part(words_of(_renumbered(program, number)), tuple(read_))


def _renumbered(program: Program, number: dict[int, int]) -> Program:
    def load(x: Index | Load) -> Index | Load:
        return replace(x, tensor=number[x.tensor]) if isinstance(x, Load) else x

    pieces = (replace(p, loads=tuple(map(load, p.loads))) for p in program.pieces)
    return replace(program, pieces=tuple(pieces))


def _adjoint_nests(program: Program, inputs: int, wanted: int) -> Iterator[Nest]:
    for nest in program.nests():
        if program.kind == SUM:
            g = Load(inputs, nest.out)
            chosen = None
        else:
            y, g = Load(inputs, nest.out), Load(inputs + 1, nest.out)
            count = Load(inputs + 2, nest.out)
            chosen = apply("equal", nest.body, y)
        for load, slope in derivatives(nest.body).items():
            if load.tensor != wanted or slope == ZERO:
                continue
            share = apply("mul", g, slope)
            if chosen is not None:
                share = apply("where", chosen, apply("div", share, count), ZERO)
            yield replace(nest, out=load.rows, body=share, parallel=0)


def _at_extremum(nest: Nest, inputs: int) -> Nest:
    y = Load(inputs, nest.out)
    return replace(nest, body=apply("where", apply("equal", nest.body, y), ONE, ZERO))
