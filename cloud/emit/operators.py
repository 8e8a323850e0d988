"""Operators as Python on numpy: the expression that a reference is, or a function made of it."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from cloud.emit import formulas
from ir.dtype import DType
from ir.graph import Node, Value
from ir.op import Op
from ir.ops.activation import Activation, activate
from ir.ops.shaping import Element

# What `pop` and `push` do on nested pairs, the same as their references without their boxes.
_OWN = {
    "pop": (
        "def pop(tape, *, shape=(), dtype=np.float32):\n"
        '    """below, x = the tape without what was pushed last, and that (or zeros)"""\n'
        "    return (tape[1], tape[0]) if tape else (tape, np.zeros(shape, dtype))"
    )
}
CONTROL = ("cond", "while_loop", "call", "bind_sizes")
_EXPRESSIONS = {"empty_tape": "None", "push": "(x, tape)", "after": "x"}


def expression(node: Node, args: Sequence[str]) -> str:
    """What the node computes, given the text of its inputs; it may call `definitions`."""
    text = _before_activation(node, args)
    after = _activation(node)
    return text if after is None else _before_activation(after, [text])


def definitions(nodes: Iterable[Node]) -> dict[str, str]:
    """The functions, classes and numbers that the nodes' expressions name, in a good order; the
    modules that these need as `import` lines."""
    found: dict[str, str] = {}
    for node in nodes:
        if node.op.name == "formula":
            found |= definitions(formulas.operators_in(node))
            found[formulas.name_of(node)] = formulas.definition(node, expression)
        for n in filter(None, (node, _activation(node))):
            if n.op.name not in CONTROL and not _is_plain(n) and _template(n.op) is None:
                _define(n.op.name, n.op, found)
                for name, a in n.attrs.items():
                    if isinstance(a, Enum) and name != "activation" and not isinstance(a, Element):
                        _define(type(a).__name__, type(a), found)
    return found


def _activation(node: Node) -> Node | None:
    """The operator that the node applies to its result."""
    kind = node.attrs.get("activation", Activation.none)
    y = node.results[0]
    return None if kind is Activation.none else activate(kind, Value(y.shape, y.dtype)).node


def _before_activation(node: Node, args: Sequence[str]) -> str:
    op = node.op
    if _is_plain(node):
        return _PLAIN[op.name](node, args)
    template = _template(op)
    if template is None:
        changed = {k: a for k, a in node.attrs.items() if a != op.attrs[k] and k != "activation"}
        given = [*args, *(f"{k}={attribute(a)}" for k, a in changed.items())]
        return f"{op.name}({', '.join(given)})"
    texts = dict(zip(op.inputs, args, strict=False))
    if op.variadic:
        texts[op.inputs[-1]] = f"({''.join(f'{a}, ' for a in args[len(op.inputs) - 1 :])})"
    texts |= {k: attribute(a) for k, a in node.attrs.items()}
    parsed = {name: ast.parse(text, mode="eval").body for name, text in texts.items()}
    return ast.unparse(_Filled(parsed).visit(ast.parse(template, mode="eval")))


def attribute(a: Any) -> str:
    """An attribute as Python: types of elements are numpy's, sizes may be expressions."""
    if isinstance(a, Element):
        return _numpy_type(a.dtype)
    if isinstance(a, Enum):
        return f"{type(a).__name__}.{a.name}"
    if isinstance(a, tuple):
        return (
            "(" + "".join(f"{attribute(x)}, " for x in a).rstrip(" " if len(a) == 1 else ", ") + ")"
        )
    if hasattr(a, "terms"):
        return str(a)
    text = repr(np.asarray(a).item())
    return {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(text, text)


def _numpy_type(dtype: DType) -> str:
    return "np.bool_" if dtype is DType.bool else f"np.{dtype.numpy.type.__name__}"


def _is_plain(node: Node) -> bool:
    """Whether it is written by hand: a cast of floats to integers is not one of numpy's."""
    if node.op.name != "cast":
        return node.op.name in _PLAIN
    x, to = node.present_inputs[0].dtype, node.attrs["to"].dtype
    return not x.is_float or to.is_float or to is DType.bool


def _slices(node: Node, args: Sequence[str]) -> str:
    a = node.attrs
    bounds = map(_slice, a["begin"], a["end"], a["step"], node.present_inputs[0].shape)
    return f"{args[0]}[{', '.join(bounds)}]"


def _matmul(node: Node, args: Sequence[str]) -> str:
    texts = []
    names = ("transpose_a", "transpose_b")
    for text, v, name in zip(args, node.present_inputs, names, strict=True):
        text = text if text.isidentifier() else f"({text})"
        swapped = f"{text}.T" if v.rank == 2 else f"np.swapaxes({text}, -1, -2)"
        texts.append(swapped if node.attrs[name] else text)
    return " @ ".join(texts)


_PLAIN: dict[str, Callable[[Node, Sequence[str]], str]] = {
    "slice": _slices,
    "matmul": _matmul,
    "formula": formulas.call,
    "cast": lambda node, args: f"{args[0]}.astype({attribute(node.attrs['to'])})",
}


def _slice(begin: Any, end: Any, step: Any, size: Any) -> str:
    if step == 1 and begin == 0 and end == size:
        return ":"
    stop = "" if isinstance(end, int) and end < 0 else str(end)
    return f"{begin}:{stop}" + ("" if step == 1 else f":{step}")


@functools.cache
def _template(op: Op) -> str | None:
    """The expression that the reference returns, where it does nothing else; else None."""
    if op.name in _EXPRESSIONS:
        return _EXPRESSIONS[op.name]
    function = _parsed(op.ref)
    body = _without_docstring(function.body)
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    named = _free_names(function) - {"np"}
    return None if named else ast.unparse(body[0].value)


class _Filled(ast.NodeTransformer):
    """Texts in place of the names of parameters; what says nothing any more is left out."""

    def __init__(self, texts: dict[str, ast.expr]) -> None:
        self.texts = texts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.texts.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [k for k in node.keywords if not (k.arg == "keepdims" and _is_false(k))]
        is_tuple = isinstance(node.func, ast.Name) and node.func.id == "tuple"
        return node.args[0] if is_tuple and isinstance(node.args[0], ast.Tuple) else node


def _is_false(k: ast.keyword) -> bool:
    return isinstance(k.value, ast.Constant) and k.value.value is False


class _Plain(ast.NodeTransformer):
    """A reference without what belongs to the table: types, decorators, the activation after it."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.decorator_list, node.returns = [], None
        a = node.args
        kept = [
            (p, d)
            for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)
            if p.arg != "activation"
        ]
        a.kwonlyargs, a.kw_defaults = [p for p, _ in kept], [d for _, d in kept]
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        assert node.value is not None
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "activate":
            return node.args[1]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        inner = node.value
        if node.attr == "numpy" and isinstance(inner, ast.Attribute) and inner.attr == "dtype":
            return inner.value  # `to.dtype.numpy`: the type comes in as numpy's
        if node.attr == "ref" and isinstance(inner, ast.Name):
            return inner  # the reference of another operator, which is a function here
        if isinstance(inner, ast.Name) and inner.id == "Element":
            return ast.parse(_numpy_type(Element[node.attr].dtype), mode="eval").body
        return node


def _parsed(f: Callable[..., Any]) -> ast.FunctionDef:
    function = ast.parse(textwrap.dedent(inspect.getsource(f))).body[0]
    assert isinstance(function, ast.FunctionDef)
    return _Plain().visit_FunctionDef(function)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_text else body


def _free_names(tree: ast.AST) -> set[str]:
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    bound = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    return {n.id for n in names} - bound - set(dir(builtins))


def _define(name: str, x: Any, found: dict[str, str]) -> None:
    """Add the definition of `name`, which means x, behind those that it needs."""
    if name in found or name == "np":
        return
    if isinstance(x, types.ModuleType):
        found[name] = f"import {x.__name__}" + (f" as {name}" if x.__name__ != name else "")
        return
    x = x.ref if isinstance(x, Op) else x
    if name in _OWN:
        found[name] = _OWN[name]
        return
    if isinstance(x, type):
        if x.__module__.split(".")[0] != "ir":
            found[name] = f"from {x.__module__} import {name}"
            return
        tree: ast.AST = ast.parse(textwrap.dedent(inspect.getsource(x))).body[0]
        scope = vars(inspect.getmodule(x))
    elif isinstance(x, types.FunctionType):
        if x.__module__.split(".")[0] != "ir":
            found[name] = f"from {x.__module__} import {x.__name__} as {name}"
            return
        tree = _parsed(x)
        tree.name = name  # type: ignore[attr-defined]
        scope = x.__globals__
    else:
        found[name] = f"{name} = {attribute(x)}"
        return
    for other in sorted(_free_names(tree) - {name}):
        _define(other, scope[other], found)
    found[name] = ast.unparse(tree)
