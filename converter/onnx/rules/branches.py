"""Results that differ in size from branch to branch, or from turn to turn."""

from __future__ import annotations

from dataclasses import dataclass

from converter.errors import ConvertError
from converter.found_sizes import as_i32
from converter.items import Item, as_type, as_value
from converter.onnx.rules.common import Reader
from ir.dtype import DType
from ir.graph import Value
from ir.op import OPS
from ir.ops.control import new_tape
from ir.symbol import Dim


@dataclass
class Kind:
    """How a value leaves or enters a graph: as it is, or on a tape with the sizes of some axes."""

    shape: tuple[Dim, ...]
    dtype: DType
    open_axes: tuple[int, ...] = ()

    def packed(self, v: Value) -> list[Value]:
        """What stands for the value outside."""
        if not self.open_axes:
            return [v]
        of = tuple(v.shape[a] for a in self.open_axes)
        return [OPS["push"](new_tape(), v), OPS["sizes"].node([], {"of": of}).results[0]]

    def unpacked(self, reader: Reader, results: list[Value]) -> Value:
        """The value of what stands for it at the head of `results`, which is taken away."""
        if not self.open_axes:
            return results.pop(0)
        tape, of = results.pop(0), results.pop(0)
        shape = list(self.shape)
        for axis, size in zip(self.open_axes, reader.found.sizes(of), strict=True):
            shape[axis] = size
        y: Value = OPS["pop"](tape, shape=tuple(shape), dtype=self.dtype.name)[1]
        return reader.found.tied(y, [y.node])  # type: ignore[list-item]

    def places(self) -> list[Value]:
        """Inputs of a graph for what stands for the value."""
        if not self.open_axes:
            return [Value(self.shape, self.dtype)]
        return [Value((), DType.tape), Value((len(self.open_axes),), DType.i32)]


def joined(a: Value, b: Value) -> Kind:
    """For two values that may take each other's place. Raises ConvertError."""
    if a.dtype is not b.dtype or a.rank != b.rank:
        raise ConvertError(
            f"{a!r} in one place and {b!r} in the other; want one type and number of axes"
        )
    axes = tuple(i for i, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)) if m != n)
    return Kind(a.shape, a.dtype, axes)


def single(item: Item, dtype: DType) -> Value:
    """A value of one element without axes."""
    v = as_value(item)
    v = as_i32(v) if dtype is DType.i32 else as_type(v, dtype)
    return OPS["reshape"](v, shape=()) if v.rank else v  # type: ignore[no-any-return]
