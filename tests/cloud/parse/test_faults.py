"""What Python cannot do with a value stops with the place, a caret and a hint, whatever it is."""

from __future__ import annotations

import copy
import functools
import itertools
import re
from typing import Any

import numpy as np
import pytest

from cloud import modes, ops
from cloud.differentiate import grad, value_and_grad
from cloud.parse import UnsupportedSyntax
from cloud.parse.nearest import nearest
from cloud.transform import Traced
from ir.errors import DTypeError, ShapeError
from tests.cloud.parse.test_syntax import function

# x is a number, v an array of 2; the part that the caret is under stands between « and »
FAULTS = """
«x(3)»
«v[0]()»
l = [x]; «l(1)»
«v.sum()()»
y = «x.foo»()
«len(x)»
«hash(x)»
{«x»: 1}
«{x, 1}»
{«x» for x in v}
{«x»: 1 for x in v}
«set([x])»
«{}.get(x)»
«{1}.add(x)»
d = {}; «d[x]» = 1
{**«x»}
dict(**«x»)
«(lambda a: a)(x, 1)»
«(lambda a: a)(x, a=1)»
«(lambda a, b: a)(x)»
«(lambda *a: a)(*x)»
«a, b, c» = v
«a, b» = [x]
«a, b, *c» = [x]
for «a, b» in [(x, x, x)]: pass
«x + 'a'»
«x + None»
«x + [1]»
«[1] * x»
«v + np.ones(2, np.uint16)»
«(x, x) - (x,)»
«-[x]»
«x < 'a'»
«0 < x < None»
«[x] < 3»
«3 in x»
«x in {1: 2}»
«v[5]»
«v[[0, 7]]»
«v['a']»
«v[np.ones(3) > 0]»
«[x][3]»
«{'a': x}['b']»
«v[5]» = 1
«v[:]» = np.ones(3)
«v[0]» = 'a'
«x += 'a'»
l = [1]; «l += x»
with «x»: pass
raise «x»
«del x.a»
«x.a = 1»
«isinstance(1, x)»
«getattr(x, x)»
«setattr(x, 'a', 1)»
«type(x)»
«f'{[x]}'»
«print([x])»
«max(x, 'a')»
«abs([x])»
«round(x, 'a')»
«pow(x, 2, 3)»
«int(v)»
«float(v)»
list(«map(x, [1])»)
«functools.reduce(x, [1, 2])»
«list(itertools.chain(x, v))»
for i in «range(x)»: pass
«math.sin(x, x)»
«math.log(x, 'a')»
«np.sin(x, out=v)»
«np.sum(v, where=True)»
«np.sum(v, axis=3)»
«v.sum(axis=-2)»
«np.max(v, axis='a')»
«np.cumsum(v, axis=1)»
«np.concatenate([v, v], axis=1)»
«np.concatenate([x, x])»
«np.stack([v, v], axis=3)»
«np.take(v, 9)»
«np.array([x, None])»
«np.full(x, 1)»
«np.pad(v, 'a')»
«np.pad(v, 1, foo=1)»
«np.sin(x, 'cos')»
«np.triu(v, 0, 1)»
«np.moveaxis(v, 3, 0)»
«np.split(v, 4)»
«np.einsum('i,j->k', v, v)»
«v.reshape(x)»
«v.astype(str)»
«ops.add(x, 'a')»
«ops.reduce_sum(v, axes=x)»
while x > 0: «x(3)»
x = 1.0 if x > 0 else «x(3)»
[«i()» for i in v]
(lambda: «x()»)()
"""


def traced(body: str, name: str) -> Any:
    f = function(body.replace("; ", "\n") + "\nreturn x", name, "x, v")
    f.__globals__.update(functools=functools, itertools=itertools, ops=ops, copy=copy)
    return Traced.of(f, (np.float64(2.5), np.array([1.0, 2.0])), {}).result


@pytest.mark.parametrize("body", FAULTS.strip().split("\n"))
def test_an_error_about_a_value_shows_the_place_with_a_caret_and_a_hint(body: str) -> None:
    plain = body.replace("«", "").replace("»", "")
    with pytest.raises(UnsupportedSyntax) as caught:
        traced(plain, f"fault {plain}")
    place, lines = caught.value.place, str(caught.value).split("\n")
    assert lines[0].startswith(f"<snippet fault {plain}>:{place.line}:{place.column}: ")
    assert "Value" not in lines[0]
    assert lines[1].strip() == place.text.strip()
    assert lines[2].index("^") == 4 + place.column - 1
    assert len(lines[3].strip()) > len("hint: ")
    line = body.split("; ")[-1]
    marked = line[line.index("«") + 1 : line.index("»")]
    assert place.text[place.column - 1 :].startswith(marked)


