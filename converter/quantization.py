"""How a model is made smaller on request: what flags mean, and what was lost, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from converter import check
from converter.errors import ConvertError
from ir.graph import Array, Graph, Node

if TYPE_CHECKING:  # loaded when something is to be quantized
    from cloud.compress.quantize import Quantized
    from cloud.compress.search import Build

KINDS = ("none", "fp16", "int8", "int16", "int8-weights", "int4-weights")
CALIBRATED = ("int8", "int16")  # kinds that store activations, too: in 8 or in 16 bits
# Of kinds that store weights alone: bits, and how many neighbours share a scale (0: a whole row).
STORED = {"fp16": (16, 0), "int8-weights": (8, 0), "int4-weights": (4, 32)}
# Default of `tol`. Float32: the largest difference over the largest value. Others: the root mean
# square of the difference over that of the value; 0.1 is 20 dB of signal to noise.
TOLERANCE = {
    "none": 1e-4, "fp16": 0.01, "int8": 0.1, "int16": 0.05, "int8-weights": 0.1,
    "int4-weights": 0.3,
}  # fmt: skip
LABELS = ("label", "labels")  # arrays of the check data that hold what is right
EXAMPLES = 8  # of random ones that noise is measured on where no data are given


@dataclass(frozen=True)
class Quantization:
    """What is asked for. `kind` and `group` are those of --quantize, the others flags by name."""

    kind: str = "none"
    group: int = 0
    calibrate: str = "min-max"
    equalize: bool = False
    correct_bias: bool = False
    keep_float: Sequence[str] = ()
    max_drop: float | None = None

    def __bool__(self) -> bool:
        return self.kind != "none"


@dataclass
class Found:
    """The smaller graph and what is said of it. `layers`: rows of source, op, sqnr_db and added;
    `score` has metric, float, quantized, max_drop, tried and on."""

    graph: Graph
    layers: list[dict[str, Any]]
    measured_on: str  # the rows that `layers` tell of
    whys: dict[str, str] = field(default_factory=dict)  # by source: why it is smaller or not
    unfit: dict[str, str] = field(default_factory=dict)  # what integers cannot do, and why
    kept_float: list[str] = field(default_factory=list)
    score: dict[str, Any] = field(default_factory=dict)


def parsed(quantize: str, **flags: Any) -> Quantization:
    """From `int8` or `int4-weights:group=64` and the flags. Raises ConvertError."""
    from cloud.compress.ranges import method_from_text
    from cloud.compress.weights import Scheme

    kind, _, rest = quantize.partition(":")
    settings = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    if kind not in KINDS or settings.keys() - {"group"} or (settings and kind not in STORED):
        raise ConvertError(
            f"quantize is {quantize!r}, want one of {', '.join(KINDS)}, the last two with :group=N"
        )
    try:
        method_from_text(flags.get("calibrate", "min-max"), kind == "int16")
        group = int(settings.get("group", STORED.get(kind, (0, 0))[1]))
        if kind in STORED:
            Scheme(STORED[kind][0], group)
    except ValueError as e:
        raise ConvertError(f"quantize {quantize}: {e}") from None
    asked = Quantization(kind, group, **flags)
    if kind not in CALIBRATED and (
        asked.equalize or asked.correct_bias or asked.calibrate != "min-max"
    ):
        raise ConvertError("calibrate, equalize and correct_bias are for quantize int8 and int16")
    if not asked and (asked.keep_float or asked.max_drop is not None):
        raise ConvertError("keep_float and max_drop are for quantize: everything is float32")
    if asked.max_drop is not None and not 0 <= asked.max_drop < 1:
        raise ConvertError(f"max_drop is {asked.max_drop}, want a share from 0 to below 1")
    return asked


def quantized(
    graph: Graph,
    asked: Quantization,
    calibration: Mapping[str, Array] | None,
    check_data: Mapping[str, Array] | None,
    examples: Callable[[int], Sequence[Mapping[str, Array]]],
) -> Found:
    """The graph as `asked` says, with the noise of every changed layer: on the check data where
    there are any, for what was chosen to suit samples looks better on these. `examples(n)`: n
    inputs at random, for where no data are given.

    With `max_drop`, as many of the noisiest layers stay float as keep the score within it: accuracy
    on the labels of the check data, else agreement of the largest output with the float model.
    """
    samples = _samples(graph, calibration or check_data, examples)
    build = _builder(graph, asked, samples, follows=bool(calibration))
    if calibration and asked.max_drop is None and not _are_examples(graph, check_data or {}):
        check_data = None
    data = Measured(check_data or samples, check.origin(calibration, check_data))
    if asked.max_drop is None:
        return _found(build(()), data, asked)
    return _within_drop(graph, asked, build, samples, data)


def _builder(
    graph: Graph, asked: Quantization, samples: Mapping[str, Array], follows: bool
) -> Build:
    """What makes the smaller graph, given the nodes that stay float. `follows`: stored weights are
    rounded for the samples, for these are real."""
    from cloud.compress.forms import INT8, INT16
    from cloud.compress.quantize import calibrated
    from cloud.compress.rounding import learned
    from cloud.compress.weights import Scheme, compressed_weights

    if asked.kind in STORED:
        scheme = Scheme(STORED[asked.kind][0], asked.group)
        rounding = learned(graph, samples) if follows and scheme.bits != 16 else None
        return lambda keep: compressed_weights(
            graph, scheme, keep_float=asked.keep_float, keep=keep, rounding=rounding
        )
    known = calibrated(
        graph,
        samples,
        method=asked.calibrate,
        equalize=asked.equalize,
        correct_bias=asked.correct_bias,
        form=INT16 if asked.kind == "int16" else INT8,
    )
    return lambda keep: known.quantized(keep_float=asked.keep_float, keep=keep)


@dataclass(frozen=True)
class Measured:
    """What figures are of, and where it comes from."""

    arrays: Mapping[str, Array]
    origin: str


def _found(
    made: Quantized, data: Measured, asked: Quantization, kept: Container[Node] = ()
) -> Found:
    from cloud.compress.noise import EXAMPLES, layer_noise
    from converter.explain import reasons

    whys = reasons(made, kept, asked.keep_float)
    unfit = {n.source or n.op.name: why for n, why in made.unfit.items()}
    count = min(EXAMPLES, min((len(a) for a in data.arrays.values()), default=0))
    measured_on = f"{count} {data.origin}"
    return Found(made.graph, _rows(layer_noise(made, data.arrays)), measured_on, whys, unfit)


def _within_drop(
    graph: Graph,
    asked: Quantization,
    build: Build,
    samples: Mapping[str, Array],
    data: Measured,
) -> Found:
    from cloud.compress.search import against, keep_until, ranked_sources

    assert asked.max_drop is not None
    check.check_data(graph, data.arrays, "check data")
    labels = next((np.asarray(data.arrays[k]) for k in LABELS if k in data.arrays), None)
    score, own = against(labels, graph, data.arrays)
    kept = keep_until(build, score, own - asked.max_drop, samples)
    if kept is None:
        raise ConvertError(
            f"max_drop {asked.max_drop:g}: not reached with every layer that quantizing changes in "
            "float32; want other data to calibrate and check with"
        )
    found = _found(kept.quantized, data, asked, kept.nodes)
    found.kept_float = ranked_sources(kept.nodes)
    found.score = {
        "metric": "agreement" if labels is None else "accuracy",
        "float": own, "quantized": kept.score, "max_drop": asked.max_drop, "tried": kept.tried,
        "on": data.origin,
    }  # fmt: skip
    return found


def _samples(
    graph: Graph,
    data: Mapping[str, Array] | None,
    examples: Callable[[int], Sequence[Mapping[str, Array]]],
) -> dict[str, Array]:
    """The data that was given, else random examples."""
    if data:
        check.check_data(graph, data, "calibration")
        return dict(data)
    parts = examples(EXAMPLES)
    firsts = {v.shape[:1] for v in graph.inputs}
    join = np.concatenate if len(firsts) == 1 and () not in firsts else np.stack
    return {name: join([p[name] for p in parts]) for name in parts[0]}


def _are_examples(graph: Graph, data: Mapping[str, Array]) -> bool:
    """Whether data are as many examples of each input, or whole inputs."""
    given = [(v.rank, data.get(v.name or "")) for v in graph.inputs]
    arrays = [(rank, a) for rank, a in given if a is not None]
    whole = any(a.ndim > rank for rank, a in arrays)
    return len(arrays) == len(given) and (whole or len({len(a) for _, a in arrays}) == 1)


def _rows(noise: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {"source": n.source, "op": n.operator, "sqnr_db": min(n.sqnr_db, 200.0), "added": n.added}
        for n in noise
    ]
