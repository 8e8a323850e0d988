"""The syntax tree of a function, found by its code, and which names live where in it."""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator
from functools import cached_property

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Position = tuple[int, int]
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class FunctionSource:
    """A function's node, its file, and what its names are: local, global, of a function around."""

    def __init__(
        self, node: FunctionNode, filename: str, lines: list[str], qualname: str = ""
    ) -> None:
        self.node, self.filename, self.lines, self.qualname = node, filename, lines, qualname
        self.name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.captured: set[str] = set()  # names that functions inside this one mention
        self.loads: dict[str, list[Position]] = {}
        self.assigned: dict[str, list[tuple[Position, Position]]] = {}  # where `name = …` stands
        self.loops: list[tuple[Position, Position]] = []
        stored: set[str] = {a.arg for a in _all_arguments(node.args)}
        for child in self._own_nodes():
            self._note(child, stored)
        self.locals = stored - self.globals - self.nonlocals

    @cached_property
    def body(self) -> list[ast.stmt]:
        """The statements; the last one returns whatever runs off the end."""
        if isinstance(self.node, ast.Lambda):
            return [ast.copy_location(ast.Return(self.node.body), self.node.body)]
        return [*self.node.body, ast.copy_location(ast.Return(None), self.node.body[-1])]

    @cached_property
    def class_name(self) -> str:
        """The class that the function is written in, for private names."""
        parts = self.qualname.split(".")
        return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else ""

    @cached_property
    def first_yield(self) -> ast.AST | None:
        """What makes a generator of the function."""
        kinds = (ast.Yield, ast.YieldFrom, ast.Await)
        return next((n for n in self._own_nodes() if isinstance(n, kinds)), None)

    def is_live_after(self, node: ast.AST, name: str) -> bool:
        """Whether `name` may be read once `node` is done, so that its value matters then."""
        if name in self.captured or name not in self.locals:
            return True
        begin, end = span(node)
        around = [(a, b) for a, b in self.loops if a <= begin and end <= b and (a, b) != span(node)]
        return any(p >= end or any(a <= p < b for a, b in around) for p in self.loads.get(name, ()))

    def sets(self, node: ast.AST, name: str) -> bool:
        """Whether an assignment that `node` is part of gives `name` its value."""
        begin, end = span(node)
        return any(a <= begin and end <= b for a, b in self.assigned.get(name, ()))

    def _own_nodes(self) -> Iterator[ast.AST]:
        body = self.node.body
        stack: list[ast.AST] = list(body) if isinstance(body, list) else [body]
        while stack:
            node = stack.pop()
            yield node
            if isinstance(node, NESTED):
                stack.extend(_evaluated_outside(node))
            else:
                stack.extend(ast.iter_child_nodes(node))

    def _note(self, node: ast.AST, stored: set[str]) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()):
                self._load(name, node)
            case ast.AugAssign(target=ast.Name(id=name)):
                self._load(name, node)
            case ast.Name(id=name) if not getattr(node, "in_comprehension", False):
                stored.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                stored.add(name)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                stored.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                stored.add(name)
            case ast.MatchMapping(rest=str(name)):
                stored.add(name)
            case ast.alias(name=name, asname=asname):
                stored.add(asname or name.partition(".")[0])
            case ast.Global(names=names):
                self.globals.update(names)
            case ast.Nonlocal(names=names):
                self.nonlocals.update(names)
            case ast.While() | ast.For() | ast.AsyncFor():
                self.loops.append(span(node))
            case _ if isinstance(node, COMPREHENSIONS):
                for target in (t for g in node.generators for t in ast.walk(g.target)):
                    target.in_comprehension = True  # type: ignore[attr-defined]
        if isinstance(node, ast.Assign):
            for n in (n for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                if isinstance(n.ctx, ast.Store):
                    self.assigned.setdefault(n.id, []).append(span(node))
        if isinstance(node, NESTED):
            inside = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Nonlocal)))
            for n in inside:
                self.captured.update([n.id] if isinstance(n, ast.Name) else n.names)

    def _load(self, name: str, node: ast.AST) -> None:
        self.loads.setdefault(name, []).append((node.lineno, node.col_offset))  # type: ignore[attr-defined]


def source_of(code: types.CodeType) -> FunctionSource | None:
    """The source of a function by its code; None where there is none."""
    key = (code, code.co_filename)  # equal code may stand in two files
    if key not in _SOURCES:
        _SOURCES[key] = _find(code)
    return _SOURCES[key]


def span(node: ast.AST) -> tuple[Position, Position]:
    """Where a node begins and ends, as (line, column)."""
    begin = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return begin, (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def is_abrupt(statements: list[ast.stmt]) -> bool:
    """Whether control certainly never runs off the end of the block."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return is_abrupt(last.body) and is_abrupt(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise))


def assigned_names(statements: list[ast.stmt]) -> tuple[set[str], set[str]]:
    """The plain names that a block stores, and those among them that it updates (`x += 1`)."""
    nodes = [n for s in statements for n in ast.walk(s)]
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    updated = {
        n.target.id
        for n in nodes
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    return stored, updated


_SOURCES: dict[tuple[types.CodeType, str], FunctionSource | None] = {}
_FILES: dict[str, tuple[list[str], dict[tuple[int, str], list[FunctionNode]]]] = {}


def _find(code: types.CodeType) -> FunctionSource | None:
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return None
    known = _FILES.get(code.co_filename)
    if known is None or known[0] is not lines:
        try:
            known = _FILES[code.co_filename] = (lines, _index(ast.parse("".join(lines))))
        except SyntaxError:
            return None
    found = known[1].get((code.co_firstlineno, code.co_name), [])
    if len(found) > 1:
        found = [min(found, key=lambda node: _distance(node, code))]
    if not found or [a.arg for a in _all_arguments(found[0].args)] != list(_parameters(code)):
        return None
    return FunctionSource(found[0], code.co_filename, lines, code.co_qualname)


def _index(tree: ast.Module) -> dict[tuple[int, str], list[FunctionNode]]:
    found: dict[tuple[int, str], list[FunctionNode]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found.setdefault((node.lineno, "<lambda>"), []).append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.setdefault((first, node.name), []).append(node)
    return found


def _distance(node: FunctionNode, code: types.CodeType) -> int:
    """How far the places of the code's instructions are from those of the node's body."""
    places = [p for p in code.co_positions() if p[2] is not None and p[3] != 0 and p[1]]
    if not places or not isinstance(node, ast.Lambda):
        return 0
    begin = min((p[0], p[2]) for p in places)
    end = max((p[1], p[3]) for p in places)
    (line, column), (last, end_column) = span(node.body)
    rows = abs(line - begin[0]) + abs(last - end[0])  # type: ignore[operator]
    return 10_000 * rows + abs(column - begin[1]) + abs(end_column - end[1])  # type: ignore[operator]


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    fixed = code.co_argcount + code.co_kwonlyargcount
    stars = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_varnames[: fixed + stars]


def _all_arguments(a: ast.arguments) -> list[ast.arg]:
    """In the order in which a code object holds them."""
    stars = [x for x in (a.vararg, a.kwarg) if x]
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *stars]


def _evaluated_outside(node: ast.AST) -> list[ast.AST]:
    """The parts of a nested definition that run where it stands: defaults and decorators."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases]
    a = node.args  # type: ignore[attr-defined]
    decorators = getattr(node, "decorator_list", [])
    return [*a.defaults, *(d for d in a.kw_defaults if d), *decorators]
