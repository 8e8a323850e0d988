"""Domains, nests and expressions of formulas, beside what counting and differences say."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from cloud.compile.fuse_elementwise import fuse_elementwise
from ir.errors import AttrError
from ir.formula.domain import (
    Row,
    Rows,
    bounds_in_order,
    contains,
    echelon,
    eliminated,
    is_empty,
    shifted,
    tidy,
    times,
    unit,
)
from ir.formula.evaluate import points, turns
from ir.formula.expression import (
    ONE,
    ZERO,
    Index,
    Load,
    Number,
    apply,
    derivatives,
    summands,
)
from ir.formula.nest import Nest, gathers
from ir.formula.program import SUM, Program, read, words_of
from ir.formula.schedule import piece_of, programs
from ir.graph import Graph, Model, Value
from ir.op import OPS
from ir.operators import operators

SEEDS = range(120)
WIDTH = 5  # of the box that random domains lie in


def random_rows(rng: np.random.Generator, columns: int) -> Rows:
    """A box and some cuts through it."""
    rows = []
    for i in range(columns):
        v = unit(i + 1, columns)
        rows += [shifted(v, int(rng.integers(0, 2))), shifted(tuple(-c for c in v), WIDTH - 1)]
    for _ in range(rng.integers(0, 4)):
        factors = rng.choice([-3, -2, -1, 0, 0, 1, 1, 2, 3], columns)
        rows.append((int(rng.integers(-4, 7)), *map(int, factors)))
    if rng.random() < 0.3:  # an equality
        rows.append(tuple(-c for c in rows[-1]))
    return tuple(rows)


def members(rows: Rows, columns: int) -> list[tuple[int, ...]]:
    box = itertools.product(range(-WIDTH, WIDTH + 1), repeat=columns)
    return [p for p in box if all(at(r, p) >= 0 for r in rows)]


def at(row: Row, point: tuple[int, ...]) -> int:
    return row[0] + sum(c * v for c, v in zip(row[1:], point, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_tidy_rows_and_projections_keep_the_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 4))
    rows = random_rows(rng, columns)
    wanted = members(rows, columns)
    left = tidy(rows)
    assert wanted == ([] if left is None else members(left, columns))
    if is_empty(rows):
        assert wanted == []
    form = (int(rng.integers(-3, 4)), *map(int, rng.integers(-2, 3, columns)))
    if contains(rows, form):
        assert all(at(form, p) >= 0 for p in wanted)
    if left is not None:
        shadow = eliminated(left, 1)
        kept = [] if shadow is None else members(shadow, columns)
        assert {p[1:] for p in wanted} <= {p[1:] for p in kept}


@pytest.mark.parametrize("seed", SEEDS)
def test_loops_meet_each_point_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 4))
    rows = random_rows(rng, columns)
    wanted = members(rows, columns)
    found = bounds_in_order(rows, 1, columns)
    if found is None:
        assert wanted == []
        return
    guards, loops = found
    assert guards == ()
    assert list(walked(loops, columns)) == wanted


def walked(loops: list[Rows], columns: int) -> Iterator[tuple[int, ...]]:
    """The points that loops between these bounds meet, in their order."""

    def inside(head: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        column = len(head) + 1
        if column > columns:
            yield head
            return
        padded = (*head, *(0,) * (columns - len(head)))
        low = [-(at(r, padded) // r[column]) for r in loops[column - 1] if r[column] > 0]
        high = [at(r, padded) // -r[column] for r in loops[column - 1] if r[column] < 0]
        for v in range(max(low), min(high) + 1):
            yield from inside((*head, v))

    return inside(())


@pytest.mark.parametrize("seed", SEEDS)
def test_echelon_form_is_reached_by_whole_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes, columns = (int(n) for n in rng.integers(1, 4, 2))
    matrix = rng.integers(-3, 4, (axes, columns))
    u, pivots = echelon(matrix.tolist(), columns)
    assert abs(round(float(np.linalg.det(np.array(u))))) == 1
    form = matrix @ np.array(u)
    assert np.linalg.matrix_rank(matrix) == len(pivots)
    for j, i in enumerate(pivots):
        assert form[i, j] > 0
        assert not form[i, j + 1 :].any()
        assert not form[:i, j].any()
        assert all(0 <= c < form[i, j] for c in form[i, :j])
    assert times((7, *matrix[0].tolist()), 1, u) == (7, *form[0].tolist())


@pytest.mark.parametrize("seed", SEEDS)
def test_gathers_do_what_the_scatter_did(seed: int) -> None:
    """Each point of a nest, with its place and the element that it reads, once among the gathers;
    and no place of a gather twice without a sum."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 4))
    rows = random_rows(rng, columns)

    def forms(n: int) -> Rows:
        return tuple(
            (int(rng.integers(-2, 3)), *map(int, rng.choice([-2, -1, 0, 1, 2, 3], columns)))
            for _ in range(n)
        )

    nest = Nest(0, columns, rows, forms(2), Load(0, forms(3)))
    wanted = Counter(seen(nest, p) for p in members(rows, columns))
    found: Counter[object] = Counter()
    for part in programs(SUM, 0, ((9,), (9,)), [nest]):
        again = read(words_of(part), 1)
        assert again == part
        for n in again.nests():
            found.update(seen(n, p) for p in walked_nest(n))
        assert points(part, ()) <= turns(part, ())
    assert found == wanted
    for g in gathers(nest):
        outer = [r[1 + g.parallel :] for r in g.out]
        assert not any(map(any, outer))


