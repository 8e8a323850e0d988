"""PyTorch → ONNX: programs of torch.export, in memory or as .pt2 files. PyTorch is needed here."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import ConvertError
from ir.graph import Array

MAGIC = b"PK\x03\x04"  # a .pt2 file is a zip archive


def is_program(source: Any) -> bool:
    """Whether this is a torch.export.ExportedProgram, without importing torch."""
    return type(source).__name__ == "ExportedProgram"


def load_program(path: str | Path) -> Any:
    """The torch.export.ExportedProgram in a file. Raises ConvertError.

    PyTorch opens it: load files that you trust, for this runs what is in them.
    """
    torch = _torch()
    try:
        with _quiet():
            return torch.export.load(path)
    except Exception as e:  # whatever torch thinks of the file; its error types are not public
        raise ConvertError(f"{path}: not a program of torch.export ({_reason(e)})") from None


def to_onnx(program: Any) -> bytes:
    """The bytes of an ONNX model that computes the same, with the names and free sizes of the
    program. Raises ConvertError."""
    torch = _torch()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            with _quiet():
                torch.onnx.export(program, (), path, dynamo=True, external_data=False)
        except ImportError as e:
            raise ConvertError(f"{e.name}: not installed; want pip install onnxscript") from None
        except Exception as e:  # of whatever kind: operators that PyTorch itself cannot export
            raise ConvertError(f"PyTorch does not export the program: {_reason(e)}") from None
        return path.read_bytes()


def answers(program: Any, names: Sequence[str]) -> Callable[[Mapping[str, Array]], list[Array]]:
    """What the program itself gives for inputs with these names, in order."""
    torch = _torch()
    module = program.module()
    types = [v.dtype for v in _user_inputs(program)]

    def run(inputs: Mapping[str, Array]) -> list[Array]:
        given = [
            torch.from_numpy(np.ascontiguousarray(inputs[n])).to(t)
            for n, t in zip(names, types, strict=True)
        ]
        try:
            with torch.no_grad():
                found = module(*given)
        except Exception as e:  # of whatever kind: sizes that the program does not allow
            raise ConvertError(f"the source program does not run: {_reason(e)}") from None
        leaves = torch.utils._pytree.tree_leaves(found)
        return [np.asarray(v) for v in leaves]

    return run


def _user_inputs(program: Any) -> list[Any]:
    """Example values of the inputs, in order."""
    wanted = set(program.graph_signature.user_inputs)
    return [
        n.meta["val"] for n in program.graph.nodes if n.op == "placeholder" and n.name in wanted
    ]


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        message = "programs of torch.export need the package torch: pip install torch onnxscript"
        raise ConvertError(message) from None
    return torch


def _reason(e: BaseException) -> str:
    text = " ".join(str(e).split())
    return f"{type(e).__name__}: {text[:200]}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's talk and warnings."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
