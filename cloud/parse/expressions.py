"""Expressions: Python's meaning for what is known, nodes for values."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cloud.parse.arithmetic import BINARY
from cloud.parse.comparisons import NUMBERS_HINT, Comparisons
from cloud.parse.errors import Traced
from cloud.parse.faults import refusing
from cloud.parse.functions import Closure, interpretable
from cloud.parse.source import FunctionSource
from cloud.parse.state import Poison, Scope
from cloud.parse.structure import NUMERIC, values_in
from ir.graph import Value


class Expressions(Comparisons):
    def expr(self, node: ast.expr) -> Any:
        method = getattr(self, "expr_" + type(node).__name__, None)
        if method is None:
            raise self.refused(
                f"{type(node).__name__} is not supported", _HINTS.get(type(node), _HINT), node
            )
        y = method(node)
        since = self.watched_from
        if since is not None and isinstance(y, Value) and y.node and y.node.serial > since:
            raise Traced
        return y

    def expr_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def expr_Name(self, node: ast.Name) -> Any:
        x = self.lookup(node.id, node)
        return self._readable(x, node)

    def lookup(self, name: str, node: ast.AST) -> Any:
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.vars:
                return scope.vars[name]
            if scope.source is not None:
                if name in scope.source.globals:
                    break
                if name in scope.source.locals:
                    raise UnboundLocalError(f"{self.place(node)}: {name} has no value yet")
            if name in scope.cells:
                return scope.cells[name].cell_contents
            scope = scope.parent
        held = self.scope.globals
        if name in held:
            return held[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise NameError(f"{self.place(node)}: name {name!r} is not defined")

    def expr_Attribute(self, node: ast.Attribute) -> Any:
        x = self.expr(node.value)
        self.frames[-1].node = node
        return self._readable(self.attribute(x, self.mangled(node.attr)), node)

    def attribute(self, x: Any, name: str) -> Any:
        """x.name; a property that the user wrote is interpreted."""
        if isinstance(x, Value):
            return self.attribute_of_value(x, name)
        found = getattr(type(x), name, None)
        if isinstance(found, property) and interpretable(found.fget):
            return self.call(found.fget, (x,), {})
        return getattr(x, name)

    def mangled(self, name: str) -> str:
        """A private name of a class as Python spells it."""
        owner = self.frames[-1].source.class_name
        private = name.startswith("__") and not name.endswith("__") and owner
        return f"_{owner.lstrip('_')}{name}" if private else name

    def expr_Subscript(self, node: ast.Subscript) -> Any:
        x, key = self.expr(node.value), self.expr(node.slice)
        self.frames[-1].node = node
        return self._readable(self.item(x, key, node), node)

    @refusing("an index is a number, a slice or an array of them, within what is indexed")
    def item(self, x: Any, key: Any, node: ast.AST) -> Any:
        """x[key]"""
        if isinstance(x, Value):
            return self.index(x, key)
        if _has_value(key):
            if isinstance(x, np.ndarray):
                return self.index(self.as_value(x), key)
            several = isinstance(x, (list, tuple)) and len(x) > 0
            if several and isinstance(key, Value) and all(isinstance(i, NUMERIC) for i in x):
                return self._item_of_numbers(x, key, node)
            raise self.not_known(
                f"a {type(x).__name__} indexed by a value", "use a tensor, or a known number", node
            )
        method = getattr(type(x), "__getitem__", None)
        if interpretable(method):
            return self.call(method, (x, key), {})
        y = x[key]
        if isinstance(x, (np.ndarray, memoryview)):
            new = isinstance(y, np.ndarray) and not np.may_share_memory(x, y)
        else:
            new = isinstance(key, slice)
        return self.made(y) if new else y

    def _item_of_numbers(self, x: Any, key: Value, node: ast.AST) -> Value:
        values = [self.as_value(i) for i in x]
        if len({v.shape for v in values}) > 1:
            raise self.not_known(
                "a list of tensors of different shapes indexed by a value",
                "make them one tensor, or use a known number",
                node,
            )
        return self.index(self.stacked(values), key)

    def expr_Slice(self, node: ast.Slice) -> slice:
        parts = (None if p is None else self.expr(p) for p in (node.lower, node.upper, node.step))
        return slice(*parts)

    def expr_BinOp(self, node: ast.BinOp) -> Any:
        a = self.expr(node.left)
        with self.in_use(a):
            b = self.expr(node.right)
        self.frames[-1].node = node
        return self.operated(type(node.op), a, b)

    @refusing(NUMBERS_HINT)
    def operated(self, kind: type, a: Any, b: Any) -> Any:
        """a `kind` b; an operator that the user's class defines is interpreted."""
        if self.is_ours(a, b):
            return self.binary(kind, a, b, grows=True)
        if isinstance(a, str) and values_in([b]):
            raise self.not_known("the text of a value", "its number is known when the graph runs")
        for x, y, prefix in ((a, b, "__"), (b, a, "__r")):
            name = prefix + BINARY[kind].__name__.strip("_") + "__"
            method = getattr(type(x), name, None)
            if interpretable(method):
                z = self.call(method, (x, y), {})
                if z is not NotImplemented:
                    return z
            elif method is not None and not isinstance(x, Value):
                break
        return self.made(BINARY[kind](a, b))

    def expr_UnaryOp(self, node: ast.UnaryOp) -> Any:
        x = self.expr(node.operand)
        self.frames[-1].node = node
        if isinstance(node.op, ast.Not):
            test = self.truth(x)
            return self.op("logical_not", test) if isinstance(test, Value) else not test
        return self._negated(type(node.op), x)

    @refusing(NUMBERS_HINT)
    def _negated(self, kind: type, x: Any) -> Any:
        method = getattr(type(x), _UNARY_METHODS[kind], None)
        return self.call(method, (x,), {}) if interpretable(method) else self.unary(kind, x)

    def expr_BoolOp(self, node: ast.BoolOp) -> Any:
        return self._bool_op(isinstance(node.op, ast.And), node.values)

    def _bool_op(self, is_and: bool, operands: list[ast.expr]) -> Any:
        """`a and b`: a where a is false, else b; of truth values it is one of them too."""
        x = self.expr(operands[0])
        if len(operands) == 1:
            return x
        test = self.truth(x)
        if not isinstance(test, Value):
            return self._bool_op(is_and, operands[1:]) if test is is_and else x
        rest = lambda: self._bool_op(is_and, operands[1:])  # noqa: E731
        if test is x:
            tried = self.speculate(rest)
            y = tried.result
            if tried.diverged is None and _is_truth(y):
                return self.logical(test, rest, when=is_and)
            if isinstance(y, NUMERIC):
                x = self.weakly(self.number(x), True)  # True is 1 beside a number
        here = lambda: x  # noqa: E731
        return self.branch(test, rest, here) if is_and else self.branch(test, here, rest)

    def expr_IfExp(self, node: ast.IfExp) -> Any:
        test = self.truth(self.expr(node.test))
        if not isinstance(test, Value):
            return self.expr(node.body if test else node.orelse)
        self.frames[-1].node = node
        return self.branch(test, lambda: self.expr(node.body), lambda: self.expr(node.orelse))

    def expr_NamedExpr(self, node: ast.NamedExpr) -> Any:
        x = self.expr(node.value)
        self.store(node.target.id, x, self.scope.function())
        return x

    def expr_Lambda(self, node: ast.Lambda) -> Closure:
        return self.closure(node)

    def closure(self, node: ast.Lambda | ast.FunctionDef) -> Closure:
        """The function that a definition inside interpreted code makes."""
        outer = self.frames[-1].source
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        key = (outer, node)
        if key not in _INNER:
            qualname = f"{outer.qualname}.<locals>.{name}"
            _INNER[key] = FunctionSource(node, outer.filename, outer.lines, qualname)
        a = node.args
        defaults = tuple(self.expr(d) for d in a.defaults)
        keyword = {
            p.arg: self.expr(d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d
        }
        return Closure(self, _INNER[key], self.scope, defaults, keyword)

    def expr_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._elements(node.elts))

    def expr_List(self, node: ast.List) -> Any:
        return self.made(self._elements(node.elts))

    def expr_Set(self, node: ast.Set) -> Any:
        return self.made({self.key(x, node) for x in self._elements(node.elts)})

    def _elements(self, nodes: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        with self.in_use(found):
            for n in nodes:
                if isinstance(n, ast.Starred):
                    found.extend(self.iterated(self.expr(n.value)))
                else:
                    found.append(self.expr(n))
        return found

    def expr_Dict(self, node: ast.Dict) -> Any:
        found: dict[Any, Any] = {}
        for k, v in zip(node.keys, node.values, strict=True):
            if k is None:
                found.update(self.mapping(self.expr(v), v))
            else:
                key = self.key(self.expr(k), k)
                found[key] = self.expr(v)
        return self.made(found)

    def expr_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.expr(part)) for part in node.values)

    def expr_FormattedValue(self, node: ast.FormattedValue) -> str:
        x = self.expr(node.value)
        if values_in(x):
            raise self.not_known(
                "the text of a value", "its number is known when the graph runs", node
            )
        x = {115: str, 114: repr, 97: ascii}.get(node.conversion, lambda v: v)(x)
        return format(x, self.expr(node.format_spec) if node.format_spec else "")

    def expr_ListComp(self, node: ast.ListComp) -> Any:
        return self.made(list(self._comprehension(node.generators, node.elt)))

    def expr_SetComp(self, node: ast.SetComp) -> Any:
        items = self._comprehension(node.generators, node.elt)
        return self.made({self.key(x, node.elt) for x in items})

    def expr_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return self.made(list(self._comprehension(node.generators, node.elt)))

    def expr_DictComp(self, node: ast.DictComp) -> Any:
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        pairs = self._comprehension(node.generators, pair)
        return self.made({self.key(k, node.key): x for k, x in pairs})

    def _comprehension(self, generators: list[ast.comprehension], element: ast.expr) -> list[Any]:
        frame = self.frames[-1]
        outer = frame.scope
        first = self.iterated(self.expr(generators[0].iter))
        frame.scope = Scope(None, outer.globals, outer)
        try:
            return list(self._generated(generators, element, first))
        finally:
            frame.scope = outer

    def _generated(
        self, generators: list[ast.comprehension], element: ast.expr, items: Any
    ) -> Iterator[Any]:
        g = generators[0]
        if g.is_async:
            raise self.refused("an asynchronous comprehension", "write it without async", g.target)
        for x in items:
            self.assign(g.target, x)
            if not all(self._kept(c) for c in g.ifs):
                continue
            if len(generators) == 1:
                yield self.expr(element)
            else:
                inner = self.iterated(self.expr(generators[1].iter))
                yield from self._generated(generators[1:], element, inner)

    def _kept(self, condition: ast.expr) -> bool:
        test = self.truth(self.expr(condition))
        if isinstance(test, Value):
            raise self.not_known(
                "a comprehension that data filter", "multiply by 0 or 1, or use np.where", condition
            )
        return bool(test)

    def _readable(self, x: Any, node: ast.AST) -> Any:
        if isinstance(x, Poison):
            what = f"{x.what} (line {x.place.line})"
            raise self.disagreement_with(what, x.hint, node)
        return x

    store: Callable[..., None]


def _has_value(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any(values_in([p.start, p.stop, p.step] if isinstance(p, slice) else [p]) for p in parts)


def _is_truth(x: Any) -> bool:
    return isinstance(x, (bool, np.bool_)) or (
        isinstance(x, Value) and x.shape == () and x.dtype.name == "bool"
    )


_INNER: dict[tuple[FunctionSource, ast.AST], FunctionSource] = {}
_UNARY_METHODS = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}
_HINT = "compute it outside and pass the result in"
_HINTS: dict[type, str] = {
    ast.Yield: "build a list and return it",
    ast.YieldFrom: "build a list and return it",
    ast.Await: "call it before and pass the result in",
    ast.Starred: "a star belongs into a call, a list or a tuple",
}
