"""Objects of Python with state of their own: which calls change it, what it is, how to restore it.

A region of the trace may run several times and is undone in between; so the state of what it
changes is kept before. Some objects cannot be set back: who moves them on twice is refused.
"""

from __future__ import annotations

import array
import bisect
import collections
import heapq
import inspect
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


class _OfNumpyRandom(type):
    """A class of numpy.random by its name: before somebody imports that there are no instances."""

    def __instancecheck__(cls, x: Any) -> bool:
        loaded = sys.modules.get("numpy.random")
        return loaded is not None and isinstance(x, getattr(loaded, cls.__name__))


class BitGenerator(metaclass=_OfNumpyRandom): ...


class Generator(metaclass=_OfNumpyRandom): ...


class RandomState(metaclass=_OfNumpyRandom): ...


class SeedSequence(metaclass=_OfNumpyRandom): ...


STATEFUL = (
    random.Random, BitGenerator, RandomState,
    collections.deque, bytearray, array.array, np.ndarray,
)  # fmt: skip
GROWS = (collections.deque, bytearray, array.array)  # `+=` changes them in place
MOVES = (Iterator, SeedSequence)  # they go on, and nothing sets them back
DRAW_BEFORE = (
    "do it before the loop or the branch: noise = g.normal(size=n), items = list(it); "
    "then read noise[i], items[i]"
)
_OWNERS = (*STATEFUL, *MOVES, Generator, memoryview)
_BUILT_IN = (list, dict, set)
_BUFFERS = (np.ndarray, memoryview, bytearray, array.array)
_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_IN_PLACE = frozenset({"sort", "fill", "put", "partition", "resize", "byteswap", "setfield"})
_SPECIAL = frozenset(
    {"__setitem__", "__delitem__", "__iadd__", "__imul__", "__ior__", "__iand__", "__isub__"}
    | {"__ixor__", "__iconcat__", "__init__"}
)
_CHANGES_ITSELF = _SPECIAL | frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"}
    | {"update", "setdefault", "popitem", "add", "discard", "difference_update"}
    | {"intersection_update", "symmetric_difference_update"}
)
_SHUFFLES = ("shuffle", "readinto")
_CHANGE_FIRST = frozenset(
    f.__name__
    for f in (
        *(heapq.heappush, heapq.heappop, heapq.heapify, heapq.heapreplace, heapq.heappushpop),
        *(bisect.insort_left, bisect.insort_right),
        *(np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis),
    )
)


@dataclass(frozen=True, eq=False)
class State:
    """What an object held that no graph can carry. `held`: None where it cannot be set back."""

    held: Any
    kind: str

    def __repr__(self) -> str:
        return f"the state of a {self.kind}"


def tracked(x: Any) -> Any:
    """The object that holds the state: generators may share one, and views the memory."""
    while True:
        if isinstance(x, Generator):
            return x.bit_generator
        if isinstance(x, memoryview):
            held = x.obj
        elif isinstance(x, (np.ndarray, np.flatiter)):
            held = x.base
        else:
            return x
        if not isinstance(held, _BUFFERS):
            return x
        x = held


def receiver(f: Any, args: tuple[Any, ...]) -> tuple[Any, str, tuple[Any, ...]]:
    """Of which object a call is a method, by which name, with which arguments: `y.append(1)`,
    `list.append(y, 1)` and `operator.setitem(y, 0, 1)` change y."""
    name = getattr(f, "__name__", "")
    if args and isinstance(f, _DESCRIPTORS):
        return args[0], name, args[1:]
    if args and getattr(f, "__module__", None) == "_operator":
        return args[0], f"__{name}__", args[1:]
    return getattr(f, "__self__", None), name, args


def changes_built_in(owner: Any, name: str) -> bool:
    """Whether a method of this name changes its owner, a list, dict or set."""
    if not isinstance(owner, _BUILT_IN):
        return False
    return name in _CHANGES_ITSELF or type(owner) not in _BUILT_IN


def changed_by(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The objects with state of their own that a call of Python's changes, or may."""
    owner, name, rest = receiver(f, args)
    found = [x for x in args if isinstance(x, Iterator)]
    if isinstance(owner, np.ndarray):
        found += [owner] if name in _IN_PLACE or name in _SPECIAL else []
    elif isinstance(owner, _OWNERS) or changes_built_in(owner, name):
        found.append(owner)
    if name == "spawn":
        found.append(getattr(tracked(owner), "seed_seq", None))
    if name == "seed" and f is np.random.seed:
        found.append(np.random.mtrand._rand)
    first = name in _SHUFFLES or name in _CHANGE_FIRST
    if args and (first or (isinstance(owner, np.ufunc) and name == "at")):
        found.append(args[0])
    out = kwargs.get("out", _out_by_place(f, rest))
    found += out if isinstance(out, tuple) else [out]
    kinds = (*STATEFUL, *MOVES, *_BUILT_IN)
    return [x for x in map(_state_holder, found) if isinstance(x, kinds)]


def state_of(x: Any) -> dict[Any, Any]:
    """What a container of `STATEFUL` holds, by key."""
    if isinstance(x, collections.deque):
        return {None: tuple(x)}
    return {None: State(_held(x), type(x).__name__)}


def set_state(x: Any, state: Any) -> None:
    """Make x hold again what it held."""
    held = state.held if isinstance(state, State) else state
    if isinstance(x, random.SystemRandom):
        return
    if isinstance(x, random.Random):
        x.setstate(held)
    elif isinstance(x, BitGenerator):
        x.state = held
    elif isinstance(x, RandomState):
        x.set_state(held)
    elif isinstance(x, collections.deque):
        x.clear()
        x.extend(held)
    elif isinstance(x, np.ndarray):
        if x.shape != held.shape:
            x.resize(held.shape, refcheck=False)
        if x.flags.writeable:
            x[...] = held
    else:
        x[:] = held


def _state_holder(x: Any) -> Any:
    """As `tracked`; numpy's flat iterator, which is one, moves on by itself."""
    return x if isinstance(x, Iterator) else tracked(x)


def _held(x: Any) -> Any:
    if isinstance(x, random.SystemRandom):
        return None
    if isinstance(x, random.Random):
        return x.getstate()
    if isinstance(x, BitGenerator):
        return x.state
    if isinstance(x, RandomState):
        return x.get_state(legacy=False)
    return x.copy() if isinstance(x, np.ndarray) else x[:]


def _out_by_place(f: Any, args: tuple[Any, ...]) -> Any:
    """The array that numpy is to fill, given without its name: np.add(a, 1, a)."""
    if not any(isinstance(x, np.ndarray) for x in args[1:]):
        return None
    if isinstance(f, np.ufunc):
        return args[f.nin :]
    if f is np.dot or getattr(f, "__name__", "") == "dot":
        return args[-1] if len(args) == (3 if f is np.dot else 2) else None
    if (getattr(f, "__module__", None) or "").split(".")[0] != "numpy":
        return None
    return _named(f, args).get("out")


def _named(f: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments by name; nothing where numpy does not tell the names."""
    try:
        return inspect.signature(f).bind(*args).arguments
    except (TypeError, ValueError):
        return {}
