"""What a conversion did: printed for people, written as JSON for programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from ir.dtype import DType
from ir.graph import Graph
from lite_runtime.console import lines_text

# between integers and float32: no work of the model
BRIDGES = ("quantize", "quantize_16", "dequantize", "requantize")


@dataclass(frozen=True)
class Agreement:
    """How far one output is from the source model's, over all checked inputs.

    `relative`: the largest difference over the largest value; `rms`: the root of the mean square of
    the difference over that of the value; `odd`: how many of the source's `count` numbers are NaN
    or infinite, which count as right where they are the same. `step`: of an output that 8 bits
    hold, what one step is worth; a difference of no more is no error.
    """

    output: str
    max_difference: float
    relative: float
    rms: float
    odd: int = 0
    count: int = 0
    step: float = 0.0


@dataclass
class Report:
    """The result of `convert`."""

    source: str
    target: str
    source_kind: str
    source_bytes: int
    target_bytes: int = 0
    nodes_read: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    passes: list[dict[str, Any]] = field(default_factory=list)
    quantize: str = "none"
    int8_nodes: int = 0
    # of every node that quantizing changed: source, op, sqnr_db, added
    layers: list[dict[str, Any]] = field(default_factory=list)
    measured_on: str = ""  # the examples that `layers` tell of
    unchanging: list[str] = field(default_factory=list)  # inputs that calibration never varies
    unfit: dict[str, str] = field(default_factory=dict)  # nodes that integers cannot do, and why
    kept_float: list[str] = field(default_factory=list)  # nodes, for the sake of `score`
    # with max_drop: metric, float, quantized, max_drop, tried, on
    score: dict[str, Any] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    trainable: list[str] = field(default_factory=list)
    # with explain: for each node, node, op, type, from (nodes of the source) and why
    explain: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, str] = field(default_factory=dict)  # of entries, as the metadata promise it
    train_memory: str = ""  # what trains within the memory that was given
    checked_inputs: int = 0
    checked_on: str = ""  # where those inputs are from
    reference: str = ""  # whose answers the source's are
    fixed: str = ""  # free sizes of the source that can be but one number, as "batch = 1"
    tolerance: float = 0.0
    stays_float: str = ""  # why what the source quantizes is computed on floats: what int8 gives
    rounds: bool = False  # the source itself rounds to integers of 8 bits on the way
    agreement: list[Agreement] = field(default_factory=list)
    seconds: float = 0.0

    def error_of(self, found: Agreement) -> float:
        """What the tolerance limits: stored numbers are noise everywhere, float32 must be right
        everywhere."""
        return found.rms if self.noisy else found.relative

    @property
    def noisy(self) -> bool:
        """Whether a rounding that falls the other way is no mistake."""
        return self.rounds or self.quantize != "none"

    @property
    def worst(self) -> Agreement | None:
        return max(self.agreement, key=self.error_of, default=None)

    @property
    def agrees(self) -> bool:
        return all(self.error_of(a) <= self.tolerance for a in self.agreement)

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "agrees": self.agrees}, indent=2)

    def __str__(self) -> str:
        count = sum(self.nodes.values())
        kinds = ", ".join(f"{k} ×{n}" for k, n in sorted(self.nodes.items()))
        lines = [
            f"{self.source} ({self.source_kind}, {self.source_bytes:,} B) -> "
            f"{self.target} ({self.target_bytes:,} B) in {self.seconds:.1f} s",
            f"nodes: {self.nodes_read} read, {count} written: {kinds}",
        ]
        if self.stays_float:
            lines.append(f"what the source quantizes stays float; on int8 {self.stays_float}")
        lines += [f"sizes that can be no other: {self.fixed}"] if self.fixed else []
        if self.quantize != "none":
            lines += self._quantized(count)
        if "train" in self.entries:
            names = ", ".join(self.trainable) or "nothing"
            lines.append(f"entries: {', '.join(self.entries)}; trains {names}")
            lines += [self.train_memory] if self.train_memory else []
            planned = [f"{k.removeprefix('memory.')} {v}" for k, v in self.memory.items()]
            lines += [f"planned bytes: {'; '.join(planned)}"] if planned else []
        lines += [_explained(row) for row in self.explain]
        lines += [self._agreement_line(a) for a in self.agreement]
        return lines_text(lines)

    def _agreement_line(self, a: Agreement) -> str:
        text = f"agreement of {a.output} on {self.checked_inputs} {self.checked_on}: "
        text += f"largest difference {a.max_difference:.3g}, relative {a.relative:.3g}"
        if self.noisy:
            text += f", root mean square {a.rms:.3g} ({decibels(a.rms)})"
        text += f" (tolerance {self.tolerance:g}), against {self.reference}"
        if a.step and not self.noisy:
            text += f"; one step of its stored numbers is {a.step:.3g}"
        if a.odd:
            text += f"; {a.odd} of the source's {a.count} numbers are NaN or infinite, here too"
        return text

    def _quantized(self, count: int) -> list[str]:
        """What became of the layers, and how much each result differs from the float model's."""
        work = count - sum(self.nodes.get(k, 0) for k in BRIDGES)
        changed = self.int8_nodes or len(self.layers)
        lines = [f"quantized: {self.quantize}, {changed} of {work} nodes"]
        if s := self.score:
            kept = ", ".join(self.kept_float) or "nothing"
            lines.append(
                f"{s['metric']} on {s['on']}: {s['float']:.4f} in float32, "
                f"{s['quantized']:.4f} quantized (at most {s['max_drop']:g} less was wanted; "
                f"{s['tried']} tried); stays float32: {kept}"
            )
        lines += [
            f"warning: calibration: {name} is the same in every example, so ranges are of it alone"
            for name in self.unchanging
        ]
        lines += [f"stays float32: {node}: {why}" for node, why in self.unfit.items()]
        worst = sorted(self.layers, key=lambda row: row["sqnr_db"])[:3]
        texts = [f"{row['source'] or row['op']} {row['sqnr_db']:.0f} dB" for row in worst]
        on = f"noisiest layers, on {self.measured_on}: "
        lines += [on + ", ".join(texts)] if texts else []
        return lines + [
            f"  {row['sqnr_db']:5.1f} dB  adds {decibels(math.sqrt(row['added'])):>6}  "
            f"{row['op']:<20} {row['source']}"
            for row in self.layers
        ]


def _explained(row: dict[str, Any]) -> str:
    text = f"  {row['op']} {row['node'] or '(made here)'}: {row['type']}"
    parts = [p for p in row["from"] if p != row["node"]]
    text += f"; {row['why']}" if row["why"] else ""
    return text + (f"; with {', '.join(parts)}" if parts else "")


def decibels(rms: float) -> str:
    """The signal to noise ratio of a relative root mean square."""
    return f"{-20 * math.log10(rms):.0f} dB" if rms > 0 else "exact"


def count_nodes(graph: Graph) -> dict[str, int]:
    return dict(Counter(n.op.name for n in graph.nodes))


def count_int8(graph: Graph) -> int:
    """Nodes that compute on int8 or int16."""
    work = (n for n in graph.nodes if n.op.name not in BRIDGES)
    return sum(n.results[0].dtype in (DType.i8, DType.i16) for n in work)
