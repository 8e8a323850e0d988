"""Functions that call themselves as data decide: one `Function` of the graph, called by nodes.

A call that is under way is met again inside a branch that data choose: then the outer call starts
anew as a function of the graph. The types of its results come from a fixed point: a call of it
inside itself tells nothing at first, so the branch that does not recurse tells them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloud.parse.base import Activation
from cloud.parse.capture import Closing
from cloud.parse.errors import Disagreement, Diverges, Mismatch, NotKnown, Restart
from cloud.parse.loops import Loops
from cloud.parse.plan import begun, operands, placed, specs, template_of, widened
from cloud.parse.state import Region, contents
from cloud.parse.structure import Spec, leaves
from ir.graph import Function, Value

MOST_ROUNDS = 12
MOST_INLINED = 64  # how deep a recursion is unrolled that does not fit a function


class Recursion(Loops):
    def activate(
        self, identity: Any, name: str, arguments: dict[str, Any], run: Callable[[Any], Any]
    ) -> Any:
        """run(arguments), or a call of the function that it turned out to be."""
        again = self._met_again(identity, arguments)
        if again is not None:
            return again[0]
        act = Activation(identity, arguments, self.staged_depth)
        region = Region(staged=False)
        self.regions.append(region)
        self.activations.append(act)
        frames = len(self.frames)
        try:
            result = run(arguments)
        except Restart as r:
            self._unwind(region, frames)
            if r.activation is not act:
                raise
            return self._as_function(act, name, r.template, run)
        except BaseException:
            self._unwind(region, frames)
            raise
        self.regions.pop()
        self.activations.pop()
        self.commit(region)
        return result

    def call_remat(self, f: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """f as a function of the graph of which a derivative keeps the arguments alone."""
        self.check_watch()
        arguments = {"args": args, "kwargs": kwargs}
        template = template_of(self, arguments)
        act = Activation(object(), arguments, self.staged_depth, template=template)
        self._build(act, name, lambda a: self.call(f, a["args"], a["kwargs"]))
        return self._call(act, arguments, remat=True)

    def _unwind(self, region: Region, frames: int) -> None:
        del self.regions[self.regions.index(region) :]
        self.activations.pop()
        del self.frames[frames:]
        region.restore()

    def _met_again(self, identity: Any, arguments: dict[str, Any]) -> tuple[Any] | None:
        """The result of a call of a function that is under way and that data led back to."""
        found = [a for a in self.activations if a.identity == identity]
        if not found:
            return None
        act = found[-1]
        if act.inlined:
            if len(found) > MOST_INLINED:
                raise self.not_known(
                    f"recursion more than {MOST_INLINED} deep that data decide on and whose "
                    "numbers must be known",
                    "let only values change from call to call",
                )
            return None
        if act.staged_depth == self.staged_depth:
            return None
        start = template_of(self, act.arguments) if act.template is None else act.template
        try:
            template = widened(self, start, arguments)
        except Mismatch:
            return None  # it runs down a structure
        if act.template is None or template != act.template:
            raise Restart(act, template)
        if act.function is None:
            raise Diverges(frozenset([act]))
        return (self._call(act, arguments),)

    def _as_function(
        self, act: Activation, name: str, template: Any, run: Callable[[Any], Any]
    ) -> Any:
        """Build the function and call it; where it needs numbers, unroll it after all."""
        self.check_watch()
        inner = Activation(act.identity, act.arguments, self.staged_depth, template=template)
        try:
            self._build(inner, name, run)
        except NotKnown:
            return self._inlined(act, run)
        except Disagreement:
            if inner.results is not None:
                raise
            return self._inlined(act, run)
        return self._call(inner, act.arguments)

    def _inlined(self, act: Activation, run: Callable[[Any], Any]) -> Any:
        self.activations.append(Activation(act.identity, act.arguments, 0, inlined=True))
        try:
            return run(act.arguments)
        finally:
            self.activations.pop()

    def _build(self, act: Activation, name: str, run: Callable[[Any], Any]) -> None:
        for _ in range(MOST_ROUNDS):
            if self._build_once(act, name, run):
                return
        raise self.disagreement(f"{name}: another type of result in every call")

    def _build_once(self, act: Activation, name: str, run: Callable[[Any], Any]) -> bool:
        """Trace the body; whether what was assumed of the function was right."""
        if act.results is not None:
            inputs = [(s.shape, s.dtype) for s in specs(act.template)]
            inputs += [(v.shape, v.dtype) for v in act.captures]
            results = [(s.shape, s.dtype) for s in specs(act.results)]
            act.function = Function(name, inputs, results)
        parameters, region, out = self._trace_body(act, name, run)
        if out is None:
            return False
        if act.results is None:
            act.results = template_of(self, out)
            return False
        try:
            results_template = widened(self, act.results, out)
        except Mismatch as m:
            raise self.disagreement(f"{name}: its results differ from call to call: {m}") from None
        if results_template != act.results:
            act.results = results_template
            return False
        body = Closing(region.start, parameters)
        roots = body.close(operands(self, act.results, out))
        missing = [v for v in body.captured if v not in act.captures]
        if missing:
            act.captures += missing
            return False
        act.function.graph = body.graph(roots, act.captures)
        return True

    def _trace_body(
        self, act: Activation, name: str, run: Callable[[Any], Any]
    ) -> tuple[list[Value], Region, Any]:
        region = Region(staged=True)
        self.regions.append(region)
        self.activations.append(act)
        frames = len(self.frames)
        parameters = [Value(s.shape, s.dtype) for s in specs(act.template)]
        for v, s in zip(parameters, specs(act.template), strict=True):
            self.weakly(v, s.weak)
        given = begun(act.template, act.arguments)
        self.origins.update({p: [x] for p, x in zip(parameters, given, strict=True)})
        arguments = self.owned(placed(act.template, iter(parameters)))
        depth, act.staged_depth = act.staged_depth, self.staged_depth
        try:
            out = run(arguments)
            self._check_writes(region, name)
        except Restart as r:
            if r.activation is not act:
                raise
            act.template, act.results, act.function = r.template, None, None
            out = None
        except Diverges as d:
            if others := d.activations - {act}:
                raise Diverges(others) from None
            raise self.refused(
                f"{name} calls itself in every branch", "let one branch return without a call"
            ) from None
        finally:
            act.staged_depth = depth
            self._unwind(region, frames)
        return parameters, region, out

    def _check_writes(self, region: Region, name: str) -> None:
        for c, before in region.written.values():
            now = contents(c)
            same = list(now) == list(before) and all(now[k] is before[k] for k in now)
            if not region.is_own(c) and not same:
                raise self.refused(
                    f"{name} calls itself and changes what is outside of it",
                    "return the new state in place of changing it",
                )

    def _call(self, act: Activation, arguments: Any, *, remat: bool = False) -> Any:
        inputs = list(operands(self, act.template, arguments))
        results = self.op("call", *inputs, *act.captures, body=act.function, remat=remat)
        tree = self.owned(placed(act.results, iter(results)))
        for v, s in zip(leaves(tree), leaves(act.results), strict=True):
            if isinstance(s, Spec):
                self.weakly(v, s.weak)
        return tree
