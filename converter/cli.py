"""The command ms-convert."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cloud.train.optim import from_text
from converter.errors import ConvertError
from converter.pipeline import KINDS, bisect, convert
from converter.quantization import parsed
from converter.training import LOSSES, TrainSpec
from ir.files import write_whole
from ir.version import version
from lite_runtime import LiteError
from lite_runtime.console import exit_code, one_line, printable
from lite_runtime.files import read_arrays, read_file

EXAMPLES = """examples:
  ms-convert model.onnx                        writes model.ms, checked against model.onnx
  ms-convert model.onnx -o small.ms --quantize int8 --calibration samples.npz
  ms-convert model.onnx --train --trainable 'fc.*' --optimizer momentum:lr=0.01,momentum=0.9
  ms-convert model.onnx --input image=batch,3,224,224 --report report.json
  ms-convert saved.ms -o fast.ms --sign release.key
"""
MOST_CONFIG_BYTES = 1 << 20  # of a file of flags or a key
DEFAULT_OPTIMIZER = TrainSpec().optimizer


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: written and agrees; 1: failed, one line says why; 2: wrong usage."""

    def work() -> int:
        parser = _parser()
        args = parser.parse_args(argv)
        _check_usage(parser, args)
        return _run(args)

    # Files are written last, each whole, so an interrupt has left none that is new.
    errors = (ConvertError, LiteError)
    return exit_code("ms-convert", work, errors, "interrupted; nothing was written")


def _run(args: argparse.Namespace) -> int:
    options: dict[str, Any] = {
        "kind": args.kind,
        "shapes": dict(args.input),
        "outputs": args.output,
        "quantize": args.quantize,
        "calibration": _arrays(args.calibration),
        "calibrate": args.calibrate,
        "equalize": args.equalize,
        "correct_bias": args.correct_bias,
        "keep_float": args.keep_float,
        "max_drop": args.max_drop,
        "check": args.check,
        "check_data": _arrays(args.check_data),
        "tol": args.tol,
        "sign": _key(args.sign),
    }
    if args.train:
        options["train"] = TrainSpec(args.loss, args.optimizer, args.trainable, args.accumulate)
    if args.bisect:
        found = bisect(args.model, **options)
        print(f"{found} is the first step that breaks agreement" if found else "every step agrees")
        return 1 if found else 0
    report = convert(args.model, _target(args), **options)
    print(report.to_json() if args.json else report)
    if args.report:
        try:
            write_whole(args.report, (report.to_json() + "\n").encode())
        except OSError as e:
            raise ConvertError(f"{args.report}: {e.strerror}; the model was written") from None
    return 0


