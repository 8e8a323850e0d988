"""What a conversion did: printed for people, written as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from ir.graph import Graph


@dataclass(frozen=True)
class Agreement:
    """Largest difference of one output from the source model's, over the largest value there."""

    output: str
    max_difference: float
    relative: float


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
    entries: list[str] = field(default_factory=list)
    trainable: list[str] = field(default_factory=list)
    checked_inputs: int = 0
    tolerance: float = 0.0
    agreement: list[Agreement] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def agrees(self) -> bool:
        return all(a.relative <= self.tolerance for a in self.agreement)

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
        if self.quantize != "none":
            lines.append(f"quantized: {self.quantize}")
        if "train" in self.entries:
            lines.append(f"entries: {', '.join(self.entries)}; trains {', '.join(self.trainable)}")
        for a in self.agreement:
            lines.append(
                f"agreement of {a.output} on {self.checked_inputs} inputs: largest difference "
                f"{a.max_difference:.3g}, relative {a.relative:.3g} (tolerance {self.tolerance:g})"
            )
        return "\n".join(lines)


def count_nodes(graph: Graph) -> dict[str, int]:
    return dict(Counter(n.op.name for n in graph.nodes))
