"""Places of a source model that cannot be converted: all of them at once, with what would help."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from converter.errors import ConvertError, Place, UnsupportedError
from lite_runtime.console import printable

NAMED = 8  # places of one kind that a line names; all are in `places`
MOST = 1000  # places after which nobody looks for more
CUT = "cut the graph before it (--output) and do it in the program around the model"
HINTS = {
    "StringNormalizer": f"models hold no text: {CUT}",
    "RegexFullMatch": f"models hold no text: {CUT}",
    "StringConcat": f"models hold no text: {CUT}",
    "StringSplit": f"models hold no text: {CUT}",
    "ConstantFill": "ONNX took it back before it was one of its own: export with opset 9 or later",
    "ImageDecoder": f"decode images before: {CUT}",
}
DOMAIN_HINTS = {
    "com.microsoft": "export, or save, without ONNX Runtime's graph optimisations",
    "ai.onnx.ml": f"classical models are not for this runtime: {CUT}",
    "ai.onnx.preview.training": "convert the model for inference, with --train",
}


def operator_of(node: Any, domains: Sequence[str]) -> str:
    """What a node's rule is found by; that of a domain which is not ONNX's own has it in front."""
    return str(node.op_type if node.domain in domains else f"{node.domain}.{node.op_type}")


class Problems:
    """Collects places while a model is read. What depends on one of them is not tried."""

    def __init__(self, known: Collection[str], domains: Sequence[str]) -> None:
        self.known, self.domains = known, domains
        self.places: list[Place] = []
        self.broken: set[str] = set()  # names of values that no node made
        self.first: ConvertError | None = None

    def attempt(self, index: int, node: Any, read: Callable[[], None]) -> None:
        """Read a node, unless it is known not to go; an error of its own is a place."""
        kind = operator_of(node, self.domains)
        depends = any(name in self.broken for name in node.input if name)
        failed = kind not in self.known
        if failed:
            hint = nearest(node.op_type, node.domain, self.known)
            self.places.append(_place(kind, node.name, index, "no such operator", hint))
        elif not depends:
            try:
                read()
            except ConvertError as e:
                failed = True
                self.first = self.first or e
                reason = str(e).removeprefix(f"node {index} {node.op_type} {node.name!r}: ")
                self.places.append(_place(kind, node.name, index, reason))
        if failed or depends:
            self.broken.update(name for name in node.output if name)
        if len(self.places) >= MOST:
            self.raise_if_any()

    def raise_if_any(self) -> None:
        """Raise UnsupportedError that names every place, or the one error that there is."""
        if not self.places:
            return
        if len(self.places) == 1 and self.first is not None:
            raise _with_places(self.first, self.places)
        raise _with_places(UnsupportedError(_text(self.places)), self.places)


def nearest(operator: str, domain: str, known: Collection[str]) -> str:
    """What to do about an operator that there is none of."""
    if domain in DOMAIN_HINTS:
        return DOMAIN_HINTS[domain]
    if operator in HINTS:
        return HINTS[operator]
    if body := _standard_body(operator, domain):
        return f"ONNX defines it by {', '.join(body)}: write it out with onnx.inliner"
    close = difflib.get_close_matches(operator, known, 1)
    return f"did you mean {close[0]}?" if close else CUT


def _standard_body(operator: str, domain: str) -> list[str]:
    """The operators by which the ONNX standard defines this one; none where it does not."""
    import onnx

    try:
        schema = onnx.defs.get_schema(operator, domain=domain)
    except Exception:  # onnx's own error type is not public
        return []
    return sorted({n.op_type for n in schema.function_body.node}) if schema.has_function else []


def _place(operator: str, name: str, index: int, reason: str, hint: str = "") -> Place:
    """A place whose names, which may be any text, are one line."""
    return Place(printable(operator), printable(name), index, reason, hint)


def _with_places(error: ConvertError, places: Sequence[Place]) -> ConvertError:
    error.places = tuple(places)
    return error


def _text(places: Sequence[Place]) -> str:
    """Operators that are unknown, then those that are used in a way that is, each with names."""
    kinds: dict[tuple[str, str, str], list[Place]] = {}
    for place in places:
        kinds.setdefault((place.operator, place.reason, place.hint), []).append(place)
    unknown = [_kind(*key[::2], same) for key, same in kinds.items() if key[2]]
    used = [f"{_kind(key[0], '', same)}: {key[1]}" for key, same in kinds.items() if not key[2]]
    parts = [f"unsupported operators: {', '.join(sorted(unknown))}"] if unknown else []
    parts += [f"unsupported uses: {'; '.join(used)}"] if used else []
    return "; ".join(parts)


def _kind(operator: str, hint: str, same: Sequence[Place]) -> str:
    names = [p.label for p in same[:NAMED]]
    more = f" and {len(same) - NAMED} more" if len(same) > NAMED else ""
    inner = f"{', '.join(names)}{more}" + (f"; {hint}" if hint else "")
    return f"{operator} ×{len(same)} ({inner})"
