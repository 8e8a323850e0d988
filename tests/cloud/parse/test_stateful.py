"""Objects with state of their own give Python's numbers although traces repeat, or are refused."""

from __future__ import annotations

import array
import heapq
import itertools
import operator
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import modes
from cloud.jit import jit
from cloud.parse import UnsupportedSyntax


def generator(x: Any, n: int) -> Any:
    g, s = np.random.default_rng(3), 0.0
    for _ in range(n):
        s = s + x * g.normal()
    return s


def two_of_one_state(x: Any, n: int) -> Any:
    bits = np.random.PCG64(1)
    g, h, s = np.random.Generator(bits), np.random.Generator(bits), 0.0
    for _ in range(n):
        s = s + x * g.normal() - x * h.normal()
    return s


def of_python(x: Any, n: int) -> Any:
    r, s = random.Random(1), 0.0
    for _ in range(n):
        s = s + x * r.gauss(0, 1)
    return s


def of_the_modules(x: Any, n: int) -> Any:
    random.seed(2)
    np.random.seed(4)
    s = 0.0
    for _ in range(n):
        s = s + x * random.random() + x * np.random.normal()
    return s


def queue(x: Any, n: int) -> Any:
    q, s = deque(range(n)), 0.0
    for _ in range(n):
        s = s + x * q.popleft()
    return s + x * len(q)


def queue_of_values(x: Any, n: int) -> Any:
    q, s = deque([1.0, 2.0]), 0.0
    for _ in range(n):
        q.append(q.popleft() + x)
        s = s + q[0] * q[1]
    return s


def counts(x: Any, n: int) -> Any:
    c, s = Counter(), 0.0
    for i in range(n):
        c.update([i % 3])
        s = s + x * c[0]
    return s


def arrays_of_bytes(x: Any, n: int) -> Any:
    b, a, s = bytearray(), array.array("d"), 0.0
    for _ in range(n):
        b.append(1)
        a.append(2.0)
        s = s + x * len(b) + x * len(a)
    return s


def in_place(x: Any, n: int) -> Any:
    a, s = np.array([3.0, 1.0, 2.0]), 0.0
    for _ in range(n):
        s = s + x * a[0]
        a.sort()
        np.add(a, 1, out=a)
        np.add.at(a, [0], 1)
    return s


def heap(x: Any, n: int) -> Any:
    h: list[int] = []
    s = 0.0
    for i in range(n):
        heapq.heappush(h, -i)
        s = s + x * h[0] + x * len(h)
    return s


def through_views(x: Any, n: int) -> Any:
    a, s = np.array([3.0, 1.0, 2.0]), 0.0
    b = bytearray(1)
    m = memoryview(b)
    for i in range(n):
        s = s + x * a[0] + x * b[0]
        a[::-1][:2].sort()
        a.reshape(1, 3).flat[i % 3] = i
        m[0] = (m[0] + 1) % 256
    return s


def by_other_names(x: Any, n: int) -> Any:
    y: list[int] = []
    d = dict.fromkeys(range(n), 0)
    b, q, s = bytearray(b"a"), deque([1]), 0.0
    for i in range(n):
        list.append(y, i)
        operator.setitem(y, 0, y[0] + 1)
        d.__delitem__(i)
        b += b"b"
        q += [i]
        s = s + x * y[0] + x * len(y) + x * len(d) + x * len(b) + x * len(q)
    return s


def out_by_place(x: Any, n: int) -> Any:
    a, b, s = np.zeros(3), np.zeros(()), 0.0
    for _ in range(n):
        np.add(a, 1, a)
        np.cumsum(a, 0, None, a)
        np.dot(a, np.ones(3), b)
        np.multiply(a, 0.5, a)
        s = s + x * a[2] + x * float(b)
    return s


def without_a_state(x: Any, n: int) -> Any:
    r, s = random.SystemRandom(), 0.0
    for _ in range(n):
        s = s + x * (r.random() < 1)
    return s


def an_iterator_twice(x: Any, n: int) -> Any:
    it, s = iter([0.5 * i for i in range(2 * n)]), 0.0
    for c in it:
        s = s + x * c * next(it)
    return s


def the_rest_of_an_iterator(x: Any, n: int) -> Any:
    it, s = iter([0.5 * i for i in range(3 * n)]), 0.0
    for i, c in enumerate(it):
        s = s + x * c
        if i > n:
            break
    return s + x * next(it) + x * len(list(it))


def made_inside(x: Any, n: int) -> Any:
    s = 0.0
    for i in range(n):
        g, it = np.random.default_rng(i), iter([1.0, 2.0])
        for j, c in enumerate(it):
            s = s + c * x * g.normal() * j
    return s


