"""The command ms-convert."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter import flags
from converter.errors import ConvertError
from converter.flags import MOST_CONFIG_BYTES
from converter.losses import LOSSES
from converter.options import KINDS
from converter.passes import ALLOWED
from converter.pipeline import bisect, convert
from converter.quantization import CALIBRATED, parsed
from converter.training import NORMS, TrainSpec
from ir.files import write_whole
from ir.version import version
from lite_runtime import LiteError
from lite_runtime.console import exit_code, lines_text
from lite_runtime.files import read_arrays, read_file

EXAMPLES = """examples:
  ms-convert model.onnx                        writes model.ms, checked against model.onnx
  ms-convert model.onnx -o small.ms --quantize int8 --calibration samples.npz
  ms-convert model.onnx --train --trainable 'fc.*' --optimizer momentum:lr=0.01,momentum=0.9
  ms-convert model.onnx --input image=batch,3,224,224 --report report.json
  ms-convert model.tflite                      writes model.ms, checked against LiteRT
  ms-convert saved.ms -o fast.ms --sign release.key
"""
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
        "check_seconds": args.check_seconds,
        "tol": args.tol,
        "sign": _key(args.sign),
        "explain": args.explain,
        "allow": args.allow,
    }
    if args.train:
        options["train"] = _spec(args)
    if args.bisect:
        found = bisect(args.model, **options)
        print(f"{found} is the first step that breaks agreement" if found else "every step agrees")
        return 1 if found else 0
    try:
        report = convert(args.model, _target(args), **options)
    except ConvertError as e:
        if args.explain and e.places:
            print(lines_text([str(place) for place in e.places]))
        raise
    print(report.to_json() if args.json else report)
    if args.report:
        try:
            write_whole(args.report, (report.to_json() + "\n").encode())
        except OSError as e:
            raise ConvertError(f"{args.report}: {e.strerror}; the model was written") from None
    return 0


def _spec(args: argparse.Namespace) -> TrainSpec:
    return TrainSpec(
        args.loss, args.optimizer, args.trainable, args.accumulate, args.head,
        args.batch_norm, args.train_memory, args.train_batch,
    )  # fmt: skip


def _check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Flags that do not go together are wrong usage."""
    if not args.model:
        parser.error("argument model: '': want the name of a file")
    if args.quantize in CALIBRATED and not args.calibration:
        parser.error(f"--quantize {args.quantize} needs --calibration F.npz")
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
    if not args.train and _spec(args) != TrainSpec():
        parser.error(
            "--loss, --optimizer, --trainable, --accumulate, --head, --batch-norm, "
            "--train-memory and --train-batch are for --train"
        )
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
    p = flags.WithConfig(
        prog="ms-convert",
        description="Convert an ONNX or TFLite model, or one of our own, to a checked .ms file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("model", help="the source model")
    p.add_argument(
        "-o", "--to", dest="o", metavar="OUT.ms", help="file to write (default: by the source)"
    )
    p.add_argument(
        "--target",
        type=flags.target,
        default="cpu",
        metavar="WHERE",
        help="what the file is for: cpu (default), the one that the runtime has kernels for",
    )
    p.add_argument("--from", dest="kind", choices=KINDS, help="its kind (default: by content)")
    p.add_argument(
        "--input",
        action="append",
        type=flags.shape,
        default=[],
        metavar="NAME=SIZES",
        help="shape of an input: image=1,3,224,224; a name is a free size: image=batch,3,224,224; "
        "of a sequence's elements: s.0=4,3",
    )
    p.add_argument("--output", nargs="+", default=[], metavar="NAME", help="cut the graph there")
    _add_quantization(p.add_argument_group("quantization"))
    training = p.add_argument_group("training on the device")
    _add_training(training)
    _add_what_trains(training)
    _add_checks(p.add_argument_group("checks"))
    _add_files(p)
    p.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    return p


def _add_files(p: Any) -> None:
    """What is said and allowed, and files beside the model's."""
    p.add_argument(
        "--explain",
        action="store_true",
        help="say of each node where it comes from and why it is what it is, and what cannot be "
        "converted",
    )
    p.add_argument(
        "--allow",
        nargs="+",
        choices=list(ALLOWED),
        default=[],
        metavar="CHANGE",
        help=f"what may change the function a little: {', '.join(ALLOWED)}",
    )
    p.add_argument("--sign", metavar="KEY", help="Ed25519 private key file: 32 bytes, hex or PEM")
    p.add_argument("--config", metavar="F.toml", help="flags from a file; those given here win")
    p.add_argument("--report", metavar="F.json", help="write the report as JSON")
    p.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_quantization(p: Any) -> None:
    p.add_argument(
        "--quantize",
        default="none",
        metavar="KIND",
        help="none (default), fp16, int8 (arithmetic too), int16 (activations of 16 "
        "bits, weights of 8), int8-weights[:group=N], "
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
        type=flags.tolerance,
        metavar="SHARE",
        help="keep as few layers float32 as lose no more than this of the accuracy on the "
        "labels in --check-data (an array `label`), else of the agreement with the source",
    )


def _add_training(p: Any) -> None:
    p.add_argument("--train", action="store_true", help="add the entries loss and train")
    p.add_argument(
        "--loss",
        type=flags.loss,
        default=TrainSpec().loss,
        metavar="NAME[:k=v]",
        help=f"{', '.join(sorted(LOSSES))} (default {TrainSpec().loss})",
    )
    p.add_argument(
        "--optimizer",
        type=flags.optimizer,
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


def _add_what_trains(p: Any) -> None:
    p.add_argument(
        "--head",
        type=flags.positive,
        metavar="N",
        help="replace the last layer by a new one of N",
    )
    p.add_argument(
        "--batch-norm",
        choices=NORMS,
        default="frozen",
        help="whether batch norms that train take their moments from the batch (default: frozen)",
    )
    p.add_argument(
        "--train-memory",
        type=flags.size,
        metavar="SIZE",
        help="train as many of the last layers, and biases, as a step finds room for: 2MB, 512kB",
    )
    p.add_argument(
        "--train-batch",
        type=flags.positive,
        default=TrainSpec().batch,
        metavar="N",
        help=f"examples of a step that --train-memory plans for (default {TrainSpec().batch})",
    )


def _add_checks(p: Any) -> None:
    p.add_argument(
        "--check",
        type=flags.positive,
        default=4,
        metavar="N",
        help="inputs to compare on (default 4)",
    )
    p.add_argument("--check-data", metavar="F.npz", help="real inputs to compare on")
    p.add_argument(
        "--check-seconds", type=flags.positive, default=600, metavar="S",
        help="how long the source model may run for that (600)",
    )  # fmt: skip
    p.add_argument(
        "--tol",
        type=flags.tolerance,
        help="largest error: of float32 the largest difference over the largest value (default "
        "1e-4), of int8 the root mean square over that of the value (default 0.1)",
    )
    p.add_argument(
        "--bisect", action="store_true", help="write nothing; name the step that breaks agreement"
    )


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
