"""The exceptions of the converter; each message is one line: where, what, what was wanted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A node that cannot be converted: its operator, its name, its number, why, and what helps."""

    operator: str
    name: str
    index: int
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.operator} {self.label}: {self.reason}"
        return f"{text}; {self.hint}" if self.hint else text

    @property
    def label(self) -> str:
        return self.name or f"node {self.index}"


class ConvertError(Exception):
    """A model that cannot be converted, or that does not agree with its source.

    `places`: the nodes that cannot be converted, where it is for them.
    """

    places: tuple[Place, ...] = ()


class Disagreement(ConvertError):
    """The converted model does not give the source's answers. `found`: what differs, and by how
    much."""

    def __init__(self, source: str, found: str) -> None:
        super().__init__(f"{source}: {found}; nothing was written (try --bisect)")
        self.found = found


class SourceTimeout(ConvertError):
    """The source model runs for longer than it may."""


class FixedSize(Exception):
    """A free size of the inputs that can be but one number: the model is read again with it."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(f"{name} is {size}")
        self.name, self.size = name, size


class UnsupportedError(ConvertError):
    """Operators of the source model, or uses of them, that have no counterpart; lists them all."""
