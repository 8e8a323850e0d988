"""When each node of some runs began and ended, as a trace that browsers and Perfetto draw."""

from __future__ import annotations

import json
from typing import Any

from lite_runtime.session import Session

MOST_EVENTS = 100_000


def chrome_trace(
    session: Session, inputs: dict[str, Any], entry: str | None = None, *, runs: int = 10
) -> str:
    """Run an entry `runs` times and give the events as JSON of Chrome's trace format (open it at
    chrome://tracing or ui.perfetto.dev): a span for each run, in it one for each node, and in those
    of control flow the nodes that they run. Times are in microseconds from the first node on.

    At most MOST_EVENTS nodes are kept; `otherData` says how many there was no room for.
    """
    graphs = session.graph_nodes(entry)
    spans, nodes, lost = [], [], 0
    for run in range(runs):
        session.trace(MOST_EVENTS // runs)
        session.run(inputs, entry)
        events, more = session.trace(0)
        lost += more
        nodes += events
        if events:
            first, last = min(e.start_ns for e in events), max(e.end_ns for e in events)
            spans.append((f"run {run}", first, last))
    origin = min((start for _, start, _ in spans), default=0)
    rows = [_span(name, "run", start - origin, end - start, {}) for name, start, end in spans]
    for e in nodes:
        node = graphs[e.graph][e.node]
        about = {"node": e.node, "kernel": node.kernel, "source": node.source, "graph": node.graph}
        about["shape"] = list(node.shape)
        rows.append(_span(node.op, "node", e.start_ns - origin, e.end_ns - e.start_ns, about))
    other = {"entry": session.entry_name(entry), "nodes without room": lost}
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": other})


def _span(name: str, kind: str, start_ns: int, length_ns: int, about: dict[str, Any]) -> dict:
    """A complete event; those that lie in others on the same line are drawn below them."""
    times = {"ts": start_ns / 1e3, "dur": length_ns / 1e3}
    return {"name": name, "cat": kind, "ph": "X", "pid": 1, "tid": 1, **times, "args": about}
