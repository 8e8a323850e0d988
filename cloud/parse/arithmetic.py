"""Python's operators on values of the graph: types are promoted as numpy does."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from cloud.parse.base import Base
from cloud.parse.structure import NUMBER, NUMERIC, described, element_type
from ir.dtype import DType
from ir.graph import Constant, Value

BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
IN_PLACE: dict[type, Callable[[Any, Any], Any]] = {
    kind: getattr(operator, f"i{f.__name__.strip('_')}") for kind, f in BINARY.items()
}
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_COMPARISONS = {
    ast.Eq: "equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_BY_OBJECT = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_LOGICAL = {ast.BitAnd: "logical_and", ast.BitOr: "logical_or"}
_OF_TRUTHS = {ast.Add: "logical_or", ast.Mult: "logical_and"}  # of arrays, as numpy has it
_BITS = {
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "left",
    ast.RShift: "right",
}
_ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_STEPPING = (ast.Add, ast.Sub)
_SHIFTS = (ast.LShift, ast.RShift)
_SHRINKING = (ast.FloorDiv, ast.Mod, ast.Div)
MOST_STEP = 16  # by which an integer of 32 bits goes on, for as many turns as anyone waits for
MOST_NARROW = 2**30
MOST_POWER = 4  # a power that is written as products


class Arithmetic(Base):
    """Operators where at least one operand is a value; the rest is Python's own."""

    def binary(self, kind: type, a: Any, b: Any, *, grows: bool = False) -> Any:
        """a `kind` b. Raises NotKnown for what the operators of the table cannot do.

        `grows`: of Python's integers; they may leave 32 bits, as places and sizes do not.
        """
        if not self.is_ours(a, b):
            return BINARY[kind](a, b)
        a, b = self._arrays(a), self._arrays(b)
        if kind is ast.MatMult:
            return self.matmul(*self.promoted(a, b))
        if kind is ast.Pow:
            return self.power(a, b)
        if kind in _BITS:
            return self._bitwise(kind, a, b)
        if kind in _OF_TRUTHS and self._are_truths(a, b):
            return self.op(_OF_TRUTHS[kind], *self.promoted(a, b))
        weak = self.is_weak(a) and self.is_weak(b)
        small = kind in _SHRINKING or (kind in _STEPPING and _is_step(a, b))
        a, b = self.promoted(a, b, at_least_float=kind is ast.Div, numbers=True)
        if weak and grows and not small:
            a, b = self.wide(a), self.wide(b)
        if kind in _ARITHMETIC:
            return self.weakly(self.op(_ARITHMETIC[kind], a, b), weak)
        if kind is ast.Div:
            return self.weakly(self.op("div", a, b), weak)
        if kind is ast.FloorDiv:
            return self.weakly(self._floor_division(a, b), weak)
        return self.weakly(self.op("mod", a, b), weak)

    def wide(self, x: Value) -> Value:
        """x, an integer of Python's, with 64 bits."""
        return self.cast(x, DType.i64) if x.dtype is DType.i32 else x

    def unary(self, kind: type, x: Any) -> Any:
        if not isinstance(x, Value):
            return {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}[
                kind
            ](x)
        if kind is ast.UAdd:
            return x
        if kind is ast.USub:
            return self.weakly(self.op("neg", self.number(x)), self.is_weak(x))
        if x.dtype is DType.bool:
            return self.op("logical_not", x)
        if x.dtype.is_float:
            raise self.not_known(f"~ of {described(x)}", "it works on integers and truth values")
        ones = Constant(np.array(-1).astype(x.dtype.numpy))
        return self.weakly(self.op("sub", ones, x), self.is_weak(x))

    def compare(self, kind: type, a: Any, b: Any) -> Any:
        """One comparison: a truth value of the graph if an operand is a value."""
        if kind in _BY_OBJECT or not self.is_ours(a, b):
            return COMPARE[kind](a, b)
        a, b = self._arrays(a), self._arrays(b)
        a, b = self.promoted(self._holding(a, b), self._holding(b, a))
        if kind is ast.NotEq:
            return self.op("logical_not", self.op("equal", a, b))
        return self.op(_COMPARISONS[kind], a, b)

    def _arrays(self, x: Any) -> Any:
        """A list beside a value with axes is an array, as for numpy."""
        return self.call(np.asarray, (x,), {}) if isinstance(x, (list, tuple)) else x

    def _holding(self, x: Any, n: Any) -> Any:
        """x, of 64 bits if it is of integers that end before the number n beside it."""
        if not isinstance(x, Value) or type(n) is not int or x.dtype.is_float:
            return x
        short = x.dtype is not DType.bool and not _holds(x.dtype, n)
        return self.cast(x, DType.i64) if short else x

    def is_ours(self, a: Any, b: Any) -> bool:
        """Whether an operator on these is one of the graph: values, perhaps beside numbers, or
        beside lists where the values have axes."""
        values = [x for x in (a, b) if isinstance(x, Value)]
        kinds = (*NUMERIC, list, tuple) if any(x.rank for x in values) else NUMERIC
        return bool(values) and isinstance(a, kinds) and isinstance(b, kinds)

    def power(self, a: Any, b: Any) -> Value:
        """a ** b; small whole powers are products, which are exact for negative numbers too."""
        if isinstance(b, NUMBER) and b == 0:
            return self._ones(self.number(a), is_float=isinstance(b, float))
        whole = isinstance(b, int) and not isinstance(b, bool) and b > 0
        if whole and b > MOST_POWER and isinstance(a, Value) and not a.dtype.is_float:
            base = self.number(a)
            weak = self.is_weak(base)
            base = self.wide(base) if weak else base
            return self.weakly(self.op("pow", base, Constant(b, dtype=base.dtype)), weak)
        if whole and b <= MOST_POWER:
            base = self.number(a)
            base = self.wide(base) if b > 1 and self.is_weak(base) else base
            y = base
            for _ in range(b - 1):
                y = self.op("mul", y, base)
            return self.weakly(y, self.is_weak(a))
        pythons = self.is_weak(a) and self.is_weak(b)  # whose 2**-1 is a float
        a, b = self.promoted(a, b, at_least_float=pythons, numbers=True)
        return self.op("pow", a, b)

    def _ones(self, x: Value, *, is_float: bool) -> Value:
        """x**0, whose derivatives are 0 everywhere, at 0 too."""
        dtype = self.default_float if is_float and not x.dtype.is_float else x.dtype
        one = Constant(1, dtype=dtype)
        y = self.op("broadcast_to", one, shape=x.shape) if x.shape else one
        return self.weakly(y, self.is_weak(x))

    def matmul(self, a: Value, b: Value) -> Value:
        """numpy's `@`: a vector on the left is a row, one on the right a column."""
        if a.rank == 0 or b.rank == 0:
            raise self.not_known("@ of a number", "use *")
        left, right = a.rank == 1, b.rank == 1
        if left and right:
            return self.op("reduce_sum", self.op("mul", a, b), axes=(0,))
        a = self.op("reshape", a, shape=(1, *a.shape)) if left else a
        b = self.op("reshape", b, shape=(*b.shape, 1)) if right else b
        y = self.op("matmul", a, b)
        if not left and not right:
            return y
        shape = (*y.shape[:-2], y.shape[-1]) if left else y.shape[:-1]
        return self.op("reshape", y, shape=shape)

    def truth(self, x: Any) -> Any:
        """bool(x), or a truth value of the graph: whether a number is not zero."""
        if not isinstance(x, Value):
            return bool(x)
        if x.shape != ():
            raise self.not_known(
                f"the truth of {described(x)}", "make one number of it: np.all, np.any, a sum"
            )
        if x.dtype is DType.bool:
            return x
        return self.op("logical_not", self.op("equal", x, Constant(0, dtype=x.dtype)))

    def number(self, x: Any) -> Any:
        """x, where a truth value becomes 0 or 1; a single one is a number of Python's."""
        if not isinstance(x, Value) or x.dtype is not DType.bool:
            return x
        return self.weakly(self.cast(x, DType.i32), x.rank == 0)

    def promoted(
        self, a: Any, b: Any, *, at_least_float: bool = False, numbers: bool = False
    ) -> tuple[Value, Value]:
        """Both as values of one type: a Python number takes the other's, a float type wins."""
        if numbers and not any(self._is_of_numbers(x) for x in (a, b)):
            a, b = self.number(a), self.number(b)
        dtype = self.common_dtype(a, b)
        if at_least_float and not dtype.is_float:
            dtype = self.default_float
        return self.as_value(a, dtype), self.as_value(b, dtype)

    def _is_of_numbers(self, x: Any) -> bool:
        """Whether x has a type of numbers of its own, which truth values beside it take."""
        return not isinstance(x, NUMBER) and self.dtype_of(x) is not DType.bool

    def common_dtype(self, a: Any, b: Any) -> DType:
        """The type in which two numbers meet. Integers of Python's take the type of an array's."""
        x, y = (None if isinstance(v, NUMBER) else self.dtype_of(v) for v in (a, b))
        if x is None and y is None:
            x, y = self.number_dtype(a), self.number_dtype(b)
        elif x is None or y is None:
            number, other, dtype = (a, b, y) if x is None else (b, a, x)
            assert dtype is not None
            if type(number) is int and not dtype.is_float and self.is_weak(other):
                x = y = max(dtype, self.number_dtype(number), key=lambda d: d.size_bytes)
            else:
                return self._beside(number, dtype)
        assert x is not None
        assert y is not None
        if x is y:
            return x
        if x.is_float != y.is_float:
            return x if x.is_float else y
        weak = self.is_weak(a), self.is_weak(b)
        if not x.is_float and DType.bool not in (x, y) and weak[0] != weak[1]:
            return y if weak[0] else x
        return DType.of(np.empty(0, np.promote_types(x.numpy, y.numpy)))

    def as_value(self, x: Any, dtype: DType | None = None) -> Value:
        """A number or an array as a constant; a value of another type is cast."""
        if not isinstance(x, Value):
            if dtype is None:
                dtype = self.number_dtype(x) if isinstance(x, NUMBER) else self.dtype_of(x)
            elif not isinstance(x, NUMBER):
                self.dtype_of(x)
            if type(x) is int and not (dtype.is_float or _holds(dtype, x)):
                hint = "integers of a graph have up to 64 bits; 2.0**70 is a float"
                raise self.not_known(f"{x} as {dtype.name}", hint)
            v = Constant(np.asarray(x).astype(dtype.numpy))
            return self.weakly(v, isinstance(x, NUMBER))
        return x if dtype is None or x.dtype is dtype else self.cast(x, dtype)

    def dtype_of(self, x: Any) -> DType:
        """The type of a value or an array's elements. Raises NotKnown for what holds others."""
        dtype = x.dtype if isinstance(x, Value) else element_type(x)
        if dtype is None:
            hint = "numbers, arrays of float, int32, int64 or bool, and values work"
            raise self.not_known(f"{described(x)} where a number or an array is wanted", hint)
        return dtype

    def number_dtype(self, x: Any) -> DType:
        """The type that a Python number gets where nothing else says one: of an integer 32 bits
        where steps will not leave them soon."""
        if isinstance(x, bool):
            return DType.bool
        if not isinstance(x, int):
            return self.default_float
        return DType.i32 if abs(x) <= MOST_NARROW else DType.i64

    def cast(self, x: Value, dtype: DType) -> Value:
        return x if x.dtype is dtype else self.weakly(self.op("cast", x, to=dtype), self.is_weak(x))

    def is_weak(self, x: Any) -> bool:
        return isinstance(x, NUMBER) or x in self.weak if not isinstance(x, np.ndarray) else False

    def weakly(self, x: Value, weak: bool) -> Value:
        if weak:
            self.weak.add(x)
        return x

    def _beside(self, number: Any, dtype: DType) -> DType:
        if isinstance(number, float) and not dtype.is_float:
            return self.default_float
        if isinstance(number, bool):
            return dtype
        return self.number_dtype(number) if dtype is DType.bool else dtype

    def _floor_division(self, a: Value, b: Value) -> Value:
        """How often b goes into a, rounded down: from the remainder, which is exact."""
        if a.dtype.is_float:
            zero, one = Constant(0, dtype=a.dtype), Constant(1, dtype=a.dtype)
            rest = self.op("mod", a, b, truncated=True)
            whole = self.op("round", self.op("div", self.op("sub", a, rest), b))
            signs = self.op("mul", self.op("sign", rest), self.op("sign", b))
            below = self.op("less", signs, zero)
            whole = self.op("where", below, self.op("sub", whole, one), whole)
            quotient = self.op("stop_gradient", self.op("div", a, b))
            signed = self.op("mul", quotient, zero)  # 0 with the sign that a quotient has
            whole = self.op("where", self.op("equal", whole, zero), signed, whole)
            endless = self.op("floor", quotient)
            return self.op("where", self.op("equal", b, zero), endless, whole)  # type: ignore[no-any-return]
        return self.op("div", self.op("sub", a, self.op("mod", a, b)), b)  # type: ignore[no-any-return]

    def _are_truths(self, a: Any, b: Any) -> bool:
        """Whether both are truth values and one an array of them: two of Python's add up to 2."""
        kinds = [x.dtype if isinstance(x, Value) else element_type(x) for x in (a, b)]
        return kinds == [DType.bool] * 2 and any(getattr(x, "shape", ()) for x in (a, b))

    def _bitwise(self, kind: type, a: Any, b: Any) -> Value:
        if kind in _SHIFTS:
            a, b = self.number(a), self.number(b)
        weak = self.is_weak(a) and self.is_weak(b)
        a, b = self.promoted(a, b)
        dtype = a.dtype
        if dtype.is_float:
            raise self.not_known(
                f"a bit operator on {described(a)}", "it works on integers and truth values"
            )
        if dtype is DType.bool and kind is ast.BitXor:
            return self.op("logical_not", self.op("equal", a, b))
        if dtype is DType.bool:
            return self.op(_LOGICAL[kind], a, b)
        if weak and kind is ast.LShift:
            dtype = DType.i64
        at_work = dtype if dtype in (DType.i32, DType.i64) else DType.i32
        y = self.op("bitwise", *(self.cast(x, at_work) for x in (a, b)), kind=_BITS[kind])
        return self.weakly(self.cast(y, dtype), weak)


def _is_step(a: Any, b: Any) -> bool:
    """Whether one of the two is a known small integer."""
    return any(isinstance(x, int) and abs(x) <= MOST_STEP for x in (a, b))


def _holds(dtype: DType, x: int) -> bool:
    if dtype is DType.bool:
        return True
    info = np.iinfo(dtype.numpy)
    return int(info.min) <= x <= int(info.max)
