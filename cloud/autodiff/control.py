"""Reverse mode of branches, loops and calls: each becomes two, one forward and one back.

The forward one gives what it gave, and a tape with what the backward one needs. A loop's derivative
is a loop, a recursion's a recursion: the number of nodes does not depend on how often they run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cloud.autodiff.fixed import fixed_inputs
from cloud.autodiff.split import Asked, Halves, Halving, Tapes
from cloud.autodiff.values import blank, or_zeros
from ir.dtype import DType
from ir.errors import GraphError
from ir.graph import Constant, Function, Graph, Node, Value, Weight
from ir.op import OPS
from ir.ops.control import new_tape
from ir.walk import functions

if TYPE_CHECKING:
    from cloud.autodiff.reverse import Reverse

TAPE = ((), DType.tape)


class Step(ABC):
    """What runs in place of a node of control flow, and how it pulls cotangents back.

    `given`: its inputs that vary; `seeded`: its results that vary and matter; `shared`: its inputs
    that are read later on, too.
    """

    results: Sequence[Value]  # in place of the node's own
    threaded: frozenset[int] = frozenset()  # inputs to whose cotangents so far it adds

    def __init__(
        self,
        reverse: Reverse,
        node: Node,
        inputs: Sequence[Value | None],
        given: frozenset[int],
        seeded: frozenset[int],
        shared: frozenset[int],
        tapes: Tapes,
    ) -> None:
        self.reverse = reverse
        self.node = node
        self.inputs: list[Value] = [v for v in inputs if v is not None]
        self.given = given
        self.seeded = sorted(seeded)
        self.shared = shared
        self.tapes = tapes
        self.tape: Value | None = None  # after its forward run; None: it keeps nothing
        self.run_forward()

    @property
    def keeps_order(self) -> bool:
        """Whether its backward run cannot be left out, for others' values lie below on the tape."""
        return self.tapes.inner and self.tape is not None

    @abstractmethod
    def run_forward(self) -> None:
        """Add what runs in place of the node."""

    @abstractmethod
    def pull(
        self, g: Sequence[Value | None], sums: dict[Value, Value], at: dict[Value, Value]
    ) -> dict[int, Value]:
        """Cotangents of inputs by position; those of weights are added to in `sums`.

        `at`: where the backward pass reads values; inputs that are restored stand there anew.
        """

    def tape_before(self) -> Value:
        return self.tapes.forward if self.tapes.inner else new_tape()

    def tape_after(self, tape: Value) -> None:
        self.tape = self.tapes.forward = tape

    def back_tape(self) -> Value:
        """The tape for the backward run."""
        assert self.tape is not None
        return self.tapes.backward if self.tapes.inner else self.tape

    def seeds(self, g: Sequence[Value | None]) -> list[Value]:
        """The cotangents of the results `seeded`, zeros where there are none."""
        return [or_zeros(g[i], self.results[i]) for i in self.seeded]

    def bars_before(self, sums: Mapping[Value, Value]) -> list[Value]:
        """The cotangents so far of the inputs `threaded`."""
        xs = [self.node.inputs[i] for i in sorted(self.threaded)]
        return [or_zeros(sums.get(x), x) for x in xs if x is not None]

    def inputs_at(self, at: Mapping[Value, Value]) -> list[Value]:
        return [at.get(v, v) for v in self.node.present_inputs]

    def restore(
        self, positions: Sequence[int], restored: Sequence[Value], at: dict[Value, Value]
    ) -> None:
        """From here on the backward pass reads inputs where they were restored."""
        for i, v in reversed(list(zip(positions, restored, strict=True))):
            x = self.node.inputs[i]
            if x is not None and not isinstance(x, (Constant, Weight)):
                at[x] = v

    def sums_before(self, sums: Mapping[Value, Value], leaves: Sequence[Value]) -> list[Value]:
        return [or_zeros(sums.get(v), v) for v in leaves]