HINTS = {
    "np.kron(v, v)": "np.outer",
    "np.cov(v)": "d @ d.T",
    "np.add.outer(v, v)": "x[:, None]",
    "np.minimum.reduce(v)": "np.min",
    "np.meshgrid(v, v)": "which stretch",
    "np.sum(v, where=v > 0)": "it takes a, axis, dtype, out, keepdims",
    "v.max(initial=3.0)": "it takes a, axis, out, keepdims",
    "np.exp(v, dtype=float)": "of values it takes x",
    "np.einsum(v, [0, 0])": "name each axis once",
}


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("body", HINTS)
def test_a_hint_is_of_the_same_meaning_or_says_what_is_taken(body: str, mode: str) -> None:
    f = function(f"return np.sum({body}) * x", f"hint {body}", "x, v")
    with modes.using(mode=mode), pytest.raises(UnsupportedSyntax) as caught:
        grad(f)(2.5, np.array([1.0, 2.0]))
    assert HINTS[body] in str(caught.value)


def test_no_hint_names_the_function_itself() -> None:
    for module in (np, np.linalg):
        for name in dir(module):
            f = getattr(module, name)
            if callable(f) and not isinstance(f, type):
                assert f"np.{name}" not in re.findall(r"np\.\w+(?=[,; ]|$)", nearest(f)), name


def test_in_eager_mode_it_is_the_same_refusal() -> None:
    def f(x: Any, v: Any) -> Any:
        return np.sum(v.reshape(x))

    with modes.using(mode="eager"), pytest.raises(UnsupportedSyntax, match="want ints"):
        grad(f)(2.5, np.array([1.0, 2.0]))


KNOWN = {
    "a key": ("{}['a']", KeyError),
    "a division": ("1 / 0", ZeroDivisionError),
    "an index": ("x.shape[0]", IndexError),
    "of the user's": ("raise ValueError('mine')", ValueError),
    "in a function on values": ("def g(a):\n    return [1][int(len('ab'))] * a\ng(x)", IndexError),
    "in a function that a function calls": ("list(map(lambda a: {}[1], [x]))", KeyError),
}


@pytest.mark.parametrize("name", KNOWN)
def test_an_error_among_known_things_is_pythons_and_notes_the_place(name: str) -> None:
    body, kind = KNOWN[name]
    with pytest.raises(kind) as caught:
        traced(body, f"known {name}")
    assert not isinstance(caught.value, UnsupportedSyntax)
    (note,) = caught.value.__notes__
    assert note.startswith(f"<snippet known {name}>:")
    assert "^" in note


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("x = getattr(x, 'foo', 3.0) * x", 7.5),
        ("x = x * hasattr(x, 'sum') + hasattr(x, 'foo')", 2.5),
        ("x = x * (2 if 2.5 in v + 1.5 else 3)", 5.0),
        ("x = x * (2 if 3 in v else 3)", 7.5),
        ("x = x * (2 if [x] in [[1], [2.5]] else 3)", 5.0),
        ("x = x * (2 if 'a' in {'a': x} else 3)", 5.0),
        ("x = copy.deepcopy([x, {'a': x}])[1]['a'] * 2", 5.0),
        ("x = sum([0.0] + [x] * int(len(v))) ", 5.0),
        ("x = np.concatenate([v, np.ones(1, np.float32)]).sum()", 4.0),
        ("x = v[np.array([False, True])].sum() + v[[-1]].sum()", 4.0),
    ],
)
def test_what_looks_like_a_fault_and_is_none(body: str, want: float) -> None:
    f = function(body.replace("; ", "\n") + "\nreturn x", f"no fault {body}", "x, v")
    f.__globals__.update(copy=copy)
    assert value_and_grad(f)(2.5, np.array([1.0, 2.0]))[0] == want


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize(
    ("f", "kind", "want"),
    [
        (lambda x: (x.reshape(2, 3) @ x.reshape(2, 3)).sum(), ShapeError, "x.shape says"),
        (lambda x: (x + np.ones(5)).sum(), ShapeError, "x.shape says"),
        (lambda x: ops.add(x, np.ones(6, np.float32)).sum(), DTypeError, "x.dtype says"),
    ],
    ids=["matmul", "add", "types"],
)
def test_sizes_and_types_that_do_not_fit_come_with_a_hint(
    f: Any, kind: type[Exception], want: str, mode: str
) -> None:
    with modes.using(mode=mode), pytest.raises(kind) as caught:
        grad(f)(np.ones(6))
    notes = "\n".join(caught.value.__notes__)
    assert notes.count("hint: ") == 1
    assert want in notes
    assert ("^" in notes) is (mode == "graph")  # Python's own traceback shows the line else
