"""How long each node of an entry takes."""

from __future__ import annotations

from dataclasses import dataclass

from lite_runtime.console import lines_text

RUN_OTHERS = ("cond", "while_loop", "call")  # their time is that of the nodes that they run


@dataclass(frozen=True)
class NodeTime:
    """A node of an entry. Ids below the number of weights are weights; -1 is left out."""

    op: str
    kernel: str  # the instruction set of its kernel, or "none"
    source: str  # where it comes from
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shape: tuple[int, ...]  # of its first result
    time_us: float  # mean of the runs
    read_bytes: int
    written_bytes: int
    multiply_adds: int = 0  # that its shapes ask for; 0 of operators that have none
    scratch_bytes: int = 0  # memory that its kernel works in
    graph: str = ""  # the sub-graph that it is in: its part in a node of control flow, and a number
    # how often it runs in one run of the entry, on average: where it takes the examples of a
    # batch one at a time, once for each
    calls: float = 0.0


@dataclass(frozen=True)
class Profile:
    """What `Session.profile` measured: every node, in the order in which they run; those of
    sub-graphs behind them. Nodes of control flow take the time of all that they run."""

    nodes: tuple[NodeTime, ...]
    runs: int

    @property
    def time_us(self) -> float:
        """The time of all nodes in one run."""
        return sum(n.time_us for n in self.nodes if not n.graph)

    def by_operator(self) -> list[tuple[str, int, float]]:
        """Operator, how many nodes, time of all of them in one run; slowest first. A node of
        control flow counts, but its time is theirs."""
        rows: dict[str, tuple[int, float]] = {}
        for node in self.nodes:
            count, time_us = rows.get(node.op, (0, 0.0))
            own_us = 0.0 if node.op in RUN_OTHERS else node.time_us
            rows[node.op] = count + 1, time_us + own_us
        return sorted(((op, *row) for op, row in rows.items()), key=lambda r: -r[2])

    def __str__(self) -> str:
        total = self.time_us or 1.0
        lines = [
            f"{'operator':<26} {'kernel':<6} {'result':<18} {'us':>10} {'%':>6} {'MB/s':>8} "
            f"{'GOP/s':>6}  source"
        ]
        for n in self.nodes:
            shape = "[" + ",".join(map(str, n.shape)) + "]"
            rate = (n.read_bytes + n.written_bytes) / n.time_us if n.time_us else 0.0
            where = f"{n.source} in {n.graph}, {n.calls:g} times" if n.graph else n.source
            lines.append(
                f"{n.op:<26} {n.kernel:<6} {shape:<18} {n.time_us:>10.1f} "
                f"{100 * n.time_us / total:>6.1f} {rate:>8.0f} {_speed(n):>6}  {where}"
            )
        lines.append(f"{'all':<26} {'':<6} {'':<18} {self.time_us:>10.1f} {100:>6.1f}")
        return lines_text(lines)


def _speed(node: NodeTime) -> str:
    """10^9 multiplications and additions a second, where there are some to count."""
    if not node.multiply_adds or not node.time_us:
        return ""
    times = node.calls if node.graph else 1  # examples one at a time: the shape has all of them
    return f"{2e-3 * node.multiply_adds * times / node.time_us:.1f}"
