"""Python's own functions on iterables and objects, where values may be among them."""

from __future__ import annotations

import builtins
import collections
import copy
import functools

import numpy as np

from cloud.parse.join import Choice
from cloud.parse.structure import described, rebuilt, values_in
from cloud.parse.table import calls_of, handles, on_values
from ir.dtype import DType
from ir.graph import Value


@handles(builtins.range)
def _range(m, *bounds):
    return m.ranged(*bounds)


@handles(builtins.enumerate)
def _enumerate(m, x, start=0):
    return m.enumerated(x, start)


@handles(builtins.zip)
def _zip(m, *parts, strict=False):
    return m.zipped(*parts, strict=strict)


@handles(builtins.reversed)
def _reversed(m, x):
    return m.backwards(x)


@handles(builtins.list)
def _list(m, items=()):
    return m.made(list(m.iterated(items)))


@handles(builtins.tuple)
def _tuple(m, items=()):
    return tuple(m.iterated(items))


@handles(builtins.map)
def _map(m, f, *parts):
    return [m.call(f, args, {}) for args in zip(*map(m.iterated, parts), strict=False)]


@handles(builtins.filter)
def _filter(m, f, items):
    kept = []
    for x in m.iterated(items):
        test = m.truth(x if f is None else m.call(f, (x,), {}))
        if isinstance(test, Value):
            raise m.not_known("a filter that data decide", "multiply by 0 or 1, or use np.where")
        if test:
            kept.append(x)
    return kept


@handles(functools.reduce)
def _functools_reduce(m, f, items, *start):
    return functools.reduce(lambda a, b: m.call(f, (a, b), {}), m.iterated(items), *start)


@handles(builtins.sorted)
def _sorted(m, items, *, key=None, reverse=False):
    found = list(m.iterated(items))
    keys = [x if key is None else m.call(key, (x,), {}) for x in found]
    if any(isinstance(k, Value) for k in keys):
        raise m.not_known("an order that data decide", "compare and use np.where")
    order = sorted(range(len(found)), key=keys.__getitem__, reverse=reverse)
    return m.made([found[i] for i in order])


@handles(builtins.isinstance)
def _isinstance(m, x, kinds):
    if isinstance(x, Value):  # as the number or array that the value stands for
        each = kinds if isinstance(kinds, tuple) else (kinds,)
        kind = (np.ndarray,) if x.rank else _NUMBERS[_kind_of(x)]
        return isinstance(x, kinds) or any(k in each for k in kind)
    return isinstance(x, kinds)


_NUMBERS: dict[str, tuple[type, ...]] = {
    "float": (float, np.floating, np.generic),
    "int": (int, np.integer, np.generic),
    "bool": (bool, int, np.bool_, np.generic),
}


def _kind_of(x: Value) -> str:
    return "float" if x.dtype.is_float else "bool" if x.dtype is DType.bool else "int"


@handles(builtins.print)
def _print(m, *args, **kwargs):
    if values_in(args):
        raise m.not_known("print of a value", "run the function eagerly to see its numbers")
    if m.staged_depth:
        raise m.not_known("print where data decide how often", "run the function eagerly")
    if m.regions:
        m.regions[-1].effects.append(lambda: print(*args, **kwargs))
    else:
        print(*args, **kwargs)


@handles(builtins.next)
def _next(m, items, *default):
    if not isinstance(items, list):
        return m.call_python(next, (items, *default), {})
    if not items and default:
        return default[0]
    if not items:
        raise StopIteration
    m.touch(items)  # a generator expression, which is a list of what is left of it
    return items.pop(0)


@handles(builtins.getattr)
def _getattr(m, x, name, *default):
    if default and isinstance(x, Value) and not m.has_attribute(x, name):
        return default[0]
    try:
        return m.attribute(x, name)
    except AttributeError:
        if default:
            return default[0]
        raise


@on_values(builtins.hasattr)
def _hasattr(m, x, name):
    return m.has_attribute(x, name) if isinstance(x, Value) else hasattr(x, name)


@on_values(builtins.type)
def _type(m, x):
    if not isinstance(x, Value):
        return type(x)
    raise m.not_known("the type of a value", "ask isinstance(x, float), or x.dtype")


@on_values(builtins.hash, builtins.set, builtins.frozenset, dict.fromkeys, collections.Counter)
def _by_key(m, items, *value):
    raise m.not_known(
        f"{described(items)} as keys of a dict or members of a set",
        "their numbers are known when the graph runs; use known numbers or texts",
    )


@on_values(copy.copy)
def _copied(m, x):
    """Of a list, a dict or an object a new one of the same parts."""
    if isinstance(x, Value):
        return m.method_of_value(x, "copy")
    new = m.made(copy.copy(x))
    if m.regions:
        m.regions[-1].own[id(new)] = new  # objects that `made` does not know, too
    return new


@on_values(copy.deepcopy)
def _copied_whole(m, x):
    made = {}  # what is in two places is one thing in the copy, too

    def one(leaf):
        if id(leaf) not in made:
            is_value = isinstance(leaf, Value)
            made[id(leaf)] = m.method_of_value(leaf, "copy") if is_value else copy.copy(leaf)
        return made[id(leaf)]

    return m.owned(rebuilt(x, one))


@handles(builtins.setattr)
def _setattr(m, x, name, value):
    m.set_attribute(x, name, value)


@on_values(builtins.str, builtins.repr, builtins.ascii, builtins.format)
def _text(m, *args):
    raise m.not_known("the text of a value", "its number is known when the graph runs")


@handles(builtins.iter)
def _iter(m, x):
    return iter(m.iterated(x))


@calls_of(Choice)
def _chosen(m, f, args, kwargs):
    first, second = (lambda g=g: m.call(g, args, kwargs) for g in (f.a, f.b))
    return m.branch(f.predicate, first, second)


@handles(builtins.locals, builtins.eval, builtins.exec, builtins.globals, builtins.vars)
def _reflection(m, *args):
    raise m.refused("a look into variables by name", "use the variables themselves")
