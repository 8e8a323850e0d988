"""`match`: its cases as a chain of `if`, whose conditions say whether a pattern fits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cloud.parse.expressions import Expressions
from ir.dtype import DType
from ir.graph import Value


class Fits(ast.expr):
    """Stands in the syntax tree for the question whether a subject fits a pattern."""

    _fields = ("pattern", "guard")

    def __init__(self, subject: str, pattern: ast.pattern, guard: ast.expr | None) -> None:
        super().__init__()
        self.subject, self.pattern, self.guard = subject, pattern, guard


class Matching(Expressions):
    def match_as_if(self, s: ast.Match) -> ast.If:
        """The statement as `if`s, once its subject is known under a name that no program has."""
        name = f".match {s.lineno}:{s.col_offset}"
        self.store(name, self.expr(s.subject))
        if s not in _CHAINS:
            _CHAINS[s] = _chain(s, name)
        return _CHAINS[s]

    def expr_Fits(self, node: Fits) -> Any:
        test = self._fits(node.pattern, self.scope.vars[node.subject])
        guard = node.guard
        return test if guard is None else self.both(test, lambda: self.expr(guard))

    def _fits(self, p: ast.pattern, x: Any) -> Any:
        """Whether x fits the pattern, whose names are bound on the way."""
        match p:
            case ast.MatchValue(value=value):
                return self.truth(self._compared(ast.Eq, x, self.expr(value)))
            case ast.MatchSingleton(value=value):
                return self._is_singleton(x, value)
            case ast.MatchAs(pattern=inner, name=name):
                test = True if inner is None else self._fits(inner, x)
                return self.both(test, lambda: self._bound(name, x))
            case ast.MatchOr(patterns=patterns):
                return self._any(patterns, x)
            case ast.MatchSequence(patterns=patterns):
                return self._fits_sequence(patterns, x)
            case ast.MatchMapping():
                return self._fits_mapping(p, x)
            case ast.MatchClass():
                return self._fits_class(p, x)
        raise self.refused(f"{type(p).__name__} is not supported", "write if and elif", p)

    def _is_singleton(self, x: Any, value: Any) -> Any:
        """A truth value of the graph is one of Python's that data decide."""
        if isinstance(x, Value) and x.dtype is DType.bool and not x.rank and value is not None:
            return x if value else self.op("logical_not", x)
        return x is value

    def _bound(self, name: str | None, x: Any) -> bool:
        if name is not None:
            self.store(name, x)
        return True

    def _any(self, patterns: Sequence[ast.pattern], x: Any) -> Any:
        first, *rest = patterns
        test = self._fits(first, x)
        return self.either(test, lambda: self._any(rest, x)) if rest else test

    def _all(self, tests: Sequence[Callable[[], Any]]) -> Any:
        test: Any = True
        for more in tests:
            test = self.both(test, more)
        return test

    def _fits_sequence(self, patterns: Sequence[ast.pattern], x: Any) -> Any:
        if not isinstance(x, Sequence) or isinstance(x, (str, bytes, bytearray)):
            return False
        star = next((i for i, p in enumerate(patterns) if isinstance(p, ast.MatchStar)), None)
        if star is None:
            if len(x) != len(patterns):
                return False
            pairs = list(zip(patterns, x, strict=True))
            return self._all([lambda p=p, i=i: self._fits(p, i) for p, i in pairs])
        after = len(patterns) - star - 1
        if len(x) < star + after:
            return False
        middle = self.made(list(x[star : len(x) - after]))
        pairs = [*zip(patterns[:star], x, strict=False)]
        pairs += zip(patterns[star + 1 :], x[len(x) - after :], strict=True)
        tests: list[Callable[[], Any]] = [lambda p=p, i=i: self._fits(p, i) for p, i in pairs]
        name = patterns[star].name  # type: ignore[attr-defined]
        return self._all([*tests, lambda: self._bound(name, middle)])

    def _fits_mapping(self, p: ast.MatchMapping, x: Any) -> Any:
        keys = [self.expr(k) for k in p.keys]
        if not isinstance(x, Mapping) or any(k not in x for k in keys):
            return False
        pairs = zip(p.patterns, keys, strict=True)
        tests: list[Callable[[], Any]] = [lambda q=q, k=k: self._fits(q, x[k]) for q, k in pairs]
        rest = self.made({k: v for k, v in x.items() if k not in keys})
        return self._all([*tests, lambda: self._bound(p.rest, rest)])

    def _fits_class(self, p: ast.MatchClass, x: Any) -> Any:
        kind = self.expr(p.cls)
        if not self.call(isinstance, (x, kind), {}):
            return False
        if kind in _ITSELF and len(p.patterns) == 1:
            return self._fits(p.patterns[0], x)
        places = getattr(kind, "__match_args__", ())
        if len(p.patterns) > len(places):
            raise TypeError(
                f"{self.place(p)}: {kind.__name__}() takes {len(places)} patterns by place, "
                f"{len(p.patterns)} given"
            )
        pairs = [*zip(p.patterns, places, strict=False)]
        pairs += zip(p.kwd_patterns, p.kwd_attrs, strict=True)
        if isinstance(x, Value) or any(not hasattr(x, name) for _, name in pairs):
            return not pairs
        return self._all([lambda q=q, n=n: self._fits(q, self.attribute(x, n)) for q, n in pairs])


# what a pattern by place is about the object itself
_ITSELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
_CHAINS: dict[ast.Match, ast.If] = {}


def _chain(s: ast.Match, name: str) -> ast.If:
    """The cases as `if …: … else: if …`; a last `case _` is the `else`."""

    def branch(case: ast.match_case, orelse: list[ast.stmt]) -> ast.If:
        test = ast.copy_location(Fits(name, case.pattern, case.guard), case.pattern)
        made = ast.copy_location(ast.If(test, case.body, orelse), case.pattern)
        made.end_lineno, made.end_col_offset = s.end_lineno, s.end_col_offset
        return made

    *others, last = s.cases
    rest: list[ast.stmt] = last.body if others and _fits_all(last) else [branch(last, [])]
    for case in reversed(others[1:]):
        rest = [branch(case, rest)]
    return branch(others[0], rest) if others else branch(last, [])


def _fits_all(case: ast.match_case) -> bool:
    p = case.pattern
    return isinstance(p, ast.MatchAs) and not p.name and not p.pattern and not case.guard
