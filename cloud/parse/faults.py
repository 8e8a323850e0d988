"""Where Python fails at something that a value takes part in, its error becomes a refusal."""

from __future__ import annotations

import ast
import functools
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from cloud.parse.errors import NeedsTrace
from cloud.parse.structure import values_in
from ir.errors import AttrError, DTypeError, IrError, ShapeError
from ir.op import Op

FAULTS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
Method = TypeVar("Method", bound=Callable[..., Any])


def refusing(hint: str) -> Callable[[Method], Method]:
    """Of a method that does one thing of Python's on its arguments: where it fails and a value is
    among them, the place is shown (that of a syntax node among them, if there is one), with this
    hint. Errors among known things stay Python's."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except FAULTS as e:
                if not is_fault(e) or not values_in([args, kwargs]):
                    raise
                node = next((a for a in args if isinstance(a, ast.AST)), None)
                raise self.not_known(worded(e), hint, node) from None

        return run  # type: ignore[return-value]

    return decorate


def is_fault(e: Exception) -> bool:
    """Whether the error is Python's own. The user's code, which raises what it means to, notes its
    place; errors of ours say what they want, but for numbers that an operator has to know."""
    ours = isinstance(e, (IrError, NeedsTrace)) and not isinstance(e, AttrError)
    return not ours and not hasattr(e, "__notes__")


def add_hint(e: Exception) -> None:
    """Let an error of an operator say what to look at, once."""
    hint = next((h for kind, h in _HINTS.items() if isinstance(e, kind)), None)
    has_one = any("hint: " in note for note in getattr(e, "__notes__", ()))
    makes_node = any(f.f_code is Op.node.__code__ for f, _ in traceback.walk_tb(e.__traceback__))
    if hint is not None and makes_node and not has_one:
        e.add_note(f"    hint: {hint}")


_HINTS = {
    ShapeError: "x.shape says what an array has; reshape, x.T or x[..., None] bring it to another",
    DTypeError: "x.dtype says what an array holds; x.astype(…) gives another type",
}


def worded(e: Exception) -> str:
    """What the error says, in words of the front end."""
    text = repr(e.args[0]) if isinstance(e, KeyError) and e.args else str(e)
    text = text.replace("Values._", "")
    for name in ("'Value' object", "'Value'", '"Value"'):
        text = text.replace(name, "a value")
    return text