def seen(nest: Nest, p: tuple[int, ...]) -> object:
    assert isinstance(nest.body, Load)
    return tuple(at(r, p) for r in nest.out), tuple(at(r, p) for r in nest.body.rows)


def walked_nest(nest: Nest) -> Iterator[tuple[int, ...]]:
    found = bounds_in_order(nest.rows, 1, nest.loops)
    return iter(()) if found is None else walked(found[1], nest.loops)


def test_a_gather_at_a_stride_runs_by_residue_classes() -> None:
    """x[3 i + k], k < 2: its adjoint has a nest for each of two classes, without sums."""
    i, k = unit(1, 2), unit(2, 2)
    rows = (i, shifted(tuple(-c for c in i), 4), k, shifted(tuple(-c for c in k), 1))
    nest = Nest(0, 2, rows, ((0, 3, 1),), Load(0, (i,)))
    found = list(gathers(nest))
    assert [(g.loops, g.parallel) for g in found] == [(1, 1), (1, 1)]
    assert sorted(g.out[0] for g in found) == [(0, 3), (1, 3)]
    pieces = tuple(p for g in found if (p := piece_of(g)) is not None)
    assert points(Program(SUM, 0, ((14,),), pieces), ()) == 10


def test_a_build_for_a_model_has_the_operators_of_its_programs() -> None:
    x, w = Value((9,), name="x"), Value((3,), name="w")
    rows = (unit(1, 1), (2, -1))
    body = apply("mul", Load(0, ((2, 1),)), apply("exp", Load(1, ((0, 1),))))
    (program,) = programs(SUM, 0, (), [Nest(0, 1, rows, (), body)])
    node = OPS["formula"].node([x, w], {"program": words_of(program)})
    plain = fuse_elementwise(Graph((x,), (OPS["tanh"](OPS["abs"](x)),)))
    model = Model({"infer": Graph((x, w), node.results), "other": plain})
    assert operators(model) == {"formula", "mul", "exp", "fused_elementwise", "tanh", "abs"}


def test_expressions_simplify() -> None:
    x, y = Load(0, ((0, 1),)), Load(1, ((0, 1),))
    assert apply("mul", ZERO, x) == ZERO
    assert apply("add", x, ZERO) is x
    assert apply("sub", ZERO, apply("neg", x)) is x
    assert apply("mul", Number(2.0), apply("mul", Number(3.0), x)) == apply("mul", Number(6.0), x)
    assert apply("where", Number(0.0, True), x, y) is y
    assert apply("exp", ZERO) == ONE
    assert apply("pow", x, Number(2.0)) == apply("mul", x, x)
    product = apply("mul", apply("sub", x, y), apply("add", x, ONE))
    assert len(summands(product)) == 4
    with pytest.raises(AttrError, match="operand 0 of where, want a truth value"):
        apply("where", x, x, y)


def test_derivatives_follow_the_rules_of_the_table() -> None:
    x, y = Load(0, ((0, 1),)), Load(1, ((0, 1),))
    e = apply("mul", apply("tanh", x), apply("add", y, Index((0, 1))))
    found = derivatives(e)
    assert found.keys() == {x, y}
    assert found[y] == apply("tanh", x)
    assert derivatives(apply("sign", x)) == {}
    assert derivatives(Index((0, 1))) == {}
