"""A border of zeros before a convolution becomes the convolution's own padding."""

from __future__ import annotations

from collections.abc import Sequence

from ir.graph import Graph, Node, Value
from ir.op import OPS
from ir.passes.rewrite import rewrite


def fuse_pad(graph: Graph) -> Graph:
    """conv2d(pad(x), w) -> conv2d(x, w, pads=…), for zeros around the image, transposed or not."""

    def fuse(node: Node, inputs: Sequence[Value | None]) -> Value | None:
        if node.op.name not in ("conv2d", "depthwise_conv2d"):
            return None
        moved = _made_by(inputs[0], "transpose")
        pad = _made_by(moved.inputs[0] if moved else inputs[0], "pad")
        perm = moved.attrs["perm"] if moved else (0, 1, 2, 3)
        if pad is None or (border := _border(pad, perm)) is None:
            return None
        x = pad.inputs[0] if moved is None else OPS["transpose"](pad.inputs[0], perm=perm)
        sums = tuple(a + b for a, b in zip(node.attrs["pads"], border, strict=True))
        attrs = {**node.attrs, "pads": sums}
        return node.op.node((x, *inputs[1:]), attrs, node.source).results[0]

    return rewrite(graph, fuse)


def _made_by(v: Value | None, name: str) -> Node | None:
    return v.node if v is not None and v.node is not None and v.node.op.name == name else None


def _border(pad: Node, perm: Sequence[int]) -> tuple[int, int, int, int] | None:
    """Top, left, bottom, right of the image whose axes are `perm` of the pad's.

    None if it is not a border of zeros: between examples or channels, or if it cuts the image.
    """
    before, after = ([pad.attrs[k][p] for p in perm] for k in ("before", "after"))
    amounts = (*before, *after)
    zeros = pad.attrs["mode"] is OPS["pad"].attrs["mode"] and pad.attrs["value"] == 0
    if not zeros or any(not isinstance(n, int) or n < 0 for n in amounts):
        return None
    if any((before[0], before[3], after[0], after[3])):
        return None
    return before[1], before[2], after[1], after[2]