class CondStep(Step):
    """cond(p, xs) -> cond(p, xs, tape); back: cond(p, tape, some ys, seeds, bars, sums, some xs)"""

    def run_forward(self) -> None:
        graphs = (self.node.attrs["then"], self.node.attrs["otherwise"])
        activity = self.reverse.activity
        given = frozenset(i - 1 for i in self.given if i)
        useful = [activity.inputs(g, frozenset(self.seeded)) for g in graphs]
        self.wanted = sorted(given & frozenset().union(*useful))
        self.threaded = self.shared.intersection(i + 1 for i in self.wanted)
        leaves = [v for g in graphs for v in self.reverse.read_by(g)]
        self.leaves = list(dict.fromkeys(leaves))
        halvings = [self._halving(g, given) for g in graphs]
        self.restored, self.read = [], []
        if self.reverse.again:
            self.restored = sorted({i for h in halvings for i in self.wanted if h.moves(i)})
            self.read = sorted({i for h in halvings for i in h.results_read(self.restored)})
        self.halves = [h.halves(self.read, self.restored) for h in halvings]
        self.handed = sorted({i for half in self.halves for i in half.handed})
        with_tape = any(half.tape for half in self.halves)
        then, otherwise = (half.forward(with_tape) for half in self.halves)
        tape = [self.tape_before()] if with_tape else []
        results = OPS["cond"](*self.inputs, *tape, then=then, otherwise=otherwise)
        self.results = results[: len(self.node.results)]
        if with_tape:
            self.tape_after(results[-1])

    def _halving(self, graph: Graph, given: frozenset[int]) -> Halving:
        return Halving(
            self.reverse,
            graph,
            given=given,
            seeded=self.seeded,
            wanted=self.wanted,
            threaded=[i - 1 for i in sorted(self.threaded)],
            leaves=self.leaves,
            handed=range(len(graph.inputs)),
        )

    def pull(
        self, g: Sequence[Value | None], sums: dict[Value, Value], at: dict[Value, Value]
    ) -> dict[int, Value]:
        with_tape = self.tape is not None
        then, otherwise = (half.reverse(with_tape, self.handed) for half in self.halves)
        predicate, *xs = self.inputs_at(at)
        operands = [
            *([self.back_tape()] if with_tape else []),
            *(at[self.node.results[i]] for i in self.read),
            *self.seeds(g),
            *self.bars_before(sums),
            *self.sums_before(sums, self.leaves),
            *(xs[i] for i in self.handed),
        ]
        found = list(OPS["cond"](predicate, *operands, then=then, otherwise=otherwise))
        if with_tape:
            self.tapes.backward = found.pop(0)
        self.restore([i + 1 for i in self.restored], found[: len(self.restored)], at)
        del found[: len(self.restored)]
        bars, new_sums = found[: len(self.wanted)], found[len(self.wanted) :]
        sums.update(zip(self.leaves, new_sums, strict=True))
        return {i + 1: bar for i, bar in zip(self.wanted, bars, strict=True)}


