"""The command ms-library."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from cloud.nas.cost import device_id
from cloud.nas.library import INDEX, Entry, Library, LibraryError
from ir.version import version
from lite_runtime.console import exit_code, printable

EXAMPLE_RECIPE = "examples.watch.variants:variants"
EXAMPLES = f"""examples:
  ms-library build out/library --recipe {EXAMPLE_RECIPE}
  ms-library search out/library --latency-ms 5 --min-accuracy 0.8
  ms-library add out/library model.ms --name mine --task watch --accuracy 0.91
  ms-library export out/library mine -o mine.ms
"""
STARTS = ("build", "add")  # commands that may start a library


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: done (search: something fits); 1: it failed or nothing fits; 2: wrong usage."""

    def work() -> int:
        args = _parser().parse_args(argv)
        if args.command not in STARTS and not (Path(args.folder) / INDEX).exists():
            raise LibraryError(f"{args.folder}: no library there; build or add starts one")
        args.run(Library(args.folder), args)
        return 0

    return exit_code("ms-library", work, (LibraryError,), "interrupted; models added so far stay")


def _build(library: Library, args: argparse.Namespace) -> None:
    added = []
    for name, data, task, accuracy, facts in _rows(args.recipe):
        entry = library.add(name, data, task=task, accuracy=accuracy, facts=facts)
        print(_line(entry), file=sys.stderr if args.json else sys.stdout, flush=True)
        added.append(asdict(entry))
    if args.json:
        print(json.dumps(added, indent=2))


def _rows(recipe: str) -> Iterator[tuple[str, bytes, str, float, dict[str, str]]]:
    """What the recipe yields: name, bytes of a .ms file, task, accuracy, facts."""
    module, _, function = recipe.partition(":")
    if not (module and function):
        raise LibraryError(f"recipe {recipe!r}: want MODULE:FUNCTION, such as {EXAMPLE_RECIPE}")
    sys.path.insert(0, "")
    try:
        for name, data, task, accuracy, facts in getattr(
            importlib.import_module(module), function
        )():
            yield str(name), bytes(data), str(task), float(accuracy), dict(facts)
    except Exception as e:  # a recipe is anybody's code
        raise LibraryError(
            f"recipe {recipe!r}: {type(e).__name__}: {e}; want MODULE:FUNCTION that yields "
            "(name, bytes, task, accuracy, facts)"
        ) from None
    finally:
        sys.path.remove("")


def _add(library: Library, args: argparse.Namespace) -> None:
    replaced = args.name in library.entries
    entry = library.add(args.name, args.model, task=args.task, accuracy=args.accuracy)
    print(json.dumps(asdict(entry), indent=2) if args.json else _line(entry))
    if replaced:
        print(f"replaced the model that was called {args.name}", file=sys.stderr)


def _search(library: Library, args: argparse.Namespace) -> None:
    device = args.device or device_id(1)
    if args.latency_ms is not None and device == device_id(1):
        library.measure()
    known = {d for e in library.entries.values() for d in e.latency_ms}
    if args.device and args.device not in known:
        have = ", ".join(sorted(known)) or "none"
        raise LibraryError(f"no times on {args.device}; there are times on {have}")
    found = library.search(
        latency_ms=args.latency_ms,
        device=device,
        min_accuracy=args.min_accuracy,
        max_size_kb=args.max_size_kb,
        task=args.task,
    )
    if not found:
        times = [e.latency_ms[device] for e in library.entries.values() if device in e.latency_ms]
        fastest = f"the fastest takes {min(times):.4f} ms" if times else f"no times on {device}"
        raise LibraryError(f"none of {len(library.entries)} models fits; {fastest}")
    best, path = found[0], str(library.path(found[0]))
    if args.json:
        print(json.dumps({**asdict(best), "path": path}, indent=2))
    else:
        print(f"{_line(best)}\n{path}")


def _show(library: Library, args: argparse.Namespace) -> None:
    entries = library.search()
    if args.json:
        print(json.dumps([asdict(e) for e in entries], indent=2))
    else:
        print("\n".join(map(_line, entries)))


def _export(library: Library, args: argparse.Namespace) -> None:
    path = str(library.export(args.name, args.o or f"{args.name}.ms"))
    print(json.dumps({"path": path}) if args.json else path)


def _line(e: Entry) -> str:
    times = ", ".join(f"{ms:.4f} ms on {device}" for device, ms in sorted(e.latency_ms.items()))
    size = f"{e.size_bytes / 1000:.1f} kB"
    return printable(f"{e.name:16} {e.task}  accuracy {e.accuracy:.3f}  {size}  {times}")


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="ms-library",
        description="Trained models by accuracy, size and measured latency.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    sub = p.add_subparsers(required=True, metavar="COMMAND", dest="command")

    def command(
        name: str, run: Callable[[Library, argparse.Namespace], None], help_: str
    ) -> argparse.ArgumentParser:
        c = sub.add_parser(name, help=help_)
        c.add_argument("folder", help="the library's folder")
        c.add_argument("--json", action="store_true")
        c.set_defaults(run=run)
        return c

    build = command("build", _build, "train and add what a recipe yields")
    build.add_argument("--recipe", required=True, metavar="MODULE:FUNCTION")
    add = command("add", _add, "add one model, measured here")
    add.add_argument("model", help="the .ms file")
    add.add_argument("--name", required=True)
    add.add_argument("--task", required=True)
    add.add_argument("--accuracy", type=_number, required=True, help="0 to 1, on held-out data")
    search = command("search", _search, "the most accurate model that fits")
    search.add_argument("--latency-ms", type=_number)
    search.add_argument("--device", help=f"default: this one ({device_id(1)})")
    search.add_argument("--min-accuracy", type=_number, default=0.0)
    search.add_argument("--max-size-kb", type=_number)
    search.add_argument("--task")
    command("show", _show, "every model, the most accurate first")
    export = command("export", _export, "copy a model out")
    export.add_argument("name")
    export.add_argument("-o", metavar="FILE", help="default: NAME.ms here")
    return p


def _number(text: str) -> float:
    """argparse reports a ValueError as wrong usage; a NaN would compare false with everything."""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(text)
    return value


_number.__name__ = "finite number, 0 or more"
