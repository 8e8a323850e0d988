"""What a loop carries: slots of containers, which of their leaves are values, and of which type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cloud.parse.arithmetic import Arithmetic
from cloud.parse.errors import Mismatch
from cloud.parse.join import shape_of
from cloud.parse.structure import (
    NUMBER,
    NUMERIC,
    Spec,
    described,
    leaves,
    like,
    mapped,
    of_record,
    record,
    same_known,
)
from ir.graph import Value


@dataclass
class Slot:
    """One item of a container that changes from turn to turn."""

    container: Any
    key: Any
    initial: Any
    template: Any  # the item's structure, a Spec for each leaf that is a value
    blank: bool = False  # it is always set before it is read: its first value is zeros
    before: list[Value] = field(default_factory=list)  # parameters that stood for it earlier


def widened(machine: Arithmetic, template: Any, after: Any) -> Any:
    """The template of things that look like `template` or like `after`. Raises Mismatch."""
    if isinstance(template, Spec):
        return _wider_spec(machine, template, after)
    if isinstance(template, (tuple, list, dict)):
        return _wider_structure(machine, template, after)
    if same_known(template, after):
        return template
    if (names := record(template)) is not None and type(after) is type(template):
        held = {n: widened(machine, getattr(template, n), getattr(after, n)) for n in names}
        return of_record(type(template), held)
    if isinstance(template, NUMERIC) and isinstance(after, NUMERIC):
        return _wider_spec(machine, spec_of(machine, template), after)
    raise Mismatch(f"it is {described(template)} before and {described(after)} after")


def template_of(machine: Arithmetic, tree: Any) -> Any:
    """The structure with a Spec for each value; what is known stays."""
    if isinstance(tree, Value):
        return spec_of(machine, tree)
    return mapped(tree, lambda x: template_of(machine, x), lambda x: x)


def spec_of(machine: Arithmetic, x: Any) -> Spec:
    if isinstance(x, Value):
        return Spec(x.shape, x.dtype, machine.is_weak(x))
    if isinstance(x, NUMBER):
        return Spec((), machine.number_dtype(x), weak=True)
    v = machine.as_value(x)
    return Spec(v.shape, v.dtype)


def placed(template: Any, values: Iterator[Value]) -> Any:
    """The structure with the next value for each Spec."""
    if isinstance(template, Spec):
        return next(values)
    return mapped(template, lambda t: placed(t, values), lambda x: x)


def specs(template: Any) -> Iterator[Spec]:
    return (t for t in leaves(template) if isinstance(t, Spec))


def begun(template: Any, tree: Any) -> Iterator[Any]:
    """For each Spec the leaf of `tree` there."""
    pairs = zip(leaves(template), leaves(tree), strict=True)
    return (x for spec, x in pairs if isinstance(spec, Spec))


def operands(machine: Arithmetic, template: Any, tree: Any) -> Iterator[Value]:
    """For each Spec the leaf of `tree` there, as a value of that type. Raises Mismatch."""
    for spec, x in zip(leaves(template), leaves(tree), strict=True):
        if isinstance(spec, Spec):
            if not isinstance(x, NUMERIC) or shape_of(x) != spec.shape:
                raise Mismatch(f"it is {spec} and {described(x)}")
            yield machine.as_value(x, spec.dtype)


def _wider_spec(machine: Arithmetic, spec: Spec, after: Any) -> Spec:
    if isinstance(after, Spec):
        other = after
    elif isinstance(after, NUMERIC):
        other = spec_of(machine, after)
    else:
        raise Mismatch(f"it is {spec} before and {described(after)} after")
    if other.shape != spec.shape:
        raise Mismatch(f"it is {spec} before and {other} after")
    if other.dtype is spec.dtype:
        return Spec(spec.shape, spec.dtype, spec.weak and other.weak)
    if not (spec.weak or other.weak):
        raise Mismatch(f"it is {spec} before and {other} after")
    strong = other if spec.weak else spec
    if (spec.weak and other.weak) or (
        strong.dtype.is_float or not _weaker(spec, other).dtype.is_float
    ):
        dtype = machine.common_dtype(Value((), spec.dtype), Value((), other.dtype))
    else:
        dtype = machine.default_float
    return Spec(spec.shape, dtype, spec.weak and other.weak)


def _weaker(a: Spec, b: Spec) -> Spec:
    return a if a.weak else b


def _wider_structure(machine: Arithmetic, template: Any, after: Any) -> Any:
    if type(template) is not type(after) or len(template) != len(after):
        raise Mismatch(f"it is {described(template)} before and {described(after)} after")
    if isinstance(template, dict):
        if list(template) != list(after):
            raise Mismatch(f"it holds {list(template)} before and {list(after)} after")
        return {k: widened(machine, t, after[k]) for k, t in template.items()}
    items = [widened(machine, t, x) for t, x in zip(template, after, strict=True)]
    return like(template, items) if isinstance(template, tuple) else items
