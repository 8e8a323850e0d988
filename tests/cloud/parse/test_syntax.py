"""Every kind of node of Python's grammar works, or stops with the place and a hint."""

from __future__ import annotations

import ast
import linecache
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloud import interpreter, jit, modes, ops
from cloud.parse import UnsupportedSyntax, nearest
from cloud.parse.errors import written_out
from cloud.transform import Traced
from ir.graph import Constant, Graph, Value

WORKS: dict[str, str] = {
    "FunctionDef": "def g(v):\n    return v * 2\nreturn g(x)",
    "Return": "return x",
    "Delete": "d = {1: x, 2: 0}\ndel d[2]\nreturn d[1] * len(d)",
    "Assign": "a = b = x\nreturn a * b",
    "AugAssign": "x += 2\nreturn x",
    "AnnAssign": "y: float = x * 2\nreturn y",
    "For": "for i in range(3):\n    x = x + i\nelse:\n    x = x * 2\nreturn x",
    "While": "while x < 9:\n    x = x * 2\nreturn x",
    "If": "if x > 1:\n    return x\nelse:\n    return x * x",
    "With": "import contextlib\nwith contextlib.nullcontext(2) as k:\n    x = x * k\nreturn x",
    "Raise": "if len('a') > 1:\n    raise ValueError('no')\nreturn x",
    "Try": "try:\n    x = x * {}['a']\nexcept KeyError:\n    x = x * 3\nreturn x",
    "ExceptHandler": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    x = x + 1\nreturn x",
    "Assert": "assert 1 < 2, 'known'\nreturn x",
    "Import": "import math as m\nreturn m.sin(x)",
    "ImportFrom": "from math import sin as s\nreturn s(x)",
    "alias": "from math import pi, e\nreturn x * pi + e",
    "Global": "global _global\n_global = x * 2\nreturn _global",
    "Nonlocal": "n = x\ndef g():\n    nonlocal n\n    n = n * 2\ng()\nreturn n",
    "Expr": "'a string'\nx * 2\nreturn x",
    "Pass": "pass\nreturn x",
    "Break": "while True:\n    x = x * 2\n    if x > 9:\n        break\nreturn x",
    "Continue": "for i in range(4):\n    if x > 9:\n        continue\n    x = x * 2\nreturn x",
    "BoolOp": "return x if x > 1 and x < 9 or x > 99 else -x",
    "And": "return x if x > 1 and x < 5 else -x",
    "Or": "return x * (0 or 3)",
    "NamedExpr": "return (y := x * 2) + y",
    "BinOp": "return x - 1",
    "UnaryOp": "return -x",
    "Lambda": "return (lambda v, k=2: v * k)(x)",
    "IfExp": "return x if x > 0 else -x",
    "Dict": "return {'a': x, **{'b': 2}}['a'] * 2",
    "Set": "return x * len({1, 2, 2})",
    "ListComp": "return sum([x * i for i in range(3) if i])",
    "SetComp": "return x * len({i % 2 for i in range(4)})",
    "DictComp": "return {k: x * k for k in (1, 2)}[2]",
    "GeneratorExp": "return sum(x * i for i in range(3))",
    "comprehension": "return sum([x * i * j for i in range(3) for j in range(i)])",
    "Compare": "return x * (1 if 0 < x < 5 else 2)",
    "Call": "return max(*[x, 1.0], *(2.0,))",
    "keyword": "return dict(a=x, **{'b': 1})['a'] * 2",
    "FormattedValue": "return x * len(f'{3:02d}{\"a\"!r}')",
    "JoinedStr": "return x * len(f'a{1 + 1}b')",
    "Constant": "return x * 2 + len('a') + (1 if None is None else 0)",
    "Attribute": "return x * 2 + x.ndim",
    "Subscript": "return (x, 1)[0]",
    "Starred": "a, *b = [x, 2, 3]\nreturn a * b[1]",
    "Name": "y = x\nreturn y",
    "List": "return [x, 2][0]",
    "Tuple": "a, b = x, 2\nreturn a * b",
    "Slice": "return sum([x, 2, 3, 4][1:4:2]) * x",
    "Load": "return x",
    "Store": "y = x\nreturn y",
    "Del": "y = x\ndel y\nreturn x",
    "Add": "return x + 1",
    "Sub": "return x - 1",
    "Mult": "return x * 2",
    "MatMult": "return np.array([x, 1.0]) @ np.array([2.0, x])",
    "Div": "return x / 4",
    "Mod": "return x % 0.7",
    "Pow": "return x**2",
    "LShift": "return x * (1 << 3)",
    "RShift": "return x * (9 >> 1)",
    "BitOr": "return x * (4 | 1)",
    "BitXor": "return x * (5 ^ 1)",
    "BitAnd": "return x if (x > 1) & (x < 3) else -x",
    "FloorDiv": "return x // 0.7",
    "Invert": "return x * ~2",
    "Not": "return x if not x > 5 else -x",
    "UAdd": "return +x",
    "USub": "return -x",
    "Eq": "return x if x == 2.5 else -x",
    "NotEq": "return x if x != 2.5 else -x",
    "Lt": "return x if x < 3 else -x",
    "LtE": "return x if x <= 3 else -x",
    "Gt": "return x if x > 3 else -x",
    "GtE": "return x if x >= 3 else -x",
    "Is": "return 0.0 if x is None else x",
    "IsNot": "return x if None is not x else 0.0",
    "In": "return x if 2 in (1, 2) else -x",
    "NotIn": "return x if x not in (1, 2) else -x",
    "arguments": "def g(a, /, b, *c, d=1, **e):\n    return a * b * d + len(c) + len(e)\n"
    "return g(x, 2, 3, d=4, z=5)",
    "arg": "def g(a: float) -> float:\n    return a\nreturn g(x)",
    "Match": "match x > 1:\n    case True:\n        return x\n    case _:\n        return -x",
    "match_case": "match 3:\n    case 2:\n        return -x\n    case 3:\n        return x * 2",
    "MatchValue": "match x:\n    case 2.5:\n        return x * 2\n    case _:\n        return x",
    "MatchSingleton": "match None:\n    case None:\n        return x * 2",
    "MatchSequence": "match [x, 2, 3]:\n    case [a, 3, b]:\n        return a\n"
    "    case (a, b, 3):\n        return a * b",
    "MatchMapping": "match {1: x, 2: 3, 4: 5}:\n    case {1: a, 7: b}:\n        return a\n"
    "    case {1: a, **rest}:\n        return a * len(rest)",
    "MatchClass": "import fractions\nmatch fractions.Fraction(1, 2):\n    case int():\n"
    "        return x\n    case fractions.Fraction(numerator=n, denominator=d):\n"
    "        return x * n / d",
    "MatchStar": "match [x, 2, 3]:\n    case [a, *rest]:\n        return a * len(rest)",
    "MatchAs": "match (x, 1):\n    case (a, 1) as t if a > 2:\n"
    "        return a * len(t)\n    case t:\n        return t[0]",
    "MatchOr": "match x:\n    case 1 | 2.5 | 3:\n        return x * 2\n"
    "    case _:\n        return x",
    "withitem": "import contextlib as c\nwith c.nullcontext(2) as a, c.nullcontext(3) as b:\n"
    "    return x * a * b",
}
REFUSED: dict[str, str] = {
    "AsyncFunctionDef": "async def g():\n    pass\nreturn x",
    "ClassDef": "class A:\n    pass\nreturn x",
    "AsyncFor": "async def g():\n    async for i in x:\n        pass\nreturn x",
    "AsyncWith": "async def g():\n    async with x:\n        pass\nreturn x",
    "TryStar": "try:\n    pass\nexcept* ValueError:\n    pass\nreturn x",
    "Yield": "yield x",
    "YieldFrom": "yield from [x]",
    "Await": "async def g():\n    await x\nreturn x",
}
# nodes that no function's source leads to: other modes of the parser, and type comments
ELSEWHERE = {"Module", "Interactive", "Expression", "FunctionType", "TypeIgnore"}
ABSTRACT = {
    "mod", "stmt", "expr", "expr_context", "boolop", "operator", "unaryop", "cmpop",
    "excepthandler", "pattern", "type_ignore", "slice",
}  # fmt: skip
OLD = {"Num", "Str", "Bytes", "NameConstant", "Ellipsis", "Index", "ExtSlice", "Suite",
       "AugLoad", "AugStore", "Param"}  # fmt: skip


