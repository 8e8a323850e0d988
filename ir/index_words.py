"""The words of a model file's index: sizes, attributes and names as numbers, and back."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ir.errors import FormatError
from ir.symbol import MAX_TERMS, Dim, Expr, maximum, minimum, postfix, symbol

LOWEST_NUMBER = -(2**30)  # words below it name expressions, or are operations inside of one
BASE = 2**31  # such a word is -2^31 + k
OPERATIONS = ("+", "*", "//", "min", "max")
FIRST_SYMBOL = 16  # k of the first symbol inside an expression
MAX_TOKENS, MAX_STACK = 256, 64
MAX_ELEMENTS = 2**31 - 1  # of one tensor
MAX_WORDS = 1024  # of an attribute
MAX_ENTRIES, MAX_NODES = 4096, 2**16  # of a file, of one entry
MAX_SYMBOLS = 4096  # of a file


class Words:
    """The pool while it is written: equal runs of words are stored once."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.pool: list[int] = []
        self.expressions: list[tuple[int, int]] = []
        self._at: dict[tuple[int, ...], int] = {}
        self._numbers: dict[Expr, int] = {}
        self._symbols = {name: FIRST_SYMBOL + i - BASE for i, name in enumerate(symbols)}

    def put(self, words: Sequence[int]) -> int:
        """Where these words stand."""
        key = tuple(words)
        return self._at[key] if key in self._at else self._at.setdefault(key, self.append(key))

    def append(self, words: Sequence[int]) -> int:
        """Where these words stand, shared with nothing."""
        at = len(self.pool)
        self.pool += words
        return at

    def size(self, dim: Dim, place: str) -> int:
        """The word of a size or an integer attribute. Raises FormatError where it does not fit."""
        if isinstance(dim, int):
            if not LOWEST_NUMBER <= dim < BASE:
                raise FormatError(f"{place} is {dim}, want a number from -2^30 to 2^31 - 1")
            return dim
        if dim not in self._numbers:
            tokens = [self._token(t, place) for t in postfix(dim)]
            if len(tokens) > MAX_TOKENS or _depth(tokens) > MAX_STACK or _terms(dim) > MAX_TERMS:
                raise FormatError(
                    f"{place} is an expression of {len(tokens)} tokens, want at most {MAX_TOKENS}"
                )
            self.expressions.append((self.put(tokens), len(tokens)))
            self._numbers[dim] = len(self._numbers)
        return self._numbers[dim] - BASE

    def _token(self, token: int | str, place: str) -> int:
        if isinstance(token, int):
            return self.size(token, place)
        if token in OPERATIONS:
            return OPERATIONS.index(token) - BASE
        return self._symbols[token.removeprefix("$")]


class Names:
    """The strings while they are written: equal ones are stored once, the first one is empty."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._at = {"": 0}

    def put(self, text: str | None) -> int:
        """Where the string stands."""
        text = text or ""
        if text not in self._at:
            checked_text(text, "name")
            self._at[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self._at[text]


def checked_text(text: str, place: str, *, lines: bool = False) -> str:
    """The text itself. Raises FormatError for control characters, but for tabs and line ends where
    there may be `lines`, and for what UTF-8 cannot hold."""
    allowed = "\t\n\r" if lines else ""
    if any((c < " " and c not in allowed) or c == "\x7f" or "\ud800" <= c < "\ue000" for c in text):
        raise FormatError(f"{place} {text!r}: want no control characters")
    return text


def read_expression(tokens: Sequence[int], symbols: Sequence[str], place: str) -> Dim:
    """The size that postfix tokens compute. Raises FormatError."""
    if not 0 < len(tokens) <= MAX_TOKENS:
        raise FormatError(f"{place}: {len(tokens)} tokens, want 1 to {MAX_TOKENS}")
    stack: list[Dim] = []
    for token in tokens:
        k = token + BASE
        if token >= LOWEST_NUMBER:
            stack.append(token)
        elif k >= FIRST_SYMBOL:
            if k - FIRST_SYMBOL >= len(symbols):
                raise FormatError(f"{place}: symbol {k - FIRST_SYMBOL} of {len(symbols)}")
            stack.append(symbol(symbols[k - FIRST_SYMBOL]))
        elif k < len(OPERATIONS) and len(stack) > 1:
            b, a = stack.pop(), stack.pop()
            stack.append(_apply(OPERATIONS[k], a, b, place))
        else:
            raise FormatError(f"{place}: token {token} with {len(stack)} values on the stack")
        if len(stack) > MAX_STACK:
            raise FormatError(f"{place}: more than {MAX_STACK} values on the stack")
    if len(stack) != 1:
        raise FormatError(f"{place}: leaves {len(stack)} values, want 1")
    return stack[0]


def float_word(value: float, place: str) -> int:
    """The bits of a float32 as a word. Raises FormatError where it is too large for one."""
    try:
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    except OverflowError:
        raise FormatError(f"{place} is {value}, want a float32") from None


def word_float(word: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", word))[0])


def _apply(operation: str, a: Dim, b: Dim, place: str) -> Dim:
    if operation == "*" and _terms(a) * _terms(b) > MAX_TERMS:
        raise FormatError(f"{place}: more than {MAX_TERMS} terms")
    if operation == "//" and isinstance(b, int) and b < 1:
        raise FormatError(f"{place}: divides by {b}, want at least 1")
    match operation:
        case "+":
            return a + b
        case "*":
            return a * b
        case "//":
            return a // b
        case "min":
            return minimum(a, b)
    return maximum(a, b)


def _terms(dim: Dim) -> int:
    return len(dim.terms) if isinstance(dim, Expr) else 1


def _depth(tokens: Sequence[int]) -> int:
    depth = deepest = 0
    for token in tokens:
        depth += -1 if token < LOWEST_NUMBER and token + BASE < FIRST_SYMBOL else 1
        deepest = max(deepest, depth)
    return deepest
