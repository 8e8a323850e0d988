"""What a device says of itself when it asks for work, and what a task may want of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fl_server.errors import Malformed

_FLAGS = ("charging", "unmetered", "idle")
_NUMBERS = {"battery": 100, "app_version": 2**31 - 1}


@dataclass(frozen=True)
class Conditions:
    """What is None was not said, and counts as not given.

    battery: percent · app_version: of the program that takes part, which decides what models run
    """

    charging: bool | None = None
    unmetered: bool | None = None
    idle: bool | None = None
    battery: int | None = None
    app_version: int | None = None

    def to_query(self) -> str:
        """As the query of a check-in, which its signature covers; empty if nothing is said."""
        said = {name: value for name, value in vars(self).items() if value is not None}
        return urlencode({name: int(value) for name, value in said.items()})

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Conditions:
        """raises Malformed"""
        found: dict[str, int] = {}
        for name, text in query.items():
            most = 1 if name in _FLAGS else _NUMBERS.get(name)
            if most is None:
                raise Malformed(f"no condition {name!r}; there are {', '.join(cls.names())}")
            if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > most:
                raise Malformed(f"condition {name} is {text!r}, want 0 to {most}")
            found[name] = int(text)
        flags = {name: bool(found[name]) for name in _FLAGS if name in found}
        return cls(**flags, battery=found.get("battery"), app_version=found.get("app_version"))

    @staticmethod
    def names() -> list[str]:
        return [*_FLAGS, *_NUMBERS]


NOTHING_SAID = Conditions()
