"""The command ms-library."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cloud.nas.cost import device_id
from cloud.nas.library import Entry, Library, LibraryError
from ir.version import version

EXAMPLES = """examples:
  ms-library build out/library --recipe examples.watch.variants:variants
  ms-library search out/library --latency-ms 5 --min-accuracy 0.8
  ms-library add out/library model.ms --name mine --task watch --accuracy 0.91
  ms-library export out/library mine -o mine.ms
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: done (search: something fits); 1: it failed or nothing fits; 2: wrong usage."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(Library(args.folder), args))
    except (LibraryError, ValueError) as e:
        print(f"ms-library: {e}", file=sys.stderr)
    except KeyboardInterrupt:
        print("ms-library: interrupted; models added so far stay", file=sys.stderr)
    return 1


def _build(library: Library, args: argparse.Namespace) -> int:
    """The recipe yields (name, bytes of a .ms file, task, accuracy, facts)."""
    module, _, function = args.recipe.partition(":")
    sys.path.insert(0, "")
    try:
        recipe = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as e:
        raise LibraryError(f"recipe {args.recipe!r}: {e}; want module:function") from None
    for name, data, task, accuracy, facts in recipe():
        _show([library.add(name, data, task=task, accuracy=accuracy, facts=facts)], args)
    return 0


def _add(library: Library, args: argparse.Namespace) -> int:
    entry = library.add(args.name, args.model, task=args.task, accuracy=args.accuracy)
    _show([entry], args)
    return 0


def _search(library: Library, args: argparse.Namespace) -> int:
    library.measure()
    found = library.search(
        latency_ms=args.latency_ms,
        device=args.device,
        min_accuracy=args.min_accuracy,
        max_size_kb=args.max_size_kb,
        task=args.task,
    )
    if not found:
        raise LibraryError(f"none of {len(library.entries)} models fits; try a larger --latency-ms")
    best = found[0]
    _show([best], args, path=str(library.path(best)))
    return 0


def _show_all(library: Library, args: argparse.Namespace) -> int:
    _show(library.search(), args)
    return 0


def _export(library: Library, args: argparse.Namespace) -> int:
    print(library.export(args.name, args.o or f"{args.name}.ms"))
    return 0


def _show(entries: Sequence[Entry], args: argparse.Namespace, **more: Any) -> None:
    if args.json:
        rows = [{**asdict(e), **more} for e in entries]
        print(json.dumps(rows[0] if more else rows, indent=2))
        return
    for e in entries:
        times = ", ".join(f"{ms:.3f} ms on {device}" for device, ms in sorted(e.latency_ms.items()))
        print(
            f"{e.name:24} {e.task:12} accuracy {e.accuracy:.3f}  {e.size_bytes / 1000:8.1f} kB  {times}"
        )
    for name, value in more.items():
        print(f"{name}: {value}")


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="ms-library",
        description="Trained models by accuracy, size and measured latency.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    sub = p.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, help_: str) -> argparse.ArgumentParser:
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
    add.add_argument("--accuracy", type=float, required=True, help="0 to 1, on held-out data")
    search = command("search", _search, "the most accurate model that fits")
    search.add_argument("--latency-ms", type=float)
    search.add_argument("--device", help=f"default: this one ({device_id(1)})")
    search.add_argument("--min-accuracy", type=float, default=0.0)
    search.add_argument("--max-size-kb", type=float)
    search.add_argument("--task")
    command("show", _show_all, "every model")
    export = command("export", _export, "copy a model out")
    export.add_argument("name")
    export.add_argument("-o", metavar="FILE")
    return p
