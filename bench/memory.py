"""How much memory runs take beside what no plan could do without: python -m bench.memory [--quick]

Every model of the other parts runs once. The bound is found here, from the nodes alone, without
alignment: the most bytes that are wanted at one node, by results that it or a later one reads and
by the scratch that its kernel asks for. Prints a table, beside it the bound of results alone; ends
with 1 where a run takes over 1.1 times its bound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import lite_runtime as lite
from bench import infer, training
from cloud.compile.pipeline import optimized_model
from cloud.train import Momentum, Trainer
from ir import model_file
from ir.op import OPS
from lite_runtime.bench import kilobytes, random_inputs
from lite_runtime.session import Session

MOST = 1.1
UPDATES = {op.name: op.updates for op in OPS.values()}


@dataclass(frozen=True)
class Memory:
    """Bytes of one entry of a model: planned, taken by a run, and the least that there can be."""

    case: str
    planned: int
    taken: int
    bound: int
    results: int  # the bound of a runtime whose kernels want no scratch

    @property
    def ratio(self) -> float:
        return self.taken / max(self.bound, 1)

    def __str__(self) -> str:
        numbers = self.planned, self.taken, self.bound, self.results
        sizes = "  ".join(f"{kilobytes(n):>12}" for n in numbers)
        return f"{self.case:<28} {sizes}  {self.ratio:.3f}"


def measure(quick: bool = False) -> Iterator[Memory]:
    """Every model of `bench.infer` in float32 and int8, and a step of every one that trains."""
    for name in training.CASES:
        session, inputs = trainer(name)
        yield of_run(f"{name} train", session, "train", inputs)
    for name in infer.QUICK_CASES if quick else infer.CASES:
        with tempfile.TemporaryDirectory() as folder:
            made = infer.Prepared(name, infer.CASES[name], Path(folder))
            for precision, path in made.ours.items():
                session = lite.load(path)
                yield of_run(f"{name} {precision}", session, "infer", random_inputs(session))


def trainer(name: str) -> tuple[Session, dict[str, object]]:
    """A net that trains, as the cloud hands it to the runtime, and a batch for it."""
    case = training.CASES[name]
    data, batches = training.example_data(case)
    made = Trainer(training.equal_weights(case)[0], data, optimizer=Momentum(0.01), metrics={})
    return lite.load(model_file.write(optimized_model(made.model))), {**batches[0], "lr": 0.01}


def of_run(case: str, session: Session, entry: str, inputs: dict[str, object]) -> Memory:
    """Runs the entry once and says what that took."""
    session.run(inputs, entry)
    bounds = (least_bytes(session, entry, scratch=s) for s in (True, False))
    return Memory(case, session.planned_bytes(entry), session.peak_bytes(entry), *bounds)


def least_bytes(session: Session, entry: str, *, scratch: bool) -> int:
    """The most bytes that one node of an entry wants: for results that it reads, writes, or that
    wait for a later one, and for its scratch. An elementwise result may lie where an input of its
    size lay that nothing reads any more. For entries without control flow."""
    nodes, sizes = session.nodes(entry), session.value_bytes(entry)
    fixed = len(session.weight_infos) + len(session.inputs(entry))  # ids of memory of others
    shown = list(range(len(sizes)))  # id -> the one whose bytes it shows
    last: dict[int, int] = {}
    for at, node in enumerate(nodes):
        if OPS[node.op].view:
            shown[node.outputs[0]] = shown[node.inputs[0]]
        last |= {shown[i]: at for i in (*node.inputs, *node.outputs) if i >= 0}
    last |= {shown[i]: len(nodes) for i in session.output_ids(entry)}
    alive: set[int] = set()
    most = 0
    for at, node in enumerate(nodes):
        made = {shown[i] for i in node.outputs if shown[i] >= fixed} - alive
        alive |= made
        ending = {i for i in alive - made if last[i] == at}
        wanted = sum(sizes[i] for i in alive) + (node.scratch_bytes if scratch else 0)
        if OPS[node.op].family in ("elementwise", "fused", "compare"):
            given, free = sorted(sizes[i] for i in made), [sizes[i] for i in ending]
            wanted -= sum(s for s in given if s in free)
        most = max(most, wanted)
        alive -= {i for i in alive if last[i] == at}
    return most


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="the smaller models alone")
    options = p.parse_args(arguments)
    heads = "  ".join(f"{head:>12}" for head in ("planned", "taken", "bound", "results"))
    print(f"{'':<28} {heads}  taken / bound")
    worst = 0.0
    for row in measure(options.quick):
        print(row, flush=True)
        worst = max(worst, row.ratio)
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
