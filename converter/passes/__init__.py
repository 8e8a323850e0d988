"""The passes of the converter: one file, one function, graph in, graph out, the same function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from converter.items import SMALL
from converter.passes.approximate_gelu import approximate_gelu
from converter.passes.find_activation import find_activation
from converter.passes.find_attention import find_attention
from converter.passes.find_int8 import find_int8
from converter.passes.find_layer_norm import find_layer_norm
from converter.passes.fuse_bias import fuse_bias
from converter.passes.fuse_pad import fuse_pad
from converter.passes.keep_stored import keep_stored
from converter.passes.share_weights import share_weights
from converter.passes.unique_names import unique_names
from ir.graph import Graph
from ir.passes import common_subexpression, constant_folding, dead_code
from ir.passes.fold_batch_norm import fold_batch_norm
from ir.passes.fuse_activation import fuse_activation, fuse_trained_activation
from ir.passes.fuse_residual import fuse_residual, split_residual
from ir.passes.layout import layout
from ir.passes.move_int8 import move_int8

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    split_residual,
    constant_folding,
    fuse_pad,
    find_attention,
    layout,
    fold_batch_norm,
    fuse_bias,
    find_layer_norm,
    find_activation,
    fuse_activation,
    find_int8,
    common_subexpression,
    dead_code,
    share_weights,
    unique_names,
)

# Passes that change the function a little, and so run only where they are allowed by name.
ALLOWED: dict[str, Pass] = {"approximate-gelu": approximate_gelu}


def with_stored(passes: Sequence[Pass], metadata: Mapping[str, str]) -> Sequence[Pass]:
    """The passes, and what keeps small weights small where the source has some."""
    return [*passes, keep_stored] if SMALL in metadata else passes


def with_allowed(passes: Sequence[Pass], allow: Sequence[str]) -> list[Pass]:
    """The passes, with those that are allowed by name behind the one that finds activations."""
    found = list(passes)
    at = found.index(find_activation) + 1 if find_activation in found else len(found)
    return [*found[:at], *(ALLOWED[name] for name in allow), *found[at:]]


# For each entry of a model that trains, once it was differentiated. They make no new weights:
# entries go on sharing theirs.
LAST_PASSES: tuple[Pass, ...] = (
    fuse_residual,
    fuse_trained_activation,
    move_int8,
    common_subexpression,
    dead_code,
)