class LoopStep(Step):
    """while(state) -> while(state, turns, tape); back: while(tape, turns, some of the state, bars,
    sums, fixed)"""

    def run_forward(self) -> None:
        condition, body = self.node.attrs["condition"], self.node.attrs["body"]
        activity = self.reverse.activity
        given = activity.loop_active(body, self.given)
        self.live = sorted(given & activity.loop_useful(body, frozenset(self.seeded)))
        self.leaves = self.reverse.read_by(body)
        fixed = [i for i, v in enumerate(body.outputs) if v is body.inputs[i]]
        self.threaded = self.shared.intersection(fixed, self.live)
        halving = Halving(
            self.reverse,
            body,
            given=given,
            seeded=self.live,
            wanted=self.live,
            leaves=self.leaves,
            free=fixed,
            is_loop=True,
        )
        moving = [i for i in self.live if i not in fixed]
        self.carried = halving.carried(moving) if self.reverse.again else []
        self.half = halving.halves(self.carried, self.carried)
        with_tape = self.half.tape is not None
        turns = Value((), DType.i32, name=self.half.names("turns"))
        more = [blank(turns), *([Value(*TAPE)] if with_tape else [])]
        results = OPS["while_loop"](
            *self.inputs,
            _int(0),
            *([self.tape_before()] if with_tape else []),
            condition=Graph((*condition.inputs, *more), condition.outputs),
            body=self.half.forward(with_tape, (turns, turns + _int(1))),
        )
        n = len(self.node.results)
        self.results, self.turns = results[:n], results[n]
        if with_tape:
            self.tape_after(results[-1])

    def pull(
        self, g: Sequence[Value | None], sums: dict[Value, Value], at: dict[Value, Value]
    ) -> dict[int, Value]:
        with_tape = self.tape is not None
        left = Value((), DType.i32, name=self.half.names("left"))
        body = self.half.reverse(with_tape, self.half.handed, (left, left - _int(1)), is_loop=True)
        inputs, after = self.inputs_at(at), dict(enumerate(g))
        for i, bar in zip(sorted(self.threaded), self.bars_before(sums), strict=True):
            after[i] = bar if after[i] is None else bar + after[i]
        operands = [
            *([self.back_tape()] if with_tape else []),
            self.turns,
            *(at[self.node.results[i]] for i in self.carried),
            *(or_zeros(after[i], self.results[i]) for i in self.live),
            *self.sums_before(sums, self.leaves),
            *(inputs[i] for i in self.half.handed),
        ]
        is_left = Graph(body.inputs, (OPS["greater"](left, _int(0)),))
        found = list(OPS["while_loop"](*operands, condition=is_left, body=body))
        if with_tape:
            self.tapes.backward = found.pop(0)
        n, m = 1 + len(self.carried), 1 + len(self.carried) + len(self.live)
        self.restore(self.carried, found[1:n], at)
        sums.update(zip(self.leaves, found[m:], strict=False))
        return dict(zip(self.live, found[n:m], strict=True))


