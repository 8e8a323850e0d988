"""Statements: assignments, definitions, imports, `with`, `try`; branches and loops are elsewhere"""

from __future__ import annotations

import ast
import importlib
from typing import Any

import numpy as np

from cloud.parse.arithmetic import BINARY, IN_PLACE
from cloud.parse.base import BREAK, CONTINUE, OFF_THE_END, RETURN, Flow
from cloud.parse.errors import UnsupportedSyntax
from cloud.parse.faults import refusing
from cloud.parse.functions import interpretable
from cloud.parse.items import Items
from cloud.parse.state import MISSING, Scope
from cloud.parse.stateful import GROWS
from cloud.parse.structure import described, values_in
from ir.graph import Value


class Statements(Items):
    def block(self, statements: list[ast.stmt]) -> Flow:
        """Run statements until one leaves the block; gives how it was left."""
        for i, s in enumerate(statements):
            rest = statements[i + 1 :]
            self.frames[-1].node = s
            s = self.match_as_if(s) if isinstance(s, ast.Match) else s
            if isinstance(s, ast.If):
                flow, followed = self.stmt_If(s, rest)
                if followed:
                    return flow
            else:
                flow = self.statement(s)
            if isinstance(flow.code, Value):
                return self.guarded(flow, lambda rest=rest: self.block(rest)) if rest else flow
            if flow.code:
                return flow
        return OFF_THE_END

    def statement(self, s: ast.stmt) -> Flow:
        method = getattr(self, "stmt_" + type(s).__name__, None)
        if method is None:
            hint = _HINTS.get(type(s), "compute it outside and pass the result in")
            raise self.refused(f"{type(s).__name__} is not supported", hint, s)
        return method(s) or OFF_THE_END  # type: ignore[no-any-return]

    def stmt_Expr(self, s: ast.Expr) -> None:
        self.expr(s.value)

    def stmt_Pass(self, s: ast.Pass) -> None:
        pass

    def stmt_Return(self, s: ast.Return) -> Flow:
        value = None if s.value is None else self.expr(s.value)
        return Flow(RETURN, value, frozenset({RETURN}))

    def stmt_Break(self, s: ast.Break) -> Flow:
        return Flow(BREAK, None, frozenset({BREAK}))

    def stmt_Continue(self, s: ast.Continue) -> Flow:
        return Flow(CONTINUE, None, frozenset({CONTINUE}))

    def stmt_Assign(self, s: ast.Assign) -> None:
        value = self.expr(s.value)
        for target in s.targets:
            self.assign(target, value)

    def stmt_AnnAssign(self, s: ast.AnnAssign) -> None:
        if s.value is not None:
            self.assign(s.target, self.expr(s.value))

    def stmt_AugAssign(self, s: ast.AugAssign) -> None:
        kind = type(s.op)
        match s.target:
            case ast.Name(id=name):
                old, new = self._readable(self.lookup(name, s.target), s.target), self.expr(s.value)
                self.check_alone(old, (self._holder(name), name), s)
                self.store(name, self._updated(kind, old, new))
            case ast.Attribute(value=owner, attr=attr):
                x, attr = self.expr(owner), self.mangled(attr)
                old, new = self.attribute(x, attr), self.expr(s.value)
                self.check_alone(old, (x, attr), s)
                self.set_attribute(x, attr, self._updated(kind, old, new))
            case ast.Subscript(value=base, slice=key):
                x, k = self.expr(base), self.expr(key)
                if not self.has_unknown_mask(k):
                    old, new = self.item(x, k, s.target), self.expr(s.value)
                    if (slot := self._slot_in(x, k)) is not None:
                        self.check_alone(old, slot, s)
                    self._set_item(s.target, x, k, self._updated(kind, old, new))
                else:
                    self._update_chosen(s.target, x, k, kind, self.expr(s.value))

    @refusing("beside a value stand numbers, arrays and values; a list grows by a list")
    def _updated(self, kind: type, old: Any, value: Any) -> Any:
        """old `kind`= value: a list grows in place, numbers and values give a new one."""
        if isinstance(old, (list, set, dict)):
            self.touch(old)
            return IN_PLACE[kind](old, self.iterated(value) if isinstance(old, list) else value)
        if isinstance(old, GROWS):
            self.touch(old)
            return IN_PLACE[kind](old, self.iterated(value))
        if isinstance(old, np.ndarray) and not isinstance(value, Value):
            return self.made(BINARY[kind](old, value))
        method = getattr(type(old), f"__{IN_PLACE[kind].__name__}__", None)
        if interpretable(method):
            y = self.call(method, (old, value), {})
            if y is not NotImplemented:
                return y
        return self.operated(kind, old, value)

    def assign(self, target: ast.expr, value: Any) -> None:
        """target = value, for every kind of target."""
        match target:
            case ast.Name(id=name):
                self.store(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                self._unpack(parts, value, target)
            case ast.Starred(value=inner):
                self.assign(inner, value)
            case ast.Attribute(value=owner, attr=attr):
                self.set_attribute(self.expr(owner), self.mangled(attr), value)
            case ast.Subscript(value=base, slice=key):
                x = self.expr(base)
                self._set_item(target, x, self.expr(key), value)
            case _:
                raise self.refused("this is not something to assign to", "use a name", target)

    def _unpack(self, parts: list[ast.expr], value: Any, node: ast.AST) -> None:
        items = list(self.iterated(value))
        star = next((i for i, p in enumerate(parts) if isinstance(p, ast.Starred)), None)
        if star is not None:
            after = len(parts) - star - 1
            if len(items) < len(parts) - 1:
                raise self._too_few_or_many(items, parts, node)
            middle = self.made(items[star : len(items) - after])
            items = [*items[:star], middle, *items[len(items) - after :]]
        if len(items) != len(parts):
            raise self._too_few_or_many(items, parts, node)
        for i, (p, x) in enumerate(zip(parts, items, strict=True)):
            with self.in_use(items[i + 1 :]):
                self.assign(p, x)

    def _too_few_or_many(self, items: list[Any], parts: list[ast.expr], node: ast.AST) -> Exception:
        what = f"{len(items)} items for {len(parts)} names"
        if values_in(items):
            return self.refused(what, "give one name for each item, or a *name for several", node)
        return ValueError(f"{self.place(node)}: {what}")

    def store(self, name: str, value: Any, scope: Scope | None = None) -> None:
        """Give a variable a value, in the scope that it belongs to."""
        scope = scope or self.scope
        source = scope.source
        if source is not None and name in source.globals:
            self.touch(scope.globals)
            scope.globals[name] = value
        elif source is not None and name in source.nonlocals:
            self._store_outside(name, value, scope)
        else:
            self.touch(scope)
            scope.vars[name] = value

    def _store_outside(self, name: str, value: Any, scope: Scope) -> None:
        around: Scope | None = scope
        while around is not None:
            if name in around.cells:
                self.touch(around.cells[name])
                around.cells[name].cell_contents = value
                return
            around = around.parent
            if around is not None and around.source and name in around.source.locals:
                self.touch(around)
                around.vars[name] = value
                return
        raise NameError(f"{self.place()}: no variable {name!r} around")

    def stmt_Delete(self, s: ast.Delete) -> None:
        for target in s.targets:
            match target:
                case ast.Name(id=name):
                    self._readable(self.lookup(name, target), target)
                    self.touch(self.scope)
                    del self.scope.vars[name]
                case ast.Subscript(value=base, slice=key):
                    x, k = self.expr(base), self.expr(key)
                    if isinstance(x, Value) or isinstance(k, Value):
                        raise self.refused("del of an item of a tensor", "index the rest", target)
                    self.touch(x)
                    del x[k]
                case ast.Attribute(value=owner, attr=attr):
                    x = self._owner(self.expr(owner), "deleted")
                    self.touch(x)
                    delattr(x, self.mangled(attr))
                case ast.Tuple(elts=parts) | ast.List(elts=parts):
                    self.stmt_Delete(ast.Delete(parts))

    def stmt_FunctionDef(self, s: ast.FunctionDef) -> None:
        f: Any = self.closure(s)
        for d in reversed(s.decorator_list):
            f = self.call(self.expr(d), (f,), {})
        self.store(s.name, f)

    def stmt_Global(self, s: ast.Global) -> None:
        pass  # the names are known from the source

    def stmt_Nonlocal(self, s: ast.Nonlocal) -> None:
        pass

    def stmt_Import(self, s: ast.Import) -> None:
        for a in s.names:
            module = importlib.import_module(a.name)
            top = importlib.import_module(a.name.partition(".")[0])
            self.store(a.asname or a.name.partition(".")[0], module if a.asname else top)

    def stmt_ImportFrom(self, s: ast.ImportFrom) -> None:
        package = self.scope.globals.get("__package__")
        module = importlib.import_module("." * s.level + (s.module or ""), package)
        for a in s.names:
            if a.name == "*":
                raise self.refused("import *", "name what is imported", s)
            found = getattr(module, a.name, MISSING)
            if found is MISSING:
                found = importlib.import_module(f"{module.__name__}.{a.name}")
            self.store(a.asname or a.name, found)

    def stmt_Assert(self, s: ast.Assert) -> None:
        test = self.truth(self.expr(s.test))
        if isinstance(test, Value):
            hint = "check shapes and known numbers only, or use np.where"
            raise self.not_known("an assertion about data", hint, s)
        if not test:
            raise AssertionError(*([self.expr(s.msg)] if s.msg else []))

    def stmt_Raise(self, s: ast.Raise) -> None:
        if self.staged_depth:
            hint = "return a number that says so, such as nan, and check it outside"
            raise self.not_known("an exception that data decide", hint, s)
        if s.exc is None:
            raise self.refused("a bare raise", "name the exception", s)
        error = self.expr(s.exc)
        if isinstance(error, Value):
            raise self.refused(f"{described(error)} is raised", "raise an exception", s.exc)
        raise error from (self.expr(s.cause) if s.cause else None)

    def stmt_With(self, s: ast.With) -> Flow:
        if not s.items:
            return self.block(s.body)
        item = s.items[0]
        inner = ast.copy_location(ast.With(s.items[1:], s.body), s)
        manager = self._manager(self.expr(item.context_expr), item.context_expr)
        entered = self.call(type(manager).__enter__, (manager,), {})
        if item.optional_vars is not None:
            self.assign(item.optional_vars, entered)
        leave = type(manager).__exit__
        try:
            flow = self.stmt_With(inner)
        except UnsupportedSyntax:
            leave(manager, None, None, None)
            raise
        except Exception as e:
            if not self.call(leave, (manager, type(e), e, e.__traceback__), {}):
                raise
            return OFF_THE_END
        except BaseException:
            leave(manager, None, None, None)
            raise
        self.call(leave, (manager, None, None, None), {})
        return flow

    def _manager(self, x: Any, node: ast.AST) -> Any:
        """x, which `with` can enter and leave."""
        if isinstance(x, Value):
            hint = "give an object that has __enter__ and __exit__"
            raise self.refused(f"`with` of {described(x)}", hint, node)
        if not hasattr(type(x), "__enter__") or not hasattr(type(x), "__exit__"):
            raise TypeError(f"{type(x).__name__!r} object does not support `with`")
        return x

    def stmt_Try(self, s: ast.Try) -> Flow:
        """As Python; what data decide raises nothing while the function is traced."""
        try:
            flow = self._try(s)
        except Exception as e:
            if s.finalbody and not isinstance(e, UnsupportedSyntax):
                self.block(s.finalbody)
            raise
        last = self.block(s.finalbody)
        return flow if isinstance(last.code, int) and not last.code else last

    def _try(self, s: ast.Try) -> Flow:
        depth = len(self.frames)
        try:
            flow = self.block(s.body)
        except UnsupportedSyntax:
            raise
        except Exception as e:
            del self.frames[depth:]
            for h in s.handlers:
                if h.type is None or isinstance(e, self.expr(h.type)):
                    if h.name:
                        self.store(h.name, e)
                    return self.block(h.body)
            raise
        if isinstance(flow.code, Value) or flow.code or not s.orelse:
            return flow
        return self.block(s.orelse)


_HINTS: dict[type, str] = {
    ast.ClassDef: "define the class outside of the function",
    ast.AsyncFunctionDef: "write it without async",
    ast.AsyncFor: "write it without async",
    ast.AsyncWith: "write it without async",
    ast.TryStar: "use a plain except",
}
