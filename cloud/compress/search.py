"""Which layers must stay float32 so that a quantized model answers as well as is wanted."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np

from cloud.compress.calibrate import Samples, watch
from cloud.compress.noise import layer_noise
from cloud.compress.quantize import Quantized
from ir.errors import ShapeError
from ir.graph import Array, Graph, Node

Build = Callable[[Container[Node]], Quantized]  # the graph, with these nodes of its source float
Score = Callable[[Graph], float]
MOST_SPARED = 16  # of so many kept nodes at most each is tried as an integer one again


@dataclass(frozen=True)
class Kept:
    """The quantized graph whose score is at least as wanted, and what stayed float for that."""

    quantized: Quantized
    nodes: tuple[Node, ...]
    score: float
    tried: int  # graphs that were scored


def keep_until(build: Build, score: Score, least: float, samples: Samples) -> Kept | None:
    """As few nodes as a search by noise finds are kept float so that `score` is at least `least`.

    Nodes are ranked by the noise that each adds on `samples`. How many of the first must stay is
    doubled until that is enough, then halved in between; of a few, those that turn out not to
    matter are quantized again. The result was scored itself, but fewer of other nodes might do as
    well. None: even with all of them float it is not reached.
    """
    first = build(())
    if (found := score(first.graph)) >= least:
        return Kept(first, (), found, 1)
    noise = sorted(layer_noise(first, samples), key=lambda n: -n.added)
    ranked = tuple(n.node for n in noise)
    best: Kept | None = None
    tried, low, count = 1, 0, 1
    while low + 1 < (len(best.nodes) if best else len(ranked) + 1):
        count = min(count, len(ranked)) if best is None else (low + len(best.nodes)) // 2
        made = build(set(ranked[:count]))
        tried, found = tried + 1, score(made.graph)
        if found >= least:
            best = Kept(made, ranked[:count], found, tried)
        else:
            low, count = count, count * 2
    if best is None:
        return None
    best = Kept(best.quantized, best.nodes, best.score, tried)
    return _spared(best, build, score, least) if 1 < len(best.nodes) <= MOST_SPARED else best


def _spared(kept: Kept, build: Build, score: Score, least: float) -> Kept:
    """The same without nodes that need not stay float, the least noisy ones first."""
    tried = kept.tried
    for node in reversed(kept.nodes):
        rest = tuple(n for n in kept.nodes if n is not node)
        made = build(set(rest))
        tried, found = tried + 1, score(made.graph)
        if found >= least:
            kept = Kept(made, rest, found, tried)
    return Kept(kept.quantized, kept.nodes, kept.score, tried)


def accuracy(answers: Array, labels: Array) -> float:
    """The share of rows [n, classes] whose largest number is at the label [n].

    Raises ShapeError where the two do not fit, and for labels that are none of the classes.
    """
    if answers.ndim < 2 or answers.shape[-1] < 2 or labels.shape != answers.shape[:-1]:
        raise ShapeError(
            f"labels {list(labels.shape)} beside answers {list(answers.shape)}; want [n] and "
            "[n,classes]"
        )
    classes = answers.shape[-1]
    if (odd := labels[~np.isin(labels, np.arange(classes))]).size:
        raise ShapeError(f"label {odd[0]}: want one of the {classes} classes, 0 to {classes - 1}")
    return float(np.mean(np.argmax(answers, axis=-1) == labels))


def answers(graph: Graph, samples: Samples) -> Array:
    """The graph's first output on all samples."""
    seen = watch(graph, graph.outputs[:1], samples)
    return np.concatenate([np.atleast_1d(a) for (a,) in seen])


def against(labels: Array | None, reference: Graph, samples: Samples) -> tuple[Score, float]:
    """A score and that of `reference`: accuracy on the labels or, where there are none, agreement
    with it. Raises ShapeError where there is not one label an example."""
    own = answers(reference, samples)
    count = len(samples[reference.inputs[0].name or ""])
    if labels is not None and len(labels) != count:
        raise ShapeError(f"{len(labels)} labels for {count} examples; want one each")
    if labels is None:
        if own.ndim < 2 or own.shape[-1] < 2:
            raise ShapeError(
                f"{reference.output_names[0]} is {list(own.shape)}: no classes to agree on"
            )
        labels = np.argmax(own, axis=-1)

    def score(graph: Graph) -> float:
        found = answers(graph, samples)
        return accuracy(found, labels[: len(found)])

    return score, accuracy(own, labels[: len(own)])


def ranked_sources(nodes: Sequence[Node]) -> list[str]:
    """What nodes are called, for people: their source, or their operator where there is none."""
    return [n.source or n.op.name for n in nodes]
