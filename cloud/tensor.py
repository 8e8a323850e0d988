"""Values that carry their elements and answer what Python and numpy ask of an array."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from cloud.parse.errors import NeedsTrace, NoSuchItem
from cloud.parse.machine import Machine
from cloud.parse.structure import refuse_foreign
from cloud.parse.table import TABLE
from cloud.parse.values import METHODS, OWN_METHODS, SIZES
from ir.dtype import DType
from ir.graph import Array, Constant, Value, Weight
from ir.op import AT_ONCE, OPS
from ir.ops.shaping import resolved_shape

NUMBERS = (int, float, np.ndarray, np.generic, Value)
# what numpy's arrays offer on themselves and tensors have from the front end
LIKE_ARRAYS = METHODS | OWN_METHODS | SIZES


class ArrayLike(Value):
    """Operators, methods and indices of arrays, with the front end's meaning, applied at once."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Value]:
        return (self[i] for i in range(self.shape[0]))

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            raise NeedsTrace(f"{ufunc.__name__}.{method} of a tensor: want a plain call")
        return self.__array_function__(ufunc, (), args, kwargs)

    def __array_function__(self, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
        m = machine(self)
        if f not in TABLE:
            raise NeedsTrace(f"{f.__name__} of a tensor: want one of cloud.ops")
        return m.call(f, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name not in LIKE_ARRAYS:
            raise AttributeError(f"a tensor has no attribute {name!r}; operators are in cloud.ops")
        return machine(self).attribute_of_value(self, name)

    def __getitem__(self, key: Any) -> Value:
        try:
            y: Value = machine(self).index(self, key)
        except IndexError as e:
            raise NoSuchItem(str(e)) from None
        return y

    def __abs__(self) -> Any:
        return self.__array_function__(np.abs, (), (self,), {})

    def __neg__(self) -> Any:
        return machine(self).unary(ast.USub, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __pos__(self) -> Value:
        return self

    def __invert__(self) -> Any:
        return machine(self).unary(ast.Invert, self)


class Tensor(ArrayLike, Constant):
    """A value with elements. Whatever Python asks of a number or an array, it can answer: so `if`,
    `while`, `print`, a breakpoint see real numbers.

    Where gradients are wanted it is `watched`, and remembers the node that made it.
    """

    __slots__ = ("watched",)

    def __init__(self, data: Any, *, dtype: DType | None = None, name: str | None = None) -> None:
        super().__init__(data, dtype=dtype, name=name)
        self.watched = False

    def numpy(self) -> Array:
        """The elements."""
        return self.data

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self.data.item()

    def __repr__(self) -> str:
        text = np.array2string(self.data, separator=", ", threshold=100)
        return f"tensor({text}, {self.dtype!r})"

    def __bool__(self) -> bool:
        return bool(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def __index__(self) -> int:
        return self.data.__index__()

    def __len__(self) -> int:
        return len(self.data)

    def __float__(self) -> float:
        self._must_not_be_watched("float()", "use cloud.ops or numpy on it; x.item() is its number")
        return float(self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self._must_not_be_watched("an array", "x.numpy() has its elements")
        return np.asarray(self.data, dtype)

    def __setitem__(self, key: Any, new: Any) -> None:
        raise NeedsTrace("a tensor never changes: want x = where(…), or the function traced")

    def __round__(self, digits: int | None = None) -> Any:
        if digits is not None:
            raise NeedsTrace("round of a tensor to some digits: multiply, round and divide")
        return int(np.rint(self.data))

    def __floor__(self) -> int:
        return int(np.floor(self.data))

    def __ceil__(self) -> int:
        return int(np.ceil(self.data))

    def __trunc__(self) -> int:
        return int(np.trunc(self.data))

    def _must_not_be_watched(self, what: str, instead: str) -> None:
        if self.watched:
            raise NeedsTrace(f"{what} of a tensor that a gradient flows through: {instead}")

    __hash__ = object.__hash__  # by identity: graphs keep values in dicts


# The float type of what is differentiated or run at once: what integers and truth values become
# beside a Python float.
DEFAULT_FLOAT: ContextVar[DType | None] = ContextVar("default_float", default=None)


def machine(x: Value) -> Any:
    """The front end's meaning of operators, methods and indices, applied at once."""
    m = _AtOnce()
    m.default_float = DEFAULT_FLOAT.get() or (x.dtype if x.dtype.is_float else DType.f32)
    return m


class _AtOnce(Machine):
    def op(self, name: str, *inputs: Any, **attrs: Any) -> Any:
        if name == "reshape":
            attrs["shape"] = resolved_shape(inputs[0].shape, attrs["shape"])
        return OPS[name](*inputs, **attrs)

    def not_known(self, what: str, hint: str, node: ast.AST | None = None) -> Exception:
        return NeedsTrace(f"{what}: {hint}")


def _goes_beside(tensor: Value, other: Any) -> bool:
    """Whether it is a number or an array; so is a list beside a tensor with axes, as for numpy."""
    return isinstance(other, NUMBERS) or (tensor.rank > 0 and isinstance(other, (list, tuple)))


def _binary(kind: type, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Value, other: Any) -> Any:
        if not _goes_beside(self, other):
            refuse_foreign(other, "what stands beside a tensor")
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return machine(self).binary(kind, a, b)

    return method


def _compared(kind: type) -> Callable[[Any, Any], Any]:
    def method(self: Value, other: Any) -> Any:
        if not _goes_beside(self, other):
            return NotImplemented
        return machine(self).compare(kind, self, other)

    return method


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Value, other: Any) -> Any:
        if self.rank and AT_ONCE.get() is not None:  # other names of it would see the change
            raise NeedsTrace(f"a tensor never changes: want {name} and =, or the function traced")
        return getattr(self, f"__{name}__")(other)

    return method


for _name, _kind in {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv,
    "mod": ast.Mod, "pow": ast.Pow, "matmul": ast.MatMult, "and": ast.BitAnd, "or": ast.BitOr,
    "xor": ast.BitXor, "lshift": ast.LShift, "rshift": ast.RShift,
}.items():  # fmt: skip
    setattr(ArrayLike, f"__{_name}__", _binary(_kind))
    setattr(ArrayLike, f"__i{_name}__", _in_place(_name))
    setattr(ArrayLike, f"__r{_name}__", _binary(_kind, swapped=True))
for _name, _kind in {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE}.items():
    setattr(ArrayLike, f"__{_name}__", _compared(_kind))
for _name, _kind in {"eq": ast.Eq, "ne": ast.NotEq}.items():
    setattr(Tensor, f"__{_name}__", _compared(_kind))
# Weights answer the same, but for == (they are keys of dicts), bool and len.
for _name, _method in vars(ArrayLike).items():
    if callable(_method) and vars(Value).get(_name) is None:
        setattr(Weight, _name, _method)