def _check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Flags that do not go together are wrong usage."""
    if not args.model:
        parser.error("argument model: '': want the name of a file")
    if args.quantize == "int8" and not args.calibration:
        parser.error("--quantize int8 needs --calibration F.npz")
    if args.calibration and args.quantize == "none":
        parser.error("--calibration is for --quantize; --check-data gives inputs to compare")
    try:
        parsed(
            args.quantize,
            calibrate=args.calibrate,
            equalize=args.equalize,
            correct_bias=args.correct_bias,
            keep_float=args.keep_float,
            max_drop=args.max_drop,
        )
    except ConvertError as e:
        parser.error(str(e))
    changed = args.trainable != ["*"] or args.optimizer != DEFAULT_OPTIMIZER
    changed = changed or args.accumulate or args.loss != "softmax_cross_entropy"
    if not args.train and changed:
        parser.error("--loss, --optimizer, --trainable and --accumulate are for --train")
    if not args.o and args.kind != "onnx" and Path(args.model).suffix == ".ms" and not args.bisect:
        parser.error("-o is needed: the default would overwrite the source")
    if args.report and any(_is_same(args.report, path) for path in (args.model, _target(args))):
        parser.error(f"--report {args.report}: is the model, want another file to write")


def _target(args: argparse.Namespace) -> str:
    """The file to write; by default beside the source."""
    return str(args.o or os.path.splitext(args.model)[0] + ".ms")


def _is_same(a: str, b: str) -> bool:
    """Whether two paths are one file, which need not be there yet."""
    return os.path.realpath(a) == os.path.realpath(b)


def _parser() -> argparse.ArgumentParser:
    p = _WithConfig(
        prog="ms-convert",
        description="Convert an ONNX model, or one of our own, to a checked .ms file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("model", help="the source model")
    p.add_argument(
        "-o", "--target", dest="o", metavar="OUT.ms", help="file to write (default: by the source)"
    )
    p.add_argument("--from", dest="kind", choices=KINDS, help="its kind (default: by content)")
    p.add_argument(
        "--input",
        action="append",
        type=_shape,
        default=[],
        metavar="NAME=SIZES",
        help="shape of an input: image=1,3,224,224; a name is a free size: image=batch,3,224,224",
    )
    p.add_argument("--output", nargs="+", default=[], metavar="NAME", help="cut the graph there")
    _add_quantization(p.add_argument_group("quantization"))
    _add_training(p.add_argument_group("training on the device"))
    _add_checks(p.add_argument_group("checks"))
    p.add_argument("--sign", metavar="KEY", help="Ed25519 private key file: 32 bytes, hex or PEM")
    p.add_argument("--config", metavar="F.toml", help="flags from a file; those given here win")
    p.add_argument("--report", metavar="F.json", help="write the report as JSON")
    p.add_argument("--json", action="store_true", help="print the report as JSON")
    p.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    return p


def _add_quantization(p: Any) -> None:
    p.add_argument(
        "--quantize",
        default="none",
        metavar="KIND",
        help="none (default), fp16, int8 (arithmetic too), int8-weights[:group=N], "
        "int4-weights[:group=32]",
    )
    p.add_argument("--calibration", metavar="F.npz", help="sample inputs: arrays by input name")
    p.add_argument(
        "--keep-float",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="nodes, by name or by their weight's, that stay float32",
    )
    p.add_argument(
        "--calibrate",
        default="min-max",
        metavar="METHOD",
        help="ranges by: min-max (default), percentile[:percentile=99.99], mse, kl",
    )
    p.add_argument("--equalize", action="store_true", help="balance weights across layers first")
    p.add_argument(
        "--correct-bias", action="store_true", help="undo what rounded weights do to means"
    )
    p.add_argument(
        "--max-drop",
        type=_tolerance,
        metavar="SHARE",
        help="keep as few layers float32 as lose no more than this of the accuracy on the "
        "labels in --check-data (an array `label`), else of the agreement with the source",
    )


def _add_training(p: Any) -> None:
    p.add_argument("--train", action="store_true", help="add the entries loss and train")
    p.add_argument("--loss", choices=sorted(LOSSES), default="softmax_cross_entropy")
    p.add_argument(
        "--optimizer",
        type=_optimizer,
        default=DEFAULT_OPTIMIZER,
        metavar="NAME[:k=v,…]",
        help=f"sgd, momentum, adam or adamw (default {DEFAULT_OPTIMIZER})",
    )
    p.add_argument(
        "--trainable",
        nargs="+",
        default=["*"],
        metavar="PATTERN",
        help="weights that train, by name; all others are frozen (default: all train)",
    )
    p.add_argument(
        "--accumulate", action="store_true", help="add entries that do a training step in parts"
    )


def _add_checks(p: Any) -> None:
    p.add_argument(
        "--check",
        type=_positive,
        default=4,
        metavar="N",
        help="inputs to compare on (default 4)",
    )
    p.add_argument("--check-data", metavar="F.npz", help="real inputs to compare on")
    p.add_argument(
        "--tol",
        type=_tolerance,
        help="largest error: of float32 the largest difference over the largest value (default "
        "1e-4), of int8 the root mean square over that of the value (default 0.1)",
    )
    p.add_argument(
        "--bisect", action="store_true", help="write nothing; name the step that breaks agreement"
    )


class _WithConfig(argparse.ArgumentParser):
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


def _shape(text: str) -> tuple[str, list[int | str]]:
    name, _, sizes = text.partition("=")
    parts = [s.strip() for s in sizes.split(",")]
    if not name or not all(
        (p.isdecimal() and len(p) < 12 and int(p) > 0) or p.isidentifier() for p in parts
    ):
        raise argparse.ArgumentTypeError(f"{text!r}: want NAME=SIZES such as x=batch,3,224,224")
    return name, [int(p) if p.isdecimal() else p for p in parts]


def _optimizer(text: str) -> str:
    try:
        from_text(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number of at least 1")
    return int(text)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number of at least 0")
    return value


def _arrays(path: str | None) -> dict[str, np.ndarray] | None:
    return None if path is None else read_arrays(path)


def _key(path: str | None) -> bytes | None:
    """The 32 bytes of an Ed25519 private key."""
    if path is None:
        return None
    raw = read_file(path, MOST_CONFIG_BYTES)
    if raw.startswith(b"-----BEGIN"):
        return _pem_key(raw, path)
    try:
        key = raw if len(raw) == 32 else bytes.fromhex(raw.decode().strip())
    except (UnicodeDecodeError, ValueError):
        key = b""
    if len(key) != 32:
        raise ConvertError(f"{path}: want an Ed25519 private key: 32 bytes, their hex, or PEM")
    return key


def _pem_key(raw: bytes, path: str) -> bytes:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        message = "signatures need the package cryptography: pip install 'mindspan[sign]'"
        raise ConvertError(message) from None
    try:
        key = load_pem_private_key(raw, None)
    except (ValueError, TypeError) as e:
        raise ConvertError(f"{path}: {' '.join(str(e).split())}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConvertError(f"{path}: {type(key).__name__}, want an Ed25519 private key")
    return key.private_bytes_raw()


if __name__ == "__main__":
    sys.exit(main())
