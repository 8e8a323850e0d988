"""The flags of ms-convert: how their texts are read, from a command line or a file."""

from __future__ import annotations

import argparse
import math
import re
import tomllib
from typing import Any, NoReturn

from cloud.train.optim import from_text
from converter.errors import ConvertError
from converter.losses import loss_from_text
from lite_runtime import LiteError
from lite_runtime.console import one_line, printable
from lite_runtime.files import read_file

TARGETS = ("cpu",)
MOST_CONFIG_BYTES = 1 << 20  # of a file of flags or a key


class WithConfig(argparse.ArgumentParser):
    """A parser that takes defaults from the file of --config."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        first, _ = super().parse_known_args(args)
        if first.config:
            self.set_defaults(**self._config(first.config))
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

    def _config(self, path: str) -> dict[str, Any]:
        """The flags of the file, as if they stood on a command line."""
        try:
            flags = tomllib.loads(read_file(path, MOST_CONFIG_BYTES).decode())
        except OSError as e:
            self.error(one_line(e))
        except LiteError as e:
            self.error(str(e))
        except (ValueError, RecursionError) as e:  # no text, no TOML, or nested without end
            self.error(f"{path}: {e}")
        own = ("config", "help", "version")
        taken = [a for a in self._actions if a.option_strings and a.dest not in own]
        actions = {text.lstrip("-"): a for a in taken for text in a.option_strings}
        if unknown := flags.keys() - actions.keys():
            have = ", ".join(sorted(a.option_strings[-1].lstrip("-") for a in taken))
            self.error(f"{path}: unknown flags {sorted(unknown)}; there are {have}")
        line = ["model"]
        for name, value in flags.items():
            flag = actions[name].option_strings[-1]
            if actions[name].nargs == 0:
                if not isinstance(value, bool):
                    self.error(f"{path}: {name} is {value!r}, want true or false")
                line += [flag] if value else []
            elif isinstance(value, list):
                every = isinstance(actions[name].nargs, str)
                line += [flag, *map(str, value)] if every else [f"{flag}={v}" for v in value]
            else:
                line += [flag, str(value)]
        read = vars(super().parse_args(line))
        return {actions[name].dest: read[actions[name].dest] for name in flags}


def shape(text: str) -> tuple[str, list[int | str]]:
    name, _, sizes = text.partition("=")
    parts = [s.strip() for s in sizes.split(",")] if sizes else []
    fits = [(p.isdecimal() and len(p) < 12 and int(p) > 0) or p.isidentifier() for p in parts]
    if not name or "=" not in text or not all(fits):
        raise argparse.ArgumentTypeError(f"{text!r}: want NAME=SIZES such as x=batch,3,224,224")
    return name, [int(p) if p.isdecimal() else p for p in parts]


def optimizer(text: str) -> str:
    try:
        from_text(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None
    return text


def loss(text: str) -> str:
    try:
        loss_from_text(text)
    except ConvertError as e:
        raise argparse.ArgumentTypeError(str(e)) from None
    return text


def size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*((?:[kKMG]i?)?B)?", text)
    unit = (found and found[2]) or "B"
    step = 1024 if "i" in unit else 1000
    power = " KMG".index(unit[0].upper().replace("B", " "))
    size = float(found[1]) * step**power if found else 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: want bytes such as 2MB, 512kB or 1.5MiB")
    return int(size)


def positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number of at least 1")
    return int(text)


def target(text: str) -> str:
    if text not in TARGETS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: the runtime has no kernels for that, want {', '.join(TARGETS)}; "
            "the file to write is -o or --to"
        )
    return text


def tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: want a finite number of at least 0")
    return value
