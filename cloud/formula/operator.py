"""Operators from formulas: called like any operator, differentiable without a rule."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from cloud.compile.cache import Cache
from cloud.formula.affine import Gathered
from cloud.formula.language import FormulaError
from cloud.formula.lower import Step, lower
from cloud.formula.report import Report, iterations
from cloud.formula.statements import Reader, tensors_of
from ir.dtype import DType
from ir.formula.program import MAX, MIN, SUM
from ir.graph import Constant, Value, shape_text
from ir.op import OPS
from ir.ops.composed import composed_grad
from ir.symbol import Dim

MEET = {SUM: "add", MAX: "maximum", MIN: "minimum"}


class Formula:
    """An operator whose elements a text, or the body of a function, gives.

        matmul = formula("y[i, j] = reduce_sum(k, a[i, k] * b[k, j])")

        @formula
        def rows(x, *, stride=1):
            n = range(x.shape[0] // stride)
            y[n, j] = x[n * stride, j]

    A text's inputs are in the order of their first use; a function's are its parameters, and its
    keyword-only ones are attributes, like what is given beside a text. Called on values it adds
    nodes to their graph; on arrays it runs in the mode that is set.
    """

    def __init__(self, source: str | Callable[..., Any], **attrs: Any) -> None:
        if callable(source):
            self.text = textwrap.dedent(inspect.getsource(source))
            self.__name__ = source.__name__
            self.__doc__ = source.__doc__
            definition = ast.parse(self.text).body[0]
            assert isinstance(definition, ast.FunctionDef)
            parameters = inspect.signature(source).parameters.values()
            self.inputs = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
            attrs = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY} | attrs
            body = definition.body
        else:
            self.text = textwrap.dedent(source).strip("\n")
            try:
                body = ast.parse(self.text).body
            except SyntaxError as e:
                raise FormulaError(f"formula, line {e.lineno}: {e.msg}") from None
            self.inputs = tensors_of(body)
            self.__name__ = "formula"
        self.body = [s for s in body if not _is_docstring(s)]
        self.attrs = attrs
        self.rules: dict[str, Callable[..., Any]] = {}
        self._steps = Cache(most=256)
        if not self.body or not self.inputs:
            raise FormulaError("formula: want at least one input and one result, `y[i] = …`")

    @property
    def result(self) -> str:
        """The name of what the last statement gives."""
        last = self.body[-1]
        target: Any = last.target if isinstance(last, ast.AugAssign) else last.targets[0]  # type: ignore[attr-defined]
        return str(getattr(target, "value", target).id)

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        if not any(isinstance(x, Value) for x in inputs):
            from cloud.jit import call

            return call(self, *inputs, **attrs)
        values = [x if isinstance(x, Value) else Constant(x) for x in inputs]
        self._check_count(values)
        if unknown := attrs.keys() - self.attrs.keys():
            raise FormulaError(f"{self.__name__}: no attribute {sorted(unknown)}")
        attrs = self.attrs | attrs
        y = self.automatic(values, attrs)
        return self._with_rules(y, values, attrs) if self.rules else y

    def gradient(self, name: str, rule: Callable[..., Any] | None = None) -> Any:
        """Set what the gradient by input `name` is, in place of the automatic one.

        `rule` is a formula, or a function, of tensors that it names: inputs of this formula, its
        result, and `g`, the cotangent of that. Without it: a decorator. The rule's own derivatives
        are automatic again unless it has rules.
        """
        if name not in self.inputs:
            raise FormulaError(f"{self.__name__}: no input {name}, want one of {self.inputs}")
        if rule is None:
            return lambda f: self.gradient(name, f)
        self.rules[name] = rule
        return rule

    def steps(self, values: list[Value], attrs: Mapping[str, Any]) -> list[Step | Gathered]:
        """What the formula does for inputs like these, made once for each form."""
        shapes = {n: v.shape for n, v in zip(self.inputs, values, strict=True)}
        key = (*shapes.values(), *sorted(attrs.items()))
        return self._steps.get(key, lambda: lower(self.reader(shapes, attrs)))

    def reader(self, shapes: Mapping[str, Sequence[Dim]], attrs: Mapping[str, Any]) -> Reader:
        """The formula, read for inputs of these shapes."""
        reader = Reader(self.text, shapes, attrs)
        for s in self.body:
            reader.read(s)
        if not reader.statements:
            raise FormulaError(f"{self.__name__}: want a result, `y[i] = …`")
        return reader

    def iterations(self, *inputs: Any, **attrs: Any) -> Report:
        """How many iterations the formula and its first derivatives run, and how many are of use.

        `inputs`: arrays or shapes. `print` shows a table.
        """
        self._check_count(inputs)
        given = (x if isinstance(x, tuple) else np.shape(x) for x in inputs)
        shapes = dict(zip(self.inputs, given, strict=True))
        return iterations(self.reader(shapes, self.attrs | attrs))

    def automatic(self, values: list[Value], attrs: Mapping[str, Any]) -> Value:
        """The result on values, without the rules given."""
        known: dict[str, Value] = dict(zip(self.inputs, values, strict=True))
        last = values[0]
        for step in self.steps(values, attrs):
            if isinstance(step, Gathered):
                indices = known[step.indices]
                if indices.dtype is not DType.i32:
                    raise FormulaError(f"formula: {step.indices} chooses, want int32 in it")
                last = OPS["gather"](known[step.table], indices, axis=step.axis)
            else:
                last = _run(step, known)
            known[step.name] = last
        return last

    def _check_count(self, inputs: Sequence[Any]) -> None:
        if len(inputs) != len(self.inputs):
            wanted = ", ".join(self.inputs)
            raise FormulaError(f"{self.__name__}: {len(inputs)} inputs, want {wanted}")

    def _with_rules(self, y: Value, values: list[Value], attrs: Mapping[str, Any]) -> Value:
        from cloud.custom import _with_gradient

        floats = [n for n, v in zip(self.inputs, values, strict=True) if v.dtype.is_float]
        named = dict(zip(self.inputs, values, strict=True))

        def pulled(g: Value) -> tuple[list[Value], list[Any]]:
            found = dict(zip(self.inputs, self._pulled(values, attrs, g), strict=True))
            for name, rule in self.rules.items():
                found[name] = _call_rule(rule, {**named, self.result: y, "g": g}, attrs)
                if found[name].shape != named[name].shape:
                    raise FormulaError(
                        f"{self.__name__}: the rule for {name} gives "
                        f"{shape_text(found[name].shape)}, want {shape_text(named[name].shape)}"
                    )
            return [found[n] for n in floats], []

        return _with_gradient([y], [named[n] for n in floats], pulled, reads_weights=False)[0]

    def _pulled(self, values: list[Value], attrs: Mapping[str, Any], g: Value) -> list[Any]:
        """The automatic gradients, zeros where there is none."""
        from cloud.autodiff import zeros_like

        found = composed_grad(lambda *xs: (self.automatic(list(xs), attrs),), values, [g])
        return [zeros_like(v) if d is None else d for d, v in zip(found, values, strict=True)]


def formula(source: str | Callable[..., Any] | None = None, **attrs: Any) -> Any:
    """An operator from a formula: `Formula(source, **attrs)`, also as a decorator of a function."""
    if source is None:
        return lambda f: Formula(f, **attrs)
    return Formula(source, **attrs)


def _run(step: Step, known: Mapping[str, Value]) -> Value:
    values = [_as_float(known[n]) for n in step.tensors]
    made = [
        OPS["formula"](*(values[i] for i in p.inputs), sizes=step.sizes, program=p.program)
        for p in step.parts
    ]
    if not step.product:
        return reduce(OPS[MEET[step.kind]], made)
    factors = reduce(OPS["add"], made) + 1.0
    axes = range(factors.rank - step.product, factors.rank)
    return OPS["reduce_prod"](factors, axes=tuple(axes))


def _as_float(v: Value) -> Value:
    """Integers and truth values are read as numbers."""
    return v if v.dtype.is_float else OPS["cast"](v, to="f32")


def _call_rule(rule: Callable[..., Any], named: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    """A rule on those of the tensors, and with those of the attributes, that it names."""
    if isinstance(rule, Formula):
        wanted, options = rule.inputs, rule.attrs.keys() & attrs.keys()
    else:
        parameters = inspect.signature(rule).parameters.values()
        wanted = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        options = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} & attrs.keys()
    if missing := [n for n in wanted if n not in named]:
        raise FormulaError(f"formula: a rule reads {missing[0]}, want one of {list(named)}")
    return rule(*(named[n] for n in wanted), **{k: attrs[k] for k in options})


def _is_docstring(s: ast.stmt) -> bool:
    return isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
