"""Structured pruning: whole channels leave, so weights and activations really shrink.

Channels that must leave together (a convolution's filter, its bias, its batch norm, the depthwise
filter behind it, the other branch of a residual sum, the next layer's input slice) form a group.
Groups are found by following the last axis of every value through the graph, in the manner of
DepGraph (Fang et al. 2023); filters are ranked by their L1 norm (Li et al. 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from math import prod

import numpy as np

from ir.graph import Array, Constant, Graph, Node, Value, Weight

ACROSS = ("max_pool2d", "avg_pool2d", "cast")  # operators that treat each channel alone


@dataclass(eq=False)
class Group:
    """Channels that are kept or dropped together."""

    size: int
    producers: list[tuple[Weight, int]] = field(default_factory=list)  # weight, axis: makes them
    factors: dict[Weight, Array] = field(default_factory=dict)  # of a batch norm behind a producer
    fixed: bool = False  # part of an interface, or used in a way that is not understood

    def importance(self) -> Array:
        """L1 norm of what makes each channel, over its mean, summed over the producers  -> [size]

        A filter counts as its batch norm scales it.
        """
        total = np.zeros(self.size)
        for weight, axis in self.producers:
            other = tuple(i for i in range(weight.rank) if i != axis)
            norm = np.abs(weight.data).sum(axis=other) * self.factors.get(weight, 1.0)
            total += norm / max(float(norm.mean()), 1e-12)
        return total


@dataclass(frozen=True)
class Channels:
    """What an axis holds: the channels of `parts` one after the other, `repeats` times over."""

    parts: tuple[Group, ...]
    repeats: int = 1

    @property
    def size(self) -> int:
        return self.repeats * sum(g.size for g in self.parts)


@dataclass(frozen=True)
class Pruned:
    """What `prune` did to one weight."""

    name: str
    before: tuple[int, ...]
    after: tuple[int, ...]


def prune(
    graph: Graph, ratio: float, *, multiple: int = 4, least: int = 4, spare: Sequence[str] = ()
) -> list[Pruned]:
    """Drop the `ratio` least important channels of every group; the weights shrink in place.

    Trace the model again afterwards. Each group keeps a multiple of `multiple` channels and at
    least `least`. Channels of the graph's inputs and outputs stay, and those that a weight whose
    name matches a shell pattern of `spare` makes. Raises ValueError for a ratio outside [0, 1),
    and for a pattern that matches no weight.
    """
    if not 0 <= ratio < 1 or multiple < 1 or least < 1:
        raise ValueError(
            f"prune: ratio {ratio}, multiple {multiple}, least {least}; "
            "want a ratio of at least 0 and below 1, and numbers of at least 1"
        )
    names = [w.name or "" for w in graph.weights]
    for pattern in spare:
        if not any(fnmatchcase(n, pattern) for n in names):
            raise ValueError(f"prune: no weight matches {pattern!r}; there are {', '.join(names)}")
    tracker = _Tracker(graph)
    kept: dict[Group, Array] = {}
    for group in tracker.groups():
        n = min(group.size, max(least, round(group.size * (1 - ratio) / multiple) * multiple))
        spared = any(fnmatchcase(w.name or "", p) for w, _ in group.producers for p in spare)
        n = group.size if group.fixed or spared or ratio == 0 else n
        kept[group] = np.sort(np.argsort(-group.importance(), kind="stable")[:n])
    return [done for w in graph.weights if (done := tracker.shrink(w, kept)) is not None]


def channel_groups(graph: Graph) -> list[Group]:
    """Every group of coupled channels in the graph, the fixed ones too."""
    return _Tracker(graph).groups()


def total_parameters(weights: Sequence[Weight]) -> int:
    """How many numbers the weights hold, states left out."""
    return sum(w.data.size for w in weights if not w.state)


class _Tracker:
    """Follows the last axis of values, and the axes of weights that go with it."""

    def __init__(self, graph: Graph) -> None:
        self.parent: dict[Group, Group] = {}
        self.tag: dict[Value, Channels] = {}
        self.axes: dict[tuple[Weight, int], Channels] = {}
        for node in graph.nodes:
            self.visit(node)
        for v in (*graph.outputs, *(new for _, new in graph.updates)):
            self.fix(v)

    def groups(self) -> list[Group]:
        return [g for g in self.parent if self.find(g) is g]

    def shrink(self, weight: Weight, kept: dict[Group, Array]) -> Pruned | None:
        """Take away what its groups do not keep; None where all stays."""
        data = before = weight.data
        for axis in range(weight.rank):
            if (channels := self.axes.get((weight, axis))) is not None:
                data = np.take(data, self.places(channels, kept), axis=axis)
        if data.shape == before.shape:
            return None
        weight.reshape_to(np.ascontiguousarray(data))
        return Pruned(weight.name or "", before.shape, data.shape)

    def places(self, channels: Channels, kept: dict[Group, Array]) -> Array:
        """Where on an axis of `channels` the kept ones are."""
        places, start = [], 0
        for _, group in product(range(channels.repeats), channels.parts):
            places.append(start + kept[self.find(group)])
            start += group.size
        return np.concatenate(places)

    def find(self, group: Group) -> Group:
        while self.parent[group] is not group:
            group = self.parent[group]
        return group

    def fix(self, v: Value | None) -> None:
        if v in self.tag:
            self.fix_channels(self.tag[v])

    def fix_channels(self, channels: Channels) -> None:
        for g in channels.parts:
            self.find(g).fixed = True

    def channels_of(self, v: Value | None, size: int) -> Channels:
        """The channels of a value's last axis; those that nothing here makes must stay."""
        if v is None or v not in self.tag:
            return Channels((self.new(size, fixed=True),))
        return self.tag[v]

    def new(self, size: int, *, fixed: bool = False) -> Group:
        group = Group(size, fixed=fixed)
        self.parent[group] = group
        return group

    def visit(self, node: Node) -> None:
        match node.op.name:
            case "conv2d" if node.attrs["groups"] == 1:
                self.produce(node, in_axis=3)
            case "linear":
                self.produce(node, in_axis=1)
            case "depthwise_conv2d":
                self.join(node, {1: 2, 2: 0})
            case "batch_norm" | "batch_norm_train":
                self.join(node, dict.fromkeys(range(1, len(node.inputs)), 0))
                self.weigh(node)
            case "reshape":
                self.reshape(node)
            case "concat" if node.attrs["axis"] == node.results[0].rank - 1:
                self.concat(node)
            case "reduce_mean" | "reduce_max" | "reduce_sum" if _is_spatial(node):
                self.join(node, {})
            case "pad" if node.attrs["before"][-1] == 0 == node.attrs["after"][-1]:
                self.join(node, {})
            case name if node.op.family == "elementwise" or name in ACROSS:
                self.elementwise(node)
            case _:
                for v in node.inputs:
                    self.fix(v)

    def produce(self, node: Node, in_axis: int) -> None:
        """A layer that mixes all channels of x into new ones: w is [out, ..., in], b is [out]."""
        x, w, b = node.inputs
        if not isinstance(w, Weight) or (b is not None and not isinstance(b, Weight)):
            self.fix(x)
            return
        self.attach(w, in_axis, self.channels_of(x, int(w.data.shape[in_axis])))
        if (w, 0) not in self.axes:
            made = self.new(int(w.data.shape[0]))
            made.producers.append((w, 0))
            self.axes[w, 0] = Channels((made,))
        self.tag[node.results[0]] = self.axes[w, 0]
        if b is not None:
            self.attach(b, 0, self.axes[w, 0])

    def join(self, node: Node, axes: dict[int, int]) -> None:
        """A layer with per-channel weights: input i has the channels along axes[i]."""
        x = node.inputs[0]
        if x is None or not isinstance(x.shape[-1], int):
            return
        channels = self.channels_of(x, x.shape[-1])
        for i, axis in axes.items():
            self.attach(node.inputs[i], axis, channels)
        self.tag[node.results[0]] = channels

    def weigh(self, node: Node) -> None:
        """Remember by how much a batch norm in inference scales the filters before it."""
        x = node.inputs[0]
        if x not in self.tag or x.node is None or node.op.name != "batch_norm":
            return
        w = x.node.inputs[1] if len(x.node.inputs) > 1 else None
        scale, variance = node.inputs[1], node.inputs[4]
        if isinstance(w, Weight) and isinstance(scale, Weight) and isinstance(variance, Weight):
            factor = np.abs(scale.data) / np.sqrt(variance.data + node.attrs["epsilon"])
            for group in self.tag[x].parts:
                if self.find(group).size == factor.size:
                    self.find(group).factors[w] = factor

    def attach(self, v: Value | None, axis: int, channels: Channels) -> None:
        """The axis of a weight has these channels."""
        if isinstance(v, Weight) and v.shape[axis] == channels.size:
            self.unite(self.axes.setdefault((v, axis), channels), channels)
        elif v is not None:
            self.fix_channels(channels)

    def elementwise(self, node: Node) -> None:
        tagged = [v for v in node.present_inputs if v in self.tag]
        if not tagged:
            return
        channels = self.tag[tagged[0]]
        for v in node.present_inputs:
            if v in self.tag:
                self.unite(channels, self.tag[v])
            elif v.rank and v.shape[-1] != 1:
                if v.rank == 1 and not isinstance(v, Constant):
                    self.attach(v, 0, channels)
                else:
                    self.fix_channels(channels)
        self.tag[node.results[0]] = channels

    def unite(self, a: Channels, b: Channels) -> None:
        """From here on both are the same channels: what leaves one leaves the other."""
        if [g.size for g in a.parts] != [g.size for g in b.parts] or a.repeats != b.repeats:
            self.fix_channels(a)  # one side is stretched over the channels, or split otherwise
            self.fix_channels(b)
            return
        for x, y in zip(map(self.find, a.parts), map(self.find, b.parts), strict=True):
            if x is not y and self.find(x) is not self.find(y):
                x, y = self.find(x), self.find(y)
                self.parent[y] = x
                x.producers += y.producers
                x.factors |= y.factors
                x.fixed |= y.fixed

    def concat(self, node: Node) -> None:
        """The channels of the inputs one after the other; those that are not followed stay."""
        parts: list[Group] = []
        for v in node.present_inputs:
            if not isinstance(v.shape[-1], int):
                for u in node.inputs:
                    self.fix(u)
                return
            channels = self.channels_of(v, v.shape[-1])
            parts += channels.parts * channels.repeats
        self.tag[node.results[0]] = Channels(tuple(parts))

    def reshape(self, node: Node) -> None:
        """[n, h, w, c] -> [n, h*w*c] repeats the channels; else the last axis must be kept."""
        x, y = node.inputs[0], node.results[0]
        if x is None or x not in self.tag:
            return
        before = self.tag[x]
        if y.rank and y.shape[-1] == x.shape[-1]:
            self.tag[y] = before
        elif y.rank == 2 and all(isinstance(d, int) for d in (*x.shape[1:], y.shape[1])):
            places = prod(int(d) for d in x.shape[1:-1])  # type: ignore[arg-type]
            if y.shape[1] == places * before.size:
                self.tag[y] = Channels(before.parts, before.repeats * places)
            else:
                self.fix(x)
        else:
            self.fix(x)


def _is_spatial(node: Node) -> bool:
    """The reduction leaves the last axis alone."""
    x = node.inputs[0]
    return x is not None and x.rank - 1 not in node.attrs["axes"]
