"""The passes of the converter: one file, one function, graph in, graph out, the same function computed."""

from __future__ import annotations

from collections.abc import Callable

from converter.passes.fold_batch_norm import fold_batch_norm
from converter.passes.fuse_activation import fuse_activation
from converter.passes.fuse_bias import fuse_bias
from converter.passes.layout import layout
from ir.graph import Graph
from ir.passes import common_subexpression, constant_folding, dead_code

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    constant_folding,
    layout,
    fold_batch_norm,
    fuse_bias,
    fuse_activation,
    common_subexpression,
    dead_code,
)
