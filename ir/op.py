"""What an operator is: one declaration, read by every part of the platform."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ir.dtype import DType
from ir.errors import AttrError, DTypeError, GraphError, ShapeError
from ir.graph import Array, Constant, Function, Graph, Node, Value
from ir.symbol import Expr

OPS: dict[str, Op] = {}  # every operator by name, in order of declaration
MAX_RANK = 8


# Runs an operator on values whose elements are known and gives its results; None: it is for the
# graph. Set where operators are to run at once, see cloud/eager.py.
AT_ONCE: ContextVar[Callable[..., tuple[Value, ...] | None] | None] = ContextVar(
    "at_once", default=None
)
# The part of a program that makes nodes, such as a module's path; it is in their `source`.
PART: ContextVar[str] = ContextVar("part", default="")
# The source of nodes that are made, where it is none of a program's lines.
SOURCE: ContextVar[str | None] = ContextVar("source", default=None)


@contextmanager
def from_source(source: str) -> Iterator[None]:
    """Nodes that operators make inside have this source."""
    token = SOURCE.set(source)
    try:
        yield
    finally:
        SOURCE.reset(token)


class NoGrad:
    """Marks an operator that has no derivative (comparisons, index and update operators)."""


NO_GRAD = NoGrad()


class ControlGrad:
    """Marks an operator over sub-graphs, whose derivative `cloud.autodiff` makes from theirs."""

    def __call__(self, *_: Any, **__: Any) -> Sequence[Value | None]:
        raise GraphError("an operator over sub-graphs has no rule; want cloud.autodiff")


CONTROL_GRAD = ControlGrad()
ANY_RESULTS = ("*",)  # of an operator: how many results it has depends on its attributes


class Words(tuple[int, ...]):
    """An attribute of any number of 32-bit integers, such as a small program."""

    __slots__ = ()


@dataclass(frozen=True)
class Spec:
    """A sample input: its shape, its type and the range that its elements are drawn from."""

    shape: tuple[int, ...]
    dtype: DType = DType.f32
    low: float = -2.0
    high: float = 2.0
    data: Array | None = None  # these very elements instead

    def array(self, rng: np.random.Generator) -> Array:
        if self.data is not None:
            return self.data
        if self.dtype.is_float:
            return rng.uniform(self.low, self.high, self.shape).astype(self.dtype.numpy)
        if self.dtype is DType.bool:
            return rng.integers(0, 2, self.shape).astype(np.bool_)
        return rng.integers(int(self.low), int(self.high), self.shape).astype(self.dtype.numpy)


def ints(*shape: int, low: int = -100, high: int = 100, dtype: DType = DType.i32) -> Spec:
    """A sample input of integers in [low, high)."""
    return Spec(shape, dtype, low, high)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Spec:
    """A sample input of floats in [low, high)."""
    return Spec(shape, DType.f32, low, high)


def bools(*shape: int) -> Spec:
    return Spec(shape, DType.bool)


def exactly(data: Any, dtype: DType = DType.f32) -> Spec:
    """A sample input with these very elements."""
    array = np.asarray(data, dtype.numpy)
    return Spec(array.shape, dtype, data=array)


@dataclass(frozen=True)
class Case:
    """One sample call of an operator: inputs (None: an optional one is left out), attributes."""

    inputs: tuple[Spec | None, ...]
    attrs: dict[str, Any]

    def arrays(self, seed: int = 0) -> list[Array | None]:
        rng = np.random.default_rng(seed)
        return [s.array(rng) if s else None for s in self.inputs]

    def __str__(self) -> str:
        shapes = [f"{s.dtype!r}{list(s.shape)}".replace(" ", "") if s else "-" for s in self.inputs]
        texts = {k: "graph" if isinstance(v, Graph) else str(v) for k, v in self.attrs.items()}
        attrs = [f"{k}={v}".replace(" ", "") for k, v in texts.items()]
        return ",".join(shapes + attrs)


def case(
    *inputs: tuple[int, ...] | Spec | None, low: float = -2.0, high: float = 2.0, **attrs: Any
) -> Case:
    """A sample call; a bare shape is a float32 input with elements in [low, high)."""
    specs = tuple(Spec(s, DType.f32, low, high) if isinstance(s, tuple) else s for s in inputs)
    return Case(specs, attrs)


@dataclass(frozen=True, eq=False)
class Op:
    """An operator. Calling it on values adds a node; calling it on arrays alone computes it."""

    name: str
    code: int  # its number in files: never changed, never given to another operator
    family: str  # the module it is declared in
    inputs: tuple[str, ...]
    optional: int  # how many of the last inputs may be left out
    variadic: bool  # the last input stands for any number of inputs
    attrs: dict[str, Any]  # attribute name -> default; the default's type is the attribute's type
    results: tuple[str, ...]
    shape: Callable[..., Any]  # shapes and attrs -> a shape, or a list of shapes
    dtype: Callable[..., Any]  # dtypes and attrs -> a dtype, or a list of dtypes
    ref: Callable[..., Any]
    grad: Callable[..., Sequence[Value | None]] | NoGrad  # a ControlGrad is callable
    kernels: tuple[str, ...]  # dtypes of in[0] that have a reference kernel in C++, or ("any",)
    updates: int  # result i overwrites weight input i, for i < updates
    view: bool  # the result is input 0's bytes under another shape
    onnx: str | None
    tflite: str | None
    sampled: Sequence[Case] | Callable[[], Iterable[Case]]

    @cached_property
    def samples(self) -> tuple[Case, ...]:
        """Sample calls, which tests, device cases and the generator run."""
        return tuple(self.sampled() if callable(self.sampled) else self.sampled)

    @property
    def doc(self) -> str:
        import inspect  # nothing that runs asks

        return inspect.getdoc(self.ref) or ""

    @property
    def gives_tuple(self) -> bool:
        """Whether its results come as a tuple: not where there is always one."""
        return len(self.results) != 1 or self.results == ANY_RESULTS

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        if not any(isinstance(x, Value) for x in inputs):
            return self.ref(*inputs, **self.checked_attrs(attrs))
        values = self._as_values(inputs)
        run = AT_ONCE.get() or next(
            (v.at_once for v in values if v is not None and v.at_once), None
        )
        results = run and run(self, values, attrs)
        if results is None:
            results = self.node(values, attrs, source=_caller()).results
        return results if self.gives_tuple else results[0]

    def node(self, inputs: Sequence[Value | None], attrs: dict[str, Any], source: str = "") -> Node:
        """A node of this operator. Raises ShapeError, DTypeError or AttrError."""
        inputs = self._checked_inputs(inputs)
        attrs = self.checked_attrs(attrs)
        shapes = self._infer(self.shape, [None if v is None else v.shape for v in inputs], attrs)
        dtypes = self._infer(self.dtype, [None if v is None else v.dtype for v in inputs], attrs)
        if self.family != "control" and DType.tape in (v.dtype for v in inputs if v is not None):
            raise DTypeError(f"{self.name}: an input is a tape; only push, pop and loops take one")
        for shape in shapes:
            if len(shape) > MAX_RANK:
                raise ShapeError(f"{self.name}: result of rank {len(shape)}, at most {MAX_RANK}")
        return Node(self, inputs, attrs, list(zip(shapes, dtypes, strict=True)), source)

    def checked_attrs(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """All attributes, in order of declaration, each of its declared type."""
        if unknown := attrs.keys() - self.attrs.keys():
            raise AttrError(f"{self.name}: no attribute {sorted(unknown)}; has {list(self.attrs)}")
        return {
            name: _coerce(f"{self.name}: {name}", attrs.get(name, default), default)
            for name, default in self.attrs.items()
        }

    def _checked_inputs(self, inputs: Sequence[Value | None]) -> tuple[Value | None, ...]:
        most = len(self.inputs) - self.variadic
        least = most - self.optional
        given = tuple(inputs)
        if len(given) < least or (len(given) > most and not self.variadic):
            more = "any number" if self.variadic else f"{most}"
            wanted = f"{least}" if least == most and not self.variadic else f"{least} to {more}"
            names = ", ".join(self.inputs)
            raise AttrError(f"{self.name}: {len(given)} inputs, want {wanted} ({names})")
        given += (None,) * (most - len(given))
        for i, v in enumerate(given):
            if v is None and (i < least or i >= most):
                name = self.inputs[min(i, len(self.inputs) - 1)]
                raise AttrError(f"{self.name}: input {i} ({name}) is missing")
        return given

    def _as_values(self, inputs: Sequence[Any]) -> list[Value | None]:
        """Numbers and arrays become constants, of the type of the last value among the inputs."""
        dtype = next(v.dtype for v in reversed(inputs) if isinstance(v, Value))
        return [
            x
            if x is None or isinstance(x, Value)
            else Constant(x, dtype=dtype if isinstance(x, (int, float)) else None)
            for x in inputs
        ]

    def _infer(
        self, rule: Callable[..., Any], given: Sequence[Any], attrs: dict[str, Any]
    ) -> list[Any]:
        out = rule(*given, **attrs)
        return out if isinstance(out, list) else [out] * len(self.results)


def op(
    *,
    code: int,
    shape: Callable[..., Any],
    grad: Any,
    samples: Sequence[Case] | Callable[[], Iterable[Case]],
    dtype: Any = None,
    results: Sequence[str] = ("y",),
    kernels: Sequence[str] = ("f32",),
    updates: int = 0,
    view: bool = False,
    onnx: str | None = None,
    tflite: str | None = None,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operator. The decorated function is its numpy reference, and the signature of that
    function is the operator's: positional = tensors (default None = optional, *xs = any number),
    keyword-only = attributes. `grad(g, y, *inputs, **attrs)` returns one gradient (or None) for
    each input; with several results g and y are tuples, and an unused g is None.
    `samples` may be a function, where they are dear to make: it is called when somebody asks.
    `results=ANY_RESULTS`: the rules return lists, as long as the attributes want.
    `dtype` is a rule, a fixed DType, or None: all inputs share one type and the result has it."""

    def declare(ref: Callable[..., Any]) -> Op:
        tensors, attrs = _parameters(ref)
        new = Op(
            name=ref.__name__,
            code=code,
            family=ref.__module__.rpartition(".")[2],
            inputs=tensors,
            optional=len(ref.__defaults__ or ()),
            variadic=_is_variadic(ref),
            attrs=attrs,
            results=tuple(results),
            shape=shape,
            dtype=_dtype_rule(ref.__name__, dtype),
            ref=ref,
            grad=grad,
            kernels=tuple(kernels),
            updates=updates,
            view=view,
            onnx=onnx,
            tflite=tflite,
            sampled=samples,
        )
        for old in OPS.values():
            if new.name == old.name or code == old.code:
                raise ValueError(f"{new.name}: name or code {code} is already {old.name}'s")
        return OPS.setdefault(new.name, new)

    return declare


