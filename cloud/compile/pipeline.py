"""The passes between a trace and the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cloud.compile.fold import constant_folding
from cloud.compile.fuse_elementwise import fuse_elementwise
from cloud.compile.inline import inline
from cloud.compile.simplify import simplify
from ir.graph import Graph, Model
from ir.passes import Pass, applied, common_subexpression, dead_code
from ir.passes.fuse_activation import fuse_trained_activation
from ir.passes.layout import layout

# Results are the same bits on the reference kernels, before and after.
PASSES: tuple[Pass, ...] = (
    inline,
    constant_folding,
    simplify,
    common_subexpression,
    dead_code,
    fuse_trained_activation,
    fuse_elementwise,
)


def simplify_freely(graph: Graph) -> Graph:
    """`simplify` by all rules, those that change the rounding among them."""
    return simplify(graph, exact=False)


# As close as rounding goes: transposes sink, sums may run in another order.
FREE_PASSES: tuple[Pass, ...] = (
    inline,
    constant_folding,
    layout,
    simplify_freely,
    common_subexpression,
    dead_code,
    fuse_trained_activation,
    fuse_elementwise,
)


def passes_for(*, exact: bool) -> tuple[Pass, ...]:
    """The passes that leave the same bits, or those that need not."""
    return PASSES if exact else FREE_PASSES


def optimized(graph: Graph, passes: Sequence[Pass] = PASSES) -> Graph:
    """The graph after the passes, in order."""
    return applied(passes, graph)


def optimized_model(model: Model, passes: Sequence[Pass] = PASSES) -> Model:
    """The model with every entry after the passes, over the same weights."""
    entries = {name: optimized(graph, passes) for name, graph in model.entries.items()}
    return replace(model, entries=entries)


def stages(graph: Graph, passes: Sequence[Pass] = PASSES) -> Iterator[tuple[str, Graph]]:
    """The graph under the name `trace`, then after each pass under the name of the pass."""
    yield "trace", graph
    for run in passes:
        graph = run(graph)
        yield run.__name__, graph