def node_kinds() -> set[str]:
    """The names of every node class of the running Python."""
    found = {n for n, c in vars(ast).items() if isinstance(c, type) and issubclass(c, ast.AST)}
    return found - ELSEWHERE - ABSTRACT - OLD - {"AST"}


def function(body: str, name: str, parameters: str = "x") -> Callable[..., Any]:
    """A function of x with this body, whose source Python knows."""
    text = f"def f({parameters}):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    filename = f"<snippet {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {"np": np, "math": math}
    exec(compile(text, filename, "exec"), scope)
    return scope["f"]  # type: ignore[no-any-return]


def test_every_node_kind_of_the_grammar_is_in_one_of_the_tables() -> None:
    assert node_kinds() == WORKS.keys() | REFUSED.keys()


@pytest.mark.parametrize("kind", sorted(WORKS))
def test_a_node_kind_works(kind: str) -> None:
    f = function(WORKS[kind], kind)
    kinds = {type(n).__name__ for n in ast.walk(ast.parse("".join(linecache.getlines(
        f.__code__.co_filename))))}  # fmt: skip
    assert kind in kinds, "the snippet holds no such node"
    traced = Traced.of(f, (np.float64(2.5),), {})
    y = traced.result
    assert isinstance(y, Value)
    assert not isinstance(y, Constant)
    (found,) = interpreter.run(Graph(tuple(traced.values), (y,)), np.float64(2.5))
    assert found == pytest.approx(f(2.5), rel=1e-12) if kind != "Attribute" else found == 5


@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_another_node_kind_says_where_it_stands_and_what_to_write(kind: str) -> None:
    f = function(REFUSED[kind], kind)
    with pytest.raises(UnsupportedSyntax) as caught:
        Traced.of(f, (np.float64(2.5),), {})
    place, text = caught.value.place, str(caught.value).split("\n")
    assert text[0].startswith(f"<snippet {kind}>:{place.line}:{place.column}: ")
    assert text[1].strip() == place.text.strip()
    assert text[2].index("^") == 4 + place.column - 1
    assert text[3].strip().startswith("hint: ")
    assert len(text[3].strip()) > len("hint: ")


NOT_KNOWN = {
    "print": ("print(x)", "print of a value"),
    "text": ("f'{x}'", "the text of a value"),
    "assert": ("assert x > 0", "an assertion about data"),
    "raise": ("if x > 0:\n    raise ValueError\n", "an exception that data decide"),
    "filter": ("[i for i in range(3) if i < x]", "a comprehension that data filter"),
    "list index": ("[print, len][int(x)]", "a list indexed by a value"),
    "slice": ("np.ones(3)[: int(x)]", "a slice whose bounds are values"),
    "truth of an array": ("if x * np.ones(2) > 0:\n    x = 1.0", r"the truth of bool\[2\]"),
    "foreign function": ("math.gamma(x)", "gamma does not take values of a graph"),
    "attribute": ("x.nothing", "a value has no attribute 'nothing'"),
    "numpy": ("np.sort(np.ones(2) * x)", r"numpy\.sort does not take values of a graph"),
    "str": ("str(x)", "the text of a value"),
    "percent": ("'%s' % x", "the text of a value"),
    "format": ("'{}'.format(x)", r"str\.format does not take values"),
    "search": ("[x, 1.0].index(x)", r"list\.index does not take values"),
    "sort": ("[x, 1.0].sort()", r"list\.sort does not take values"),
    "order of lists": ("[x] < [1.0]", "an order of lists that data decide"),
    "where": ("np.where(np.ones(2) * x > 0)", "where of a condition alone"),
    "einsum": ("np.einsum('ii->i', np.ones((2, 2)) * x)", "einsum 'ii->i'"),
    "norm": ("np.linalg.norm(np.ones((2, 2)) * x, 1)", r"the norm 1 of f64\[2,2\]"),
    "sorted": ("sorted([x, 1.0])", "an order that data decide"),
    "locals": ("locals()", "a look into variables by name"),
    "shift": ("x << 2", "a bit operator on f64"),
    "print in a branch": ("if x > 0:\n    print('a')", "print where data decide how often"),
}


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_what_needs_a_known_number_says_so_with_the_place(name: str) -> None:
    body, message = NOT_KNOWN[name]
    with pytest.raises(UnsupportedSyntax, match=message) as caught:
        Traced.of(function(f"{body}\nreturn x", name), (np.float64(2.5),), {})
    assert str(caught.value).startswith(f"<snippet {name}>:")


DISAGREE = {
    "shape": ("y = np.ones(3) * x if x > 0 else x", r"f64\[3\], the other f64\[\]"),
    "variable": (
        "if x > 0:\n    y = np.ones(3) * x\nelse:\n    y = x",
        r"y differs.*f64\[3\].*f64\[\]",
    ),
    "unset": ("if x > 0:\n    y = x", "y is set in only one of two branches"),
    "none": ("if x > 0:\n    return x\nreturn None", "f64.*None"),
    "structure": ("y = (x, x) if x > 0 else x", "a tuple of 2"),
    "loop shape": ("y = x\nwhile x > 0:\n    y = np.stack([y, y])", "y changes in a loop"),
    "loop only": ("while x > 9:\n    x = x / 2\n    y = x", "y is set inside a loop only"),
    "list": ("y = [x]\nif x > 0:\n    y.append(x)", "1 items after one branch|2 items after one"),
    "dtype": ("y = np.sum(x) if x > 0 else np.float32(1) * np.ones(()).astype('f4')", "f32"),
}


@pytest.mark.parametrize("name", DISAGREE)
def test_ways_that_do_not_agree_are_named_both(name: str) -> None:
    body, message = DISAGREE[name]
    with pytest.raises(UnsupportedSyntax, match=message):
        Traced.of(function(f"{body}\nreturn y", f"disagree {name}"), (np.float64(2.5),), {})


INHERITED = {
    "a word": "m = 'a'\nwhile x < 9:\n    x = x * 1.5 if m == 'a' else x * 2\n    m = 'b'",
    "a function": "m = np.sin\nwhile x < 9:\n    x = x + m(x) + 2\n    m = np.cos",
    "a closure": "m = lambda v: v * x\nwhile x < 9:\n    x = m(x)\n    m = lambda v: v + x",
    "none": "m = None\nwhile x < 9:\n    x = x * 1.5 if m is None else x * 2\n    m = x",
    "a tuple": "m = (1,)\nwhile x < 9:\n    x = x + len(m)\n    m = (*m, 1)",
    "one of two": "m = 'a'\nwhile x < 9:\n    x = x * 1.5 if m == 'a' else x * 2\n"
    "    if x > 3:\n        m = 'b'\n    else:\n        m = 'c'",
    "one of two in a dict": "d = {'m': 'a'}\nwhile x < 9:\n"
    "    x = x * 1.5 if d['m'] == 'a' else x * 2\n"
    "    if x > 3:\n        d['m'] = 'b'\n    else:\n        d['m'] = 'c'",
}


@pytest.mark.parametrize("name", INHERITED)
def test_a_turn_does_not_read_what_only_the_first_one_would_find(name: str) -> None:
    body = INHERITED[name]
    with pytest.raises(UnsupportedSyntax, match=r"m (changes in a loop|differs between two)"):
        Traced.of(function(f"{body}\nreturn x", f"inherited {name}"), (np.float64(2.5),), {})


def test_a_condition_of_a_loop_does_not_change_what_is_outside() -> None:
    body = "t = x\ndef g():\n    nonlocal t\n    t = t * 2\n    return t\nwhile g() < 20:\n    pass"
    with pytest.raises(UnsupportedSyntax, match="a condition of a loop that changes"):
        Traced.of(function(f"{body}\nreturn t", "changing condition"), (np.float64(2.5),), {})


SHARED = {
    "another name": ("v = np.ones(3) * x\nw = v\nw[0] = 5.0\nreturn v", "also v of f"),
    "in a list": ("v = np.ones(3) * x\nl = [v]\nv[0] = 5.0\nreturn l[0]", "also l of f"),
    "a known array": ("a = np.zeros(3)\nb = a\nb[0] = 1\nreturn a.sum() * x", "also a of f"),
    "of the caller": (
        "def g(a):\n    a[0] = 2 * x\nv = np.ones(3) * x\ng(v)\nreturn v",
        "also v of f",
    ),
    "global": ("TABLE[0] = x\nreturn x", "TABLE, an array from outside"),
}


@pytest.mark.parametrize("name", SHARED)
def test_an_array_that_has_two_names_is_not_changed_under_one(name: str) -> None:
    body, message = SHARED[name]
    f = function(body, f"shared {name}")
    f.__globals__["TABLE"] = np.zeros(3)
    with pytest.raises(UnsupportedSyntax, match=message):
        Traced.of(f, (np.float64(2.5),), {})


def test_recursion_without_an_end_is_refused() -> None:
    def f(x: Any) -> Any:
        return f(x - 1) if x > 0 else f(x + 1)

    with pytest.raises(UnsupportedSyntax, match="f calls itself in every branch"):
        Traced.of(f, (2.5,), {})


NEAREST = {
    "np.median(x)": "cloud.ops.topk",
    "np.nanmean(x)": "np.isnan",
    "np.fft.fft(x)": "np.fft.fft(np.eye(n)).real",
    "np.nancumsum(x)": "np.cumsum",
    "np.linalg.inv(x)": "known matrix",
}


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("call", NEAREST)
def test_a_function_without_a_rule_is_named_with_the_nearest_way(call: str, mode: str) -> None:
    f = function(f"return {call}", f"nearest {call}")
    with modes.using(mode=mode), pytest.raises(UnsupportedSyntax) as caught:
        jit(f)(np.ones((2, 2)))
    assert f"numpy.{call[3:-3]} does not take values" in caught.value.what
    assert NEAREST[call] in caught.value.hint


def test_the_nearest_ways_are_there() -> None:
    for hint in nearest._INSTEAD.values():
        for name in re.findall(r"cloud\.ops\.(\w+)", hint):
            assert hasattr(ops, name)


def test_two_files_of_one_name_keep_their_own_places() -> None:
    made = []
    for folder, count in (("a", 3), ("b", 9)):
        text = f"def f(x):\n    return sum([np.sin(x * i) for i in range({count})])  # {folder}\n"
        name = f"<{folder}>/one.py"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        scope: dict[str, Any] = {"np": np}
        exec(compile(text, name, "exec"), scope)
        made.append(scope["f"])
    traced = Traced.of(lambda x: made[0](x) + made[1](x), (np.float32(1),), {})
    nodes = Graph(tuple(traced.values), (traced.result,)).nodes
    refusal = written_out(nodes, 5)
    assert refusal is not None
    assert refusal.place.filename == "<b>/one.py"
    assert refusal.place.text.endswith("# b")
    alone = [n for n in nodes if getattr(n.source, "place", refusal.place).filename != "<b>/one.py"]
    other = written_out(alone, 5)
    assert other is not None
    assert other.place.filename == "<a>/one.py"
