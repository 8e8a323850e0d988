"""The commands ms-run, ms-bench and ms-inspect."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lite_runtime._core import __version__
from lite_runtime.bench import measure, random_inputs
from lite_runtime.console import exit_code, lines_text, one_line, say
from lite_runtime.files import read_array, read_file, write_whole
from lite_runtime.inspection import inspect_model, report_text
from lite_runtime.session import Array, LiteError, Session, load
from lite_runtime.signature import read_key, signer, verify
from lite_runtime.svg import draw
from lite_runtime.trace import chrome_trace

RUN_EXAMPLES = """examples:
  ms-run model.ms --input image=x.npy --output-dir out
  ms-run model.ms --input x.npy --entry infer --json
"""
BENCH_EXAMPLES = """examples:
  ms-bench model.ms
  ms-bench model.ms --entry train --size batch=16 --threads 1 --profile
  ms-bench model.ms --json > latency.json
  ms-bench model.ms --trace out.json     # for chrome://tracing or ui.perfetto.dev
"""
INSPECT_EXAMPLES = """examples:
  ms-inspect model.ms
  ms-inspect model.ms --graph model.svg
  ms-inspect model.ms --verify release.pub
"""


BACKENDS = (
    "auto", "ref", "avx2", "avxvnni", "avx512", "avx512vnni", "neon", "dotprod", "i8mm", "fp16",
)  # fmt: skip


class UsageError(Exception):
    """Arguments that do not fit the model or this processor."""


def run(argv: list[str] | None = None) -> None:
    """ms-run: one run of an entry on arrays from files."""
    parser = _parser("ms-run", "Run a model once: arrays in and out as .npy files.", RUN_EXAMPLES)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input; NAME= may be left out for the only one",
    )
    parser.add_argument(
        "--output-dir", type=_path, metavar="DIR", help="write each output to DIR/<name>.npy"
    )
    _finish("ms-run", parser, argv, _run)


def bench(argv: list[str] | None = None) -> None:
    """ms-bench: how long an entry takes and how much memory it wants."""
    parser = _parser(
        "ms-bench", "Measure a model's latency and memory on random inputs.", BENCH_EXAMPLES
    )
    parser.add_argument(
        "--runs",
        type=_positive,
        default=100,
        metavar="N",
        help="how many runs to time (default 100)",
    )
    parser.add_argument(
        "--warmup", type=_positive, default=5, metavar="N", help="runs before that (default 5)"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="the size of a free dimension (default: the smallest)",
    )
    parser.add_argument("--profile", action="store_true", help="add a table of all nodes")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE.json", help="write ten runs as a trace for a browser"
    )
    _finish("ms-bench", parser, argv, _bench)


def inspect(argv: list[str] | None = None) -> None:
    """ms-inspect: what a model file holds."""
    parser = _parser("ms-inspect", "Show what a model file holds.", INSPECT_EXAMPLES)
    parser.add_argument("--graph", type=_path, metavar="FILE.svg", help="draw the entry's graph")
    parser.add_argument(
        "--verify",
        metavar="KEY",
        help="fail unless this Ed25519 public key (64 hex digits, or a file: raw, hex, PEM) signed",
    )
    _finish("ms-inspect", parser, argv, _inspect)


def _parser(prog: str, about: str, examples: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL.ms", type=_path)
    parser.add_argument(
        "--entry", metavar="NAME", help="the entry point (default: infer, or the first one)"
    )
    parser.add_argument("--threads", type=_positive, default=2, metavar="N", help="default 2")
    parser.add_argument(
        "--backend",
        default="auto",
        choices=BACKENDS,
        metavar="NAME",
        help=f"{', '.join(BACKENDS[:-1])} or {BACKENDS[-1]} (default auto)",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _finish(
    prog: str,
    parser: argparse.ArgumentParser,
    argv: list[str] | None,
    work: Callable[[argparse.Namespace], str],
) -> None:
    """Parse, work, print; on a failure print one line and exit with 1, or 2 for wrong usage."""

    def whole() -> int:
        try:
            print(work(parser.parse_args(argv)), flush=True)
        except UsageError as error:
            say(f"{prog}: {one_line(error)}")
            return 2
        return 0

    if code := exit_code(prog, whole, (LiteError,)):
        sys.exit(code)


def _run(args: argparse.Namespace) -> str:
    session = _load(args)
    files = _files(args.input, [i.name for i in session.inputs(args.entry)])
    arrays = {name: read_array(path) for name, path in files.items()}
    outputs = session.run(arrays, args.entry)
    if args.output_dir:
        args.output_dir.mkdir(parents=True, exist_ok=True)
        for name, y in outputs.items():
            path = args.output_dir / f"{_file_name(name)}.npy"
            write_whole(path, lambda file, y=y: np.save(file, y))
    rows = {name: _summary(y) for name, y in outputs.items()}
    if args.json:
        return json.dumps({"entry": args.entry, "outputs": rows})
    return lines_text(
        [f"{name}: " + "  ".join(f"{k} {v}" for k, v in row.items()) for name, row in rows.items()]
    )


def _files(given: list[str], names: list[str]) -> dict[str, str]:
    """The file of each input, by its name."""
    wanted = ", ".join(names) or "none"
    files = {}
    for text in given:
        name, equals, path = text.rpartition("=")
        if not equals and len(names) != 1:
            raise UsageError(f"--input {text}: want NAME=FILE.npy; inputs are {wanted}")
        name = name if equals else names[0]
        if name not in names:
            raise UsageError(f"--input {text}: no input {name}; inputs are {wanted}")
        if name in files:
            raise UsageError(f"--input {text}: {name} has {files[name]} already")
        files[name] = path
    if missing := [name for name in names if name not in files]:
        raise UsageError(f"--input {missing[0]}=FILE.npy is missing; inputs are {wanted}")
    return files


def _bench(args: argparse.Namespace) -> str:
    session = _load(args)
    session.resize(dict(_size(text, session.symbols) for text in args.size))
    result = measure(session, args.entry, runs=args.runs, warmup=args.warmup, profile=args.profile)
    if args.trace:
        trace = chrome_trace(session, random_inputs(session, args.entry), args.entry).encode()
        write_whole(args.trace, lambda out: out.write(trace))
    if args.json:
        return json.dumps(result.as_dict() | {"threads": args.threads, "backend": args.backend})
    return str(result)


def _inspect(args: argparse.Namespace) -> str:
    if args.graph is not None and args.graph.resolve() == args.model.resolve():
        raise UsageError(f"--graph {args.graph}: is the model, want another file to write")
    file = read_file(args.model)  # once: what is verified is what is shown
    session = _load(args, file)
    if args.verify is not None:
        verify(file, read_key(args.verify))
    report = inspect_model(session, len(file), signer(file))
    report["verified"] = args.verify is not None
    if args.graph:
        picture = draw(session, args.entry).encode(errors="backslashreplace")
        write_whole(args.graph, lambda out: out.write(picture))
    return json.dumps(report) if args.json else report_text(report)


def _load(args: argparse.Namespace, file: bytes | None = None) -> Session:
    """The model's session, of the path or, where it has been read, of its bytes."""
    try:
        session = load(args.model if file is None else file, args.threads, args.backend)
    except LiteError as error:
        if str(error).startswith(("backend ", "threads ")):
            raise UsageError("--" + str(error).replace(" = ", " ", 1)) from None
        place = "" if str(error).startswith(str(args.model)) else f"{args.model}: "
        raise LiteError(f"{place}{error}") from None
    if args.entry is not None and args.entry not in session.entries:
        has = ", ".join(session.entries)
        raise UsageError(f"--entry {args.entry}: {args.model} has {has or 'none'}")
    return session


def _file_name(name: str) -> str:
    """An output's name as a file name: a model must not choose a folder."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name).lstrip(".") or "output"


def _summary(y: Array) -> dict[str, Any]:
    row: dict[str, Any] = {"dtype": y.dtype.name, "shape": list(y.shape)}
    if y.size:
        row |= {"min": y.min().item(), "max": y.max().item(), "mean": float(y.mean())}
    return row


def _size(text: str, symbols: dict[str, tuple[int, int]]) -> tuple[str, int]:
    name, equals, size = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--size {text}: want NAME=N")
    if name not in symbols:
        dimensions = ", ".join(symbols) or "none"
        raise UsageError(f"--size {text}: no free dimension {name}; there are {dimensions}")
    low, high = symbols[name]
    if not size.isdecimal() or len(size) > 10 or not low <= int(size) <= high:
        raise UsageError(f"--size {text}: want {name}=N with N from {low} to {high}")
    return name, int(size)


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r}: want the name of a file")
    return Path(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number of at least 1")
    return int(text)
