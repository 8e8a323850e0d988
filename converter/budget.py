"""What can be trained within so many bytes: as many of the last layers as find room, and biases."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from converter.errors import ConvertError
from converter.training import TrainSpec, choose_weights
from ir import model_file
from ir.graph import Graph, Model, Weight

Build = Callable[[TrainSpec], Model]  # with entries for training


@dataclass(frozen=True)
class Plan:
    """A choice of what trains, the bytes that a step wants, and both in words."""

    spec: TrainSpec
    needed_bytes: int
    text: str


def within_memory(graph: Graph, spec: TrainSpec, build: Build) -> Plan:
    """The choice of `spec` narrowed to its memory. Raises ConvertError where nothing fits.

    Of layers that train, last ones first; then biases (vectors) of all others too, whose gradients
    want few activations (Cai et al. 2020). A step wants the plan of the entry `train`, and memory
    for what it writes: the weights that train and the optimiser's states.
    """
    assert spec.memory is not None
    layers = _layers(choose_weights(graph, spec))
    costs: dict[tuple[str, ...], int] = {}

    def cost(names: Sequence[str]) -> int:
        key = tuple(names)
        if key not in costs:
            costs[key] = needed_bytes(build(_narrowed(spec, key)), spec.batch)
        return costs[key]

    fits, beyond = 0, len(layers) + 1
    while fits + 1 < beyond:  # first all of them, then halving: the last ones are most of the use
        count = len(layers) if beyond > len(layers) else (fits + beyond) // 2
        is_enough = cost(_names(layers[len(layers) - count :])) <= spec.memory
        fits, beyond = (count, beyond) if is_enough else (fits, count)
    chosen, said = _chosen(spec, layers, fits, cost)
    text = f"within {spec.memory:,} B at batch {spec.batch} train {said}: {cost(chosen):,} B"
    return Plan(_narrowed(spec, chosen), cost(chosen), text)


def _chosen(
    spec: TrainSpec,
    layers: Sequence[Sequence[Weight]],
    fits: int,
    cost: Callable[[Sequence[str]], int],
) -> tuple[list[str], str]:
    """The weights that train where the last `fits` layers find room, and what that is in words."""
    assert spec.memory is not None
    chosen, rest = _names(layers[len(layers) - fits :]), layers[: len(layers) - fits]
    said = f"the last {fits} of {len(layers)} layers" if rest else f"all {fits} layers"
    if fits == 0:
        head = spec.head is not None
        said = "the new head" if head else "the bias of the last layer"
        chosen = [] if head else _biases(layers[-1:])
        if not chosen or cost(chosen) > spec.memory:
            least = cost(chosen or _names(layers[-1:]))
            raise ConvertError(
                f"train_memory {spec.memory}: {said} alone wants {least} bytes at batch "
                f"{spec.batch}; want that much, or a smaller --train-batch"
            )
        rest = layers[:-1]
    biases = _biases(rest)
    if biases and cost([*biases, *chosen]) <= spec.memory:
        return [*biases, *chosen], f"{said}, and the biases of the others"
    return chosen, said


def needed_bytes(model: Model, batch: int) -> int:
    """What a step of the entry `train` wants with free sizes of `batch`."""
    import lite_runtime as lite

    session = lite.load(model_file.write(model), threads=1)
    if session.symbols:
        session.resize(
            {n: min(max(batch, low), high) for n, (low, high) in session.symbols.items()}
        )
    written = {w for g in model.entries.values() for w, _ in g.updates}
    return session.planned_bytes("train") + sum(w.data.nbytes for w in written)


def _layers(graph: Graph) -> list[list[Weight]]:
    """The weights that train, by the node that reads them first, in order of the graph."""
    seen: set[Weight] = set()
    layers = []
    for node in graph.nodes:
        own = [v for v in node.present_inputs if isinstance(v, Weight) and v.trainable]
        new = [w for w in dict.fromkeys(own) if w not in seen]
        seen.update(new)
        layers += [new] if new else []
    return layers


def _names(layers: Iterable[Sequence[Weight]]) -> list[str]:
    return [w.name or "" for layer in layers for w in layer]


def _biases(layers: Iterable[Sequence[Weight]]) -> list[str]:
    return [w.name or "" for layer in layers for w in layer if w.rank == 1]


def _narrowed(spec: TrainSpec, names: Sequence[str]) -> TrainSpec:
    return replace(spec, trainable=[glob.escape(n) for n in names], memory=None)