_VARIADIC = 4  # of a code object's flags: it takes *xs


def _is_variadic(ref: Callable[..., Any]) -> bool:
    return bool(ref.__code__.co_flags & _VARIADIC)


def _parameters(ref: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of a reference's tensors, and its attributes with their defaults. (What `inspect`
    would do, in a tenth of the time: every start of a program declares all operators.)"""
    code = ref.__code__
    first, last = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    defaults = ref.__kwdefaults__ or {}
    more = names[last : last + _is_variadic(ref)]
    return (*names[:first], *more), {name: defaults[name] for name in names[first:last]}


def attr_kind(default: Any) -> str:
    """From its default: bool, int, float, choice, ints, words, graph or function."""
    if isinstance(default, Enum):
        return "choice"
    return _KINDS[type(default)]


_KINDS = {
    bool: "bool",
    int: "int",
    float: "float",
    tuple: "ints",
    Words: "words",
    Graph: "graph",
    Function: "function",
}


def _coerce(where: str, value: Any, default: Any) -> Any:
    kind = attr_kind(default)
    if kind == "choice":
        try:
            return type(default)(value)
        except ValueError:
            choices = ", ".join(str(c.value) for c in type(default))
            raise AttrError(f"{where} is {value!r}, want one of {choices}") from None
    if kind == "ints" and isinstance(value, (tuple, list)):
        if all(_is_int(v) or isinstance(v, Expr) for v in value):
            return tuple(v if isinstance(v, Expr) else int(v) for v in value)
    elif kind == "words" and isinstance(value, (tuple, list)):
        if all(_is_int(v) and -(2**31) <= v < 2**31 for v in value):
            return Words(map(int, value))
    elif kind == "float" and (_is_int(value) or isinstance(value, (float, np.floating))):
        return float(value)
    elif kind == "int" and (_is_int(value) or isinstance(value, Expr)):
        return value if isinstance(value, Expr) else int(value)
    elif (
        (kind == "bool" and isinstance(value, (bool, np.bool_)))
        or (kind == "graph" and isinstance(value, Graph))
        or (kind == "function" and isinstance(value, Function))
    ):
        return value
    raise AttrError(f"{where} is {value!r}, want {kind}")


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _dtype_rule(name: str, rule: Any) -> Callable[..., Any]:
    if isinstance(rule, DType):
        return lambda *_, **__: rule
    if rule is not None:
        return rule  # type: ignore[no-any-return]

    def shared(*dtypes: DType | None, **_: Any) -> DType:
        present = [d for d in dtypes if d is not None]
        if len(set(present)) != 1:
            raise DTypeError(f"{name}: inputs of {present}; want one type for all")
        return present[0]

    return shared


_OURS = tuple(str(Path(__file__).parents[1] / p) + "/" for p in ("ir", "cloud", "converter"))


def located(line: str) -> str:
    """`line` (file:line of a program) as a node's source, with the part of the program, if known:
    features.3.conv (net.py:12)"""
    part = PART.get()
    return f"{part} ({line})" if part and line else part or line


def _caller() -> str:
    """Where the innermost code is that is outside of this project's front ends, or what `SOURCE`
    says."""
    if (source := SOURCE.get()) is not None:
        return source
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename.startswith(_OURS):
        if frame.f_back is None:
            return located("")
        frame = frame.f_back
    return located(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
