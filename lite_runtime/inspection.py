"""What a model file holds, as a report for people and for programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from lite_runtime.bench import kilobytes
from lite_runtime.console import lines_text
from lite_runtime.session import LiteError, Session, TensorInfo

Report = dict[str, Any]


def inspect_model(session: Session, file_bytes: int, signer: str | None) -> Report:
    """Everything about a model that fits a page, as plain data."""
    weights = session.weight_infos
    kinds: Counter[str] = Counter()
    for w in weights:
        kinds[w.kind] += w.size_bytes
    return {
        "file_bytes": file_bytes,
        "overhead_bytes": file_bytes - sum(w.size_bytes for w in weights),
        "signer": signer,
        "metadata": session.metadata,
        "symbols": {name: list(limits) for name, limits in session.symbols.items()},
        "weight_bytes": dict(kinds),
        "weights": [
            {"name": w.name, "kind": w.kind, "dtype": w.dtype.name, "shape": list(w.shape)}
            for w in weights
        ],
        "entries": {name: _entry(session, name) for name in session.entries},
    }


def report_text(report: Report) -> str:
    """The report as lines for a terminal."""
    lines = [
        f"file        {kilobytes(report['file_bytes'])}",
        f"overhead    {report['overhead_bytes']} bytes that are no weights",
        f"signature   {_signature(report)}",
        *(f"metadata    {key}: {value}" for key, value in report["metadata"].items()),
        *(
            f"dimension   {name}: {low} to {high}"
            for name, (low, high) in report["symbols"].items()
        ),
        *(f"weights     {kilobytes(size)} {kind}" for kind, size in report["weight_bytes"].items()),
    ]
    for name, entry in report["entries"].items():
        lines += ["", f"entry {name}", *_entry_lines(entry)]
    named = [w for w in report["weights"] if w["name"] or w["kind"] != "constant"]
    if named:
        lines += ["", "weights"]
    lines += [f"  {w['kind']:<10} {w['dtype']}{_shape(w['shape'])}  {w['name']}" for w in named]
    return lines_text(lines)


def _entry(session: Session, name: str) -> Report:
    nodes = session.nodes(name)
    entry: Report = {
        "inputs": [_tensor(i) for i in session.inputs(name)],
        "outputs": [_tensor(i) for i in session.outputs(name)],
        "nodes": len(nodes),
        "operators": dict(Counter(n.op for n in nodes).most_common()),
        "without_kernel": sorted({n.op for n in nodes if n.kernel == "none"}),
    }
    try:
        entry["planned_bytes"] = session.planned_bytes(name)
        entry["least_bytes"] = session.least_bytes(name)
    except LiteError as error:  # it may need larger sizes than the smallest ones
        entry["no_plan"] = str(error)
    return entry


def _tensor(info: TensorInfo) -> Report:
    return {"name": info.name, "dtype": np.dtype(info.dtype).name, "shape": list(info.shape)}


def _entry_lines(entry: Report) -> list[str]:
    lines = [
        *(f"  input     {t['name']}: {t['dtype']}{_shape(t['shape'])}" for t in entry["inputs"]),
        *(f"  output    {t['name']}: {t['dtype']}{_shape(t['shape'])}" for t in entry["outputs"]),
    ]
    operators = ", ".join(f"{op} {count}" for op, count in entry["operators"].items())
    lines.append(f"  nodes     {entry['nodes']}: {operators or 'none'}")
    if entry["without_kernel"]:
        lines.append(f"  no kernel {', '.join(entry['without_kernel'])}")
    if "no_plan" in entry:
        return [*lines, f"  memory    no plan: {entry['no_plan']}"]
    least = kilobytes(entry["least_bytes"])
    return [
        *lines,
        f"  memory    {kilobytes(entry['planned_bytes'])} planned; no plan needs less than {least}",
    ]


def _signature(report: Report) -> str:
    if report["signer"] is None:
        return "none"
    return f"by {report['signer']}, " + ("valid" if report.get("verified") else "not verified")


def _shape(shape: list[Any]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
