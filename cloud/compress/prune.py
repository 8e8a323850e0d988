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

import numpy as np

from ir.errors import GraphError
from ir.graph import Array, Constant, Graph, Node, Value, Weight

ACROSS = ("max_pool2d", "avg_pool2d", "pad")  # operators that treat each channel alone


@dataclass(eq=False)
class Group:
    """Channels that are kept or dropped together."""

    size: int
    producers: list[tuple[Weight, int]] = field(default_factory=list)  # weight, axis: makes them
    members: list[tuple[Weight, int, int]] = field(default_factory=list)  # weight, axis, repeats
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
    name matches a shell pattern of `spare` makes. Raises ValueError for a ratio outside [0, 1).
    """
    if not 0 <= ratio < 1:
        raise ValueError(f"prune: ratio is {ratio}, want 0 <= ratio < 1")
    kept: dict[Weight, dict[int, Array]] = {}
    for group in channel_groups(graph):
        n = max(least, round(group.size * (1 - ratio) / multiple) * multiple)
        spared = any(fnmatchcase(w.name or "", p) for w, _ in group.producers for p in spare)
        if group.fixed or spared or n >= group.size:
            continue
        keep = np.sort(np.argsort(-group.importance(), kind="stable")[:n])
        for weight, axis, repeats in group.members:
            offsets = np.arange(repeats)[:, None] * group.size
            kept.setdefault(weight, {})[axis] = (offsets + keep).ravel()
    done = []
    for weight, axes in kept.items():
        before, data = weight.data.shape, weight.data
        for axis, index in axes.items():
            data = np.take(data, index, axis=axis)
        weight.reshape_to(np.ascontiguousarray(data))
        done.append(Pruned(weight.name or "", before, data.shape))
    return done


def channel_groups(graph: Graph) -> list[Group]:
    """Every group of coupled channels in the graph, the fixed ones too."""
    tracker = _Tracker()
    for node in graph.nodes:
        tracker.visit(node)
    for v in graph.outputs:
        tracker.fix(v)
    return tracker.groups()


class _Tracker:
    """Follows the last axis of values: which group it is, how many times over (after a flatten)."""

    def __init__(self) -> None:
        self.parent: dict[Group, Group] = {}
        self.tag: dict[Value, tuple[Group, int]] = {}

    def groups(self) -> list[Group]:
        return [g for g in self.parent if self.find(g) is g]

    def find(self, group: Group) -> Group:
        while self.parent[group] is not group:
            group = self.parent[group]
        return group

    def fix(self, v: Value | None) -> None:
        if v in self.tag:
            self.find(self.tag[v][0]).fixed = True

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
            case "reduce_mean" | "reduce_max" | "reduce_sum" if self.spatial(node):
                self.join(node, {})
            case name if node.op.family == "elementwise" or name in ACROSS:
                self.elementwise(node)
            case _:
                for v in node.inputs:
                    self.fix(v)

    def spatial(self, node: Node) -> bool:
        """The reduction leaves the last axis alone."""
        x = node.inputs[0]
        return x is not None and x.rank - 1 not in node.attrs["axes"]

    def produce(self, node: Node, in_axis: int) -> None:
        """A layer that mixes all channels of x into new ones: w is [out, ..., in], b is [out]."""
        x, w, b = node.inputs
        if not isinstance(w, Weight):
            self.fix(x)
            return
        if x in self.tag:
            group, repeats = self.tag[x]
            self.find(group).members.append((w, in_axis, repeats))
        new = Group(int(w.data.shape[0]))
        self.parent[new] = new
        new.producers.append((w, 0))
        new.members.append((w, 0, 1))
        if isinstance(b, Weight):
            new.members.append((b, 0, 1))
        new.fixed = b is not None and not isinstance(b, Weight)
        self.tag[node.results[0]] = (new, 1)

    def join(self, node: Node, axes: dict[int, int]) -> None:
        """A layer with per-channel weights: input i has the channels along axes[i]."""
        x = node.inputs[0]
        if x not in self.tag:
            return
        group, repeats = self.tag[x]
        for i, axis in axes.items():
            self.attach(node.inputs[i], axis, group, repeats)
        self.tag[node.results[0]] = (group, repeats)

    def weigh(self, node: Node) -> None:
        """Remember by how much a batch norm in inference scales the filters before it."""
        x = node.inputs[0]
        if x not in self.tag or x.node is None or node.op.name != "batch_norm":
            return
        w = x.node.inputs[1] if len(x.node.inputs) > 1 else None
        scale, variance = node.inputs[1], node.inputs[4]
        if isinstance(w, Weight) and isinstance(scale, Weight) and isinstance(variance, Weight):
            factor = np.abs(scale.data) / np.sqrt(variance.data + node.attrs["epsilon"])
            self.find(self.tag[x][0]).factors[w] = factor

    def attach(self, v: Value | None, axis: int, group: Group, repeats: int) -> None:
        root = self.find(group)
        if isinstance(v, Weight) and repeats == 1:
            if all((v, axis) != (w, a) for w, a, _ in root.members):
                root.members.append((v, axis, 1))
        elif v is not None:
            root.fixed = True

    def elementwise(self, node: Node) -> None:
        tagged = [v for v in node.present_inputs if v in self.tag]
        if not tagged:
            return
        group, repeats = self.tag[tagged[0]]
        for v in node.present_inputs:
            if v in self.tag:
                self.union(group, repeats, *self.tag[v])
            elif v.rank and v.shape[-1] != 1:
                if v.rank == 1 and not isinstance(v, Constant):
                    self.attach(v, 0, group, repeats)
                else:
                    self.find(group).fixed = True
        self.tag[node.results[0]] = (group, repeats)

    def union(self, a: Group, a_repeats: int, b: Group, b_repeats: int) -> None:
        a, b = self.find(a), self.find(b)
        if a is b:
            return
        if a.size != b.size or a_repeats != b_repeats:  # one side is stretched over the channels
            a.fixed = b.fixed = True
            return
        self.parent[b] = a
        a.producers += b.producers
        a.members += b.members
        a.factors |= b.factors
        a.fixed |= b.fixed

    def reshape(self, node: Node) -> None:
        """[n, h, w, c] -> [n, h*w*c] repeats the channels; anything else must keep the last axis."""
        x, y = node.inputs[0], node.results[0]
        if x is None or x not in self.tag:
            return
        group, repeats = self.tag[x]
        if y.rank and y.shape[-1] == x.shape[-1]:
            self.tag[y] = (group, repeats)
        elif y.rank == 2 and all(isinstance(d, int) for d in (*x.shape[1:], y.shape[1])):
            if y.shape[1] != int(np.prod(np.array(x.shape[1:], dtype=np.int64))):
                raise GraphError(f"prune: {node!r} mixes batch and channels")
            self.tag[y] = (group, repeats * int(np.prod(np.array(x.shape[1:-1], dtype=np.int64))))
        else:
            self.fix(x)


def total_parameters(weights: Sequence[Weight]) -> int:
    """How many numbers the weights hold, states left out."""
    return sum(w.data.size for w in weights if not w.state)
