"""Images: their layout, and the windows that slide over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from converter.errors import ConvertError
from converter.items import Item, as_value, product, same_pads
from ir.graph import Value
from ir.ops.shaping import reshape, transpose
from ir.symbol import Dim

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A window over any number of axes; each field has one number an axis."""

    size: Ints
    strides: Ints
    before: Ints
    after: Ints
    dilations: Ints

    def options(self) -> dict[str, Ints]:
        """strides, pads and dilations of the last two axes, as our operators on images take them;
        an axis more where there is but one."""
        two = (self.two(f) for f in (self.before, self.after))
        return {
            "strides": self.two(self.strides, 1),
            "pads": tuple(p for pair in two for p in pair),
            "dilations": self.two(self.dilations, 1),
        }

    def two(self, numbers: Ints, fill: int = 0) -> Ints:
        return numbers[-2:] if len(numbers) > 1 else (*numbers, fill)

    def reach(self, axis: int) -> int:
        return (self.size[axis] - 1) * self.dilations[axis] + 1

    def first(self) -> Window:
        """The part over the first axis."""
        return Window(*(f[:1] for f in (self.size, self.strides, self.before, self.after,
                                        self.dilations)))  # fmt: skip


def window(attrs: dict[str, Any], spatial: Sequence[Dim], size: Ints) -> Window:
    """The window that the attributes of Conv and of pooling describe over axes of these sizes."""
    n = len(size)
    if n != len(spatial) or not 1 <= n <= 3:
        raise ConvertError(f"a window of {list(size)} over {n} axes; want 1 to 3, as in the input")
    strides = tuple(attrs.get("strides", (1,) * n))
    dilations = tuple(attrs.get("dilations", (1,) * n))
    auto = attrs.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        ends = [same_pads(*z, auto) for z in zip(spatial, size, strides, dilations, strict=True)]
        before, after = (tuple(e[i] for e in ends) for i in (0, 1))
    else:
        given = tuple(attrs.get("pads", (0,) * 2 * n)) if auto == "NOTSET" else (0,) * 2 * n
        before, after = given[:n], given[n:]
    return Window(tuple(size), strides, before, after, dilations)


def to_channels_last(x: Item) -> Value:
    """[n,c,h,w] -> [n,h,w,c]; [n,c,l] -> [n,l,1,c]; [n,c,d,h,w] -> [n,d,h,w,c]"""
    v = as_value(x)
    if v.rank == 3:
        v = reshape(v, shape=(*v.shape, 1))
    if v.rank not in (4, 5):
        raise ConvertError(f"input of rank {v.rank}; want [n,c,l], [n,c,h,w] or [n,c,d,h,w]")
    return transpose(v, perm=(0, *range(2, v.rank), 1))  # type: ignore[no-any-return]


def to_channels_first(y: Value, rank: int) -> Value:
    """The inverse, for an image that was of `rank`."""
    v: Value = transpose(y, perm=(0, y.rank - 1, *range(1, y.rank - 1)))
    return v if rank >= 4 else reshape(v, shape=v.shape[:3])


def slices_as_images(x: Value) -> Value:
    """[n,d,h,w,c] -> [n d,h,w,c]"""
    return reshape(x, shape=(product(x.shape[:2]), *x.shape[2:]))  # type: ignore[no-any-return]


def images_as_slices(x: Value, depth: Dim) -> Value:
    """The inverse."""
    return reshape(x, shape=(x.shape[0] // depth, depth, *x.shape[1:]))  # type: ignore[no-any-return]