def straight(x: Any, n: int) -> Any:
    g, it = np.random.default_rng(n), itertools.count(1)
    return x * g.normal() + x * next(it) + x * g.normal() * next(it)


EXACT = [
    generator, two_of_one_state, of_python, of_the_modules, queue, queue_of_values, counts,
    arrays_of_bytes, in_place, heap, through_views, by_other_names, out_by_place, without_a_state,
    an_iterator_twice, the_rest_of_an_iterator, made_inside, straight,
]  # fmt: skip


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("f", EXACT, ids=lambda f: f.__name__)
def test_a_loop_leaves_the_state_as_python_does(f: Callable[..., Any], n: int, mode: str) -> None:
    if f is made_inside:
        n = min(n, 20)
    with modes.using(mode=mode):
        found = jit(f)(np.float64(1.5), n)
    assert float(found) == pytest.approx(float(f(1.5, n)), rel=1e-12)


def drawn_while(x: Any) -> Any:
    g = np.random.default_rng(3)
    while x < 10:
        x = x + abs(g.normal())
    return x


def drawn_if(x: Any) -> Any:
    g = np.random.default_rng(3)
    if x > 1:
        x = x * g.normal()
    return x * g.normal()


def counted_on(x: Any) -> Any:
    it, s = itertools.count(1), 0.0
    for _ in range(5):
        s = s + x * next(it)
    return s


def longer(x: Any) -> Any:
    q = deque([1.0])
    if x > 1:
        q.append(2.0)
    return x * len(q)


def grown_set(x: Any) -> Any:
    found = {1}
    if x > 1:
        found.add(2)
    return x * len(found)


def sorted_view(x: Any) -> Any:
    a = np.array([2.0, 1.0])
    if x > 1:
        a[:].sort()
    return x * a[0]


def view_made_inside(x: Any) -> Any:
    b = bytearray(1)
    if x > 1:
        m = memoryview(b)
        m[0] = 5
    return x * b[0]


def generator_made_inside(x: Any) -> Any:
    bits = np.random.PCG64(1)
    if x > 1:
        x = x * np.random.Generator(bits).normal()
    return x * np.random.Generator(bits).normal()


def spawned(x: Any) -> Any:
    g, s = np.random.default_rng(1), 0.0
    for _ in range(5):
        s = s + x * g.spawn(1)[0].normal()
    return s


def looked_for(x: Any) -> Any:
    it, s = iter(range(50)), 0.0
    for i in range(5):
        s = s + x * (3 * i in it)
    return s


@pytest.mark.parametrize(
    "f",
    [
        drawn_while,
        drawn_if,
        counted_on,
        longer,
        grown_set,
        sorted_view,
        view_made_inside,
        generator_made_inside,
        spawned,
        looked_for,
    ],
    ids=lambda f: f.__name__,
)
def test_what_no_graph_can_carry_is_refused_with_what_to_write(f: Callable[..., Any]) -> None:
    refusal = pytest.raises(UnsupportedSyntax, match=r"noise = g.normal\(size=n\)")
    with modes.using(mode="graph"), refusal as caught:
        jit(f)(np.float64(0.5))
    with modes.using(mode="eager"):
        assert float(jit(f)(np.float64(0.5))) == pytest.approx(f(0.5), rel=1e-12)
    assert caught.value.place.filename == __file__


def test_an_array_that_a_branch_makes_may_change_in_it() -> None:
    def f(x: Any) -> Any:
        if x > 1:
            a = np.array([2.0, 1.0]) * 3
            b = a[[1, 0, 1]]
            a.sort()
            b.sort()
            x = x * a[0] * b[2]
        return x

    assert [float(jit(f)(np.float64(x))) for x in (0.5, 2.0)] == [f(0.5), f(2.0)]


def test_an_error_behind_an_iterator_that_moved_stays_the_users() -> None:
    def f(x: Any, it: Any) -> Any:
        next(it)
        raise ValueError(f"item {next(it)}")

    with pytest.raises(ValueError, match="item 2"):
        jit(f)(np.float64(1.0), iter([1, 2]))


def test_what_cannot_be_set_back_and_has_no_known_state_is_refused() -> None:
    class Slotted:
        __slots__ = ("n",)

    def f(x: Any, o: Any) -> Any:
        o.n = 1
        return x * o.n

    refusal = pytest.raises(UnsupportedSyntax, match="a Slotted changes, which cannot be set back")
    with modes.using(mode="graph"), refusal:
        jit(f)(np.float64(1.0), Slotted())
