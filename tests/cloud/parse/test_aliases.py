"""An array that is changed in place and held elsewhere too, or seen through a view, is refused in
both modes; what no one else sees changes as numpy has it."""

from __future__ import annotations

import copy
import linecache
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cloud import grad, jit, modes, value_and_grad
from cloud.parse import UnsupportedSyntax

X = np.array([0.3, -0.7, 1.2, 0.9])


class Box:
    def __init__(self, v: Any) -> None:
        self.v = v


@pytest.fixture(autouse=True, params=modes.MODES)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    with modes.using(mode=request.param):
        yield


def function(body: str, name: str) -> Any:
    lines = ["def f(x):", *("    " + line for line in body.split("\n"))]
    text, filename = "\n".join(lines) + "\n", f"<alias {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"np": np, "Box": Box, "copy": copy}
    exec(compile(text, filename, "exec"), scope)
    return scope["f"]


# what is changed under one name, and the other one that is read
SEEN = {
    "another name": ("y = x * 1.0\nz = y\nz += 1.0\nreturn (y * x).sum()", "y of f"),
    "items of a list": ("y = x * 2\nl = [y, y]\nl[0][1] = 7.0\nreturn l[1].sum()", "l of f"),
    "an item and a name": ("y = x * 2\nl = [y]\nl[0] += 1\nreturn y.sum()", "y of f"),
    "entries of a dict": (
        "d = {'a': x * 2}\nd['b'] = d['a']\nd['a'][1] = 7.0\nreturn d['b'].sum()",
        "d of f",
    ),
    "attributes of two objects": (
        "p = Box(x * 2)\nq = Box(p.v)\np.v[1] = 7.0\nreturn q.v.sum()",
        "q of f",
    ),
    "an attribute that grows": (
        "p = Box(x * 2)\nq = Box(p.v)\np.v *= 3\nreturn q.v.sum()",
        "q of f",
    ),
    "a default argument": (
        "b = x * 1.0\ndef g(z, a=b):\n    a[0] += 1.0\n    return a * z\n"
        "del b\nreturn (g(x) + g(x)).sum()",
        "g of f|a default argument of g",
    ),
    "of the caller": ("def g(v): v[0] = 0.0\ny = x * 2\ng(y)\nreturn y.sum()", "y of f"),
    "of a closure": ("y = x * 1.0\nz = y\ng = lambda: z.sum()\ny[0] = 4.0\nreturn g()", "z of f"),
    "a slice": ("y = x * 1.0\nz = y[1:3]\ny[1] = 5.0\nreturn z.sum()", "z of f"),
    "a row": ("m = np.outer(x, x)\nr = m[1]\nr[0] = 5.0\nreturn m.sum()", "m of f"),
    "a shape": ("y = x * 1.0\nz = y.reshape(2, 2)\nz[0, 0] = 3.0\nreturn y.sum()", "y of f"),
    "a transpose": ("m = np.outer(x, X)\nt = m.T\nm[0, 1] = 9.0\nreturn t.sum()", "t of f"),
    "a flip": ("y = x * 1.0\nz = np.flip(y)\nz[0] = 9.0\nreturn y.sum()", "y of f"),
    "a part": ("y = x * 1.0\na, b = np.split(y, 2)\na[0] = 9.0\nreturn y.sum()", "y of f"),
    "a shape of more rows": (
        "y = x * 1.0\nz = np.broadcast_to(y, (2, 4))\ny[0] = 3.0\nreturn z.sum()",
        "z of f",
    ),
    "a copy of a list": (
        "l = [x * 1.0]\nm = copy.copy(l)\nm[0][0] = 4.0\nreturn l[0].sum()",
        "l of f",
    ),
    "a copy with one array twice": (
        "y = x * 1.0\nm = copy.deepcopy([y, y])\nm[0][0] = 4.0\nreturn m[1].sum()",
        "m of f",
    ),
    "rows of a loop": ("m = np.outer(x, x)\nfor r in m: r[0] = 5.0\nreturn m.sum()", "m of f"),
    "rows that grow": ("m = np.outer(x, x)\nfor r in m: r *= 2\nreturn m.sum()", "m of f"),
    "rows in a list": (
        "m = np.outer(x, x)\nl = [r for r in m]\nl[0][0] = 5.0\nreturn m.sum()",
        "m of f",
    ),
    "swapped rows": ("m = np.outer(x, x)\nm[0], m[1] = m[1], m[0]\nreturn m[0].sum()", "used in"),
    "items beside a call": (
        "def g(v):\n    v[0] = 5.0\n    return v\ny = x * 1.0\n"
        "l = [y, g(y).sum()]\nreturn l[0].sum()",
        "used in the same statement",
    ),
    "a sum beside a call": (
        "def g(v):\n    v[0] = 5.0\n    return v.sum()\ny = x * 1.0\nreturn (y + g(y)).sum()",
        "used in the same statement",
    ),
    "arguments beside a call": (
        "def g(v):\n    v[0] = 5.0\n    return v.sum()\ny = x * 1.0\n"
        "return (lambda a, b: a.sum() * b)(y, b=g(y))",
        "used in the same statement",
    ),
    "in a loop of the graph": (
        "y = x * 1.0\nz = y\nwhile z[0] < 5: z[0] += 1\nreturn y.sum()",
        "y of f",
    ),
    "in a loop of known turns": (
        "y = x * 1.0\nz = y\nfor i in range(4): z[i] = 2 * z[i]\nreturn y.sum()",
        "y of f",
    ),
    "in the second turn": (
        "z = x * 2\ny = x * 1.0\nk = x[0]\nwhile k < 3:\n    z[0] = z[0] + 1\n    z = y\n"
        "    k = k + 1\nreturn y.sum() + z.sum()",
        "y of f",
    ),
    "after a loop": (
        "y = x * 1.0\nz = y\nk = x[0]\nwhile k > 5:\n    z = z * 2\n    k = k - 1\n"
        "z[0] = 9.0\nreturn y.sum()",
        "y of f",
    ),
    "after a branch": (
        "y = x * 1.0\nif x[0] > 0: z = y\nelse: z = y * 2\nz[0] = 9.0\nreturn y.sum()",
        "y of f",
    ),
    "after recursion": (
        "y = x * 1.0\ndef g(v, n): return v if n > 3 else g(v * 2, n + 1)\n"
        "z = g(y, x[3] * 5)\nz[0] = 9.0\nreturn y.sum()",
        "y of f",
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_change_that_another_name_would_see_is_refused(name: str) -> None:
    body, other = SEEN[name]
    f = function(body.replace("X)", "np.arange(4.0))"), name)
    for made in (jit(f), value_and_grad(f)):
        with pytest.raises(
            UnsupportedSyntax, match=f"an array is changed that is also .*({other})"
        ) as e:
            made(X)
        assert e.value.place.filename == f"<alias {name}>"
        assert "hint: change a copy" in str(e.value)


ALONE = {
    "copies": "y = x.copy()\nz = y.copy()\nz[0] = 5.0\nw = y.flatten()\nw[1] = 3.0\n"
    "return (y + z * w).sum()",
    "a copy of all": "l = [x * 1.0]\nm = copy.deepcopy(l)\nm[0][0] = 4.0\n"
    "return (l[0] * m[0]).sum()",
    "the same type": "y = x * 1.0\nz = y.astype(np.float64)\nz[0] = 4.0\nreturn (y * z).sum()",
    "one element": "y = x * 1.0\ns = y[0]\ny[0] = 5.0\nreturn s * y.sum()",
    "parts apart": "y = x * 1.0\na, b = y[:2], y[2:]\na[0] = 5.0\nreturn (a * b).sum()",
    "chosen elements": "y = x * 1.0\nz = y[[0, 2]]\nz[0] = 3.0\nreturn y.sum() * z.sum()",
    "a repeated array": "y = x * 1.0\nz = np.tile(y, 2)\nz[0] = 3.0\nreturn y.sum() * z.sum()",
    "swapped elements": "y = x * 1.0\ny[0], y[1] = y[1], y[0]\nreturn (y * x).sum()",
    "a loop": "y = x * 1.0\nfor i in range(4): y[i] = y[i] * y[i - 1]\nreturn y.sum()",
    "a loop of the graph": "y = x * 1.0\nwhile y[0] < 5:\n    y[0] = y[0] + 1\n    y += x\n"
    "return (y * y).sum()",
    "a sum of rows": "m = np.outer(x, x)\na = np.zeros(4)\nfor r in m: a += r\n"
    "return (a * m[0]).sum()",
    "items of a list": "l = [x * 1.0, x * 2.0]\nl[0][1] = 7.0\nl[-1][0] = 2.0\nl[1] += x\n"
    "return (l[0] * l[1]).sum()",
    "an index that is computed once": "l, k = [x * 1.0, x * 2.0], [0, 1]\nl[k.pop()] += x\n"
    "l[0:1] += [x]\nreturn (l[0] * l[-1]).sum() * len(k) + len(l)",
    "attributes": "p, q = Box(x * 2), Box(x * 1.0)\np.v[1] = 7.0\np.v += x\n"
    "return (p.v * q.v).sum()",
    "items of items": "m = [np.outer(x, x)]\nm[0][1][0] = 5.0\nm[0][1] += x\n"
    "return (m[0] * m[0]).sum()",
    "a name that is set anew": "h = x\nfor i in range(3):\n    h = h + x\n    h *= 2\n"
    "return h.sum()",
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_a_change_that_nothing_else_sees_is_numpys(name: str) -> None:
    f = function(ALONE[name], name)
    wanted = f(X.copy())
    np.testing.assert_allclose(jit(f)(X), wanted)
    y, g = value_and_grad(f)(X)
    np.testing.assert_allclose(y, wanted)
    along = np.array([1.0, -0.5, 0.25, 2.0])
    step = 1e-6 * along
    np.testing.assert_allclose(g @ along, (f(X + step) - f(X - step)) / 2e-6, rtol=1e-5)
    np.testing.assert_array_equal(g, grad(f)(X))