class CallStep(Step):
    """call(xs; f) -> call(xs, tape; f_forward); back: call(tape, some ys, seeds, bars, sums, xs
    that stay the same in all calls, or that it reads; f_backward)

    With `remat` the call stays as it is, and back is call(xs, seeds, bars, sums; f_again), which
    runs f_forward on xs and then f_backward: of it, too, a derivative keeps its operands alone.
    """

    def run_forward(self) -> None:
        f = self.node.attrs["body"]
        useful = self.reverse.activity.inputs(f.graph, frozenset(self.seeded))
        self.threaded = self.shared & self.given & useful
        self.halves = self._halves(f, sorted(self.given & useful))
        n = len(self.node.results)
        if self.node.attrs["remat"]:
            same = self.node.op.node(self.inputs, self.node.attrs, self.node.source)
            self.results = same.results
            return
        results = OPS["call"](*self.inputs, self.tape_before(), body=self.halves.forward)
        self.results = results[:n]
        self.tape_after(results[n])

    def pull(
        self, g: Sequence[Value | None], sums: dict[Value, Value], at: dict[Value, Value]
    ) -> dict[int, Value]:
        halves, inputs = self.halves, self.inputs_at(at)
        seeds = [*self.seeds(g), *self.bars_before(sums), *self.sums_before(sums, halves.leaves)]
        if self.node.attrs["remat"]:
            found = list(OPS["call"](*inputs, *seeds, body=halves.both(), remat=True))
            self.reverse.late.add(found[0].node)
        else:
            asked = halves.asked
            results = [at[self.node.results[i]] for i in asked.results]
            handed = [inputs[i] for i in asked.inputs]
            self.tapes.backward, *found = OPS["call"](
                self.back_tape(), *results, *seeds, *handed, body=halves.reverse
            )
            self.restore(asked.restored, found[: len(asked.restored)], at)
            del found[: len(asked.restored)]
        bars, new_sums = found[: len(halves.wanted)], found[len(halves.wanted) :]
        sums.update(zip(halves.leaves, new_sums, strict=True))
        return dict(zip(halves.wanted, bars, strict=True))

    def _halves(self, f: Function, wanted: list[int]) -> Halves:
        """Both halves of a function, made once for each set of inputs and results that matter.

        What they hand each other is found by trying, for the function may call itself: first
        nothing, then what the last try asked for.
        """
        reverse = self.reverse
        key = (f, self.given, frozenset(self.seeded), self.threaded)
        if key in reverse.halves:
            return reverse.halves[key]
        others = set(reverse.halves)
        asked = Asked([], [], fixed_inputs(f))
        while True:
            halves = reverse.halves[key] = self._declared(f, wanted, asked)
            halving = Halving(
                reverse,
                f.graph,
                given=self.given,
                seeded=self.seeded,
                wanted=wanted,
                threaded=sorted(self.threaded),
                leaves=halves.leaves,
                free=asked.inputs,
            )
            before, asked = asked, halving.asked(wanted, asked) if reverse.again else asked
            if asked == before:
                break
            for other in reverse.halves.keys() - others:
                if f in functions(other[0].graph):
                    del reverse.halves[other]  # it calls the last try
        half = halving.halves(asked.results, asked.restored)
        halves.forward.graph = half.forward(True)
        halves.reverse.graph = half.reverse(True, asked.inputs)
        return halves

    def _declared(self, f: Function, wanted: list[int], asked: Asked) -> Halves:
        """Both halves without their graphs."""
        leaves = self.reverse.read_by(f.graph)
        of_leaves = [(v.shape, v.dtype) for v in leaves]
        sums = [*(f.inputs[i] for i in sorted(self.threaded)), *of_leaves]
        handed = [*(f.results[i] for i in (*asked.results, *self.seeded)), *sums]
        handed += (f.inputs[i] for i in asked.inputs)
        back = [*(f.inputs[i] for i in (*asked.restored, *wanted)), *of_leaves]
        return Halves(
            Function(f"{f.name}_forward", [*f.inputs, TAPE], [*f.results, TAPE]),
            Function(f"{f.name}_backward", [TAPE, *handed], [TAPE, *back]),
            wanted,
            leaves,
            asked,
        )


def segmented(node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """A loop as a loop over calls that run up to `every` turns each, and are computed again.

    So the outer loop keeps each such state, and only one call's tape is there at a time.
    """
    condition, body, every = (node.attrs[k] for k in ("condition", "body", "every"))
    if any(v.dtype is DType.tape for v in node.results):
        raise GraphError(
            f"{node!r}: a loop that carries a tape cannot keep each {every}th state, for a tape is "
            "not kept on a tape; want it without remat, or with an array in the tape's place"
        )
    turn = Value((), DType.i32)
    below = OPS["less"](turn, _int(every))
    state = [Value(v.shape, v.dtype) for v in body.inputs]
    _, *last = OPS["while_loop"](
        _int(0),
        *state,
        condition=Graph(
            (turn, *condition.inputs), (OPS["logical_and"](below, condition.outputs[0]),)
        ),
        body=Graph((turn, *body.inputs), (turn + _int(1), *body.outputs)),
    )
    segment = Function.of("segment", Graph(tuple(state), tuple(last)))
    outer = tuple(Value(v.shape, v.dtype) for v in body.inputs)
    after = OPS["call"](*outer, body=segment, remat=True)
    kept = [
        x if old is new else y
        for old, new, x, y in zip(body.inputs, body.outputs, outer, after, strict=True)
    ]
    return OPS["while_loop"](*inputs, condition=condition, body=Graph(outer, tuple(kept)))  # type: ignore[no-any-return]


def _int(n: int) -> Constant:
    return Constant(n, dtype=DType.i32)
