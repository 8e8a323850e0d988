"""The command ms-convert."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ConvertError
from converter.pipeline import KINDS, QUANTIZE, bisect, convert
from converter.training import LOSSES, TrainSpec
from ir.errors import IrError

EXAMPLES = """examples:
  ms-convert model.onnx                                   writes model.ms, checked against model.onnx
  ms-convert model.onnx -o small.ms --quantize int8 --calibration samples.npz
  ms-convert model.onnx --train --trainable 'fc.*' --optimizer momentum:lr=0.01,momentum=0.9
  ms-convert model.onnx --input image=batch,3,224,224 --report report.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: written and agrees; 1: failed, one line says why; 2: wrong usage."""
    args = _parser().parse_args(argv)
    try:
        return _run(args)
    except (ConvertError, IrError) as e:
        print(f"ms-convert: {e}", file=sys.stderr)
    except KeyboardInterrupt:
        print("ms-convert: interrupted; nothing was written", file=sys.stderr)
    return 1


def _run(args: argparse.Namespace) -> int:
    options: dict[str, Any] = {
        "kind": args.kind,
        "shapes": dict(_shape(s) for s in args.input),
        "outputs": args.output,
        "quantize": args.quantize,
        "calibration": _arrays(args.calibration),
        "keep_float": args.keep_float,
        "check": args.check,
        "check_data": _arrays(args.check_data),
        "tol": args.tol,
        "sign": _key(args.sign),
    }
    if args.train:
        options["train"] = TrainSpec(args.loss, args.optimizer, args.trainable)
    if args.bisect:
        found = bisect(args.model, **options)
        print(
            f"first pass that breaks agreement: {found}" if found else "every pass keeps agreement"
        )
        return 1 if found else 0
    target = args.o or Path(args.model).with_suffix(".ms")
    report = convert(args.model, target, **options)
    print(report.to_json() if args.json else report)
    if args.report:
        Path(args.report).write_text(report.to_json() + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    p = _WithConfig(
        prog="ms-convert",
        description="Convert an ONNX model, or one of our own, to a checked .ms file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("model", help="the source model")
    p.add_argument("-o", metavar="OUT.ms", help="the file to write (default: beside the source)")
    p.add_argument(
        "--from", dest="kind", choices=KINDS, help="the kind of the source (default: by content)"
    )
    p.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="shape of an input: image=1,3,224,224, or with free dimensions: image=batch,3,224,224",
    )
    p.add_argument(
        "--output", nargs="+", default=[], metavar="NAME", help="cut the graph at these values"
    )
    p.add_argument("--quantize", choices=QUANTIZE, default="none")
    p.add_argument("--calibration", metavar="F.npz", help="arrays by input name, for quantization")
    p.add_argument(
        "--keep-float", nargs="+", default=[], metavar="PATTERN", help="nodes that stay float32"
    )
    p.add_argument("--train", action="store_true", help="add the entries loss and train")
    p.add_argument("--loss", choices=sorted(LOSSES), default="softmax_cross_entropy")
    p.add_argument("--optimizer", default="sgd:lr=0.01", metavar="NAME[:k=v,…]")
    p.add_argument(
        "--trainable", nargs="+", default=["*"], metavar="PATTERN", help="weights that train"
    )
    p.add_argument(
        "--check", type=int, default=4, metavar="N", help="inputs to compare on (default 4)"
    )
    p.add_argument("--check-data", metavar="F.npz", help="real inputs to compare on")
    p.add_argument(
        "--tol", type=float, help="largest relative difference (default 1e-4; int8: 0.25)"
    )
    p.add_argument(
        "--sign", metavar="KEY", help="file with an Ed25519 private key: 32 bytes or hex"
    )
    p.add_argument(
        "--bisect", action="store_true", help="name the first pass that breaks agreement"
    )
    p.add_argument("--config", metavar="F.toml", help="flags from a file, same names")
    p.add_argument("--report", metavar="F.json", help="write the report as JSON")
    p.add_argument("--json", action="store_true", help="print the report as JSON")
    p.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    return p


class _WithConfig(argparse.ArgumentParser):
    """A parser that reads --config before it parses: flags of the command line win."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        first, _ = super().parse_known_args(args)
        if first.config:
            self.set_defaults(**self._config(first.config))
        return super().parse_args(args, namespace)

    def _config(self, path: str) -> dict[str, Any]:
        try:
            flags = tomllib.loads(Path(path).read_text())
        except (OSError, tomllib.TOMLDecodeError) as e:
            self.error(f"{path}: {e}")
        known = {
            a.option_strings[-1].lstrip("-"): a.dest for a in self._actions if a.option_strings
        }
        if unknown := flags.keys() - known.keys():
            self.error(f"{path}: unknown flags {sorted(unknown)}")
        return {known[k]: v for k, v in flags.items()}


def _shape(text: str) -> tuple[str, list[int | str]]:
    name, _, sizes = text.partition("=")
    parts = [s.strip() for s in sizes.split(",")]
    if not name or not all(p.isdigit() or p.isidentifier() for p in parts):
        raise ConvertError(f"--input {text}: want NAME=SIZES such as image=batch,3,224,224")
    return name, [int(p) if p.isdigit() else p for p in parts]


def _arrays(path: str | None) -> dict[str, np.ndarray] | None:
    if path is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, AttributeError) as e:
        raise ConvertError(f"{path}: not an .npz file of arrays ({e})") from None


def _key(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        raw = Path(path).read_bytes()
    except OSError as e:
        raise ConvertError(f"{path}: {e.strerror}") from None
    try:
        key = raw if len(raw) == 32 else bytes.fromhex(raw.decode().strip())
    except (UnicodeDecodeError, ValueError):
        key = b""
    if len(key) != 32:
        raise ConvertError(f"{path}: {len(raw)} bytes; want an Ed25519 key of 32 bytes, or its hex")
    return key


def _version() -> str:
    try:
        return version("mindspan")
    except PackageNotFoundError:
        return "0.0.0+source"


if __name__ == "__main__":
    sys.exit(main())
