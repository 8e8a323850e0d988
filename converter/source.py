"""The source of a conversion: a file, its bytes, a model or a program; what kind it is, and reading
it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from converter.errors import ConvertError
from converter.onnx.reader import parse, read_onnx
from converter.options import Options
from converter.tflite.reader import read_tflite
from converter.torch_reader import MAGIC, is_program, load_program
from ir import model_file
from ir.graph import Model
from lite_runtime.files import read_file

Source = str | Path | bytes | Model | Any  # or a torch.export.ExportedProgram


# What else people have, by its first bytes, and what to do with it.
OTHERS = {
    b"\x89HDF\r\n": "a file of HDF5, as of Keras; save the model as TFLite or ONNX",
    b"\x80\x02": "a pickle, as of PyTorch's weights; export the model (torch.onnx.export)",
    b"\x1f\x8b": "a file of gzip; unpack it first",
}


def program_of(source: Source, asked: Options) -> Any:
    """The program of torch.export that the source is, or None."""
    if is_program(source):
        return source
    if isinstance(source, (bytes, Model)) or asked.kind not in (None, "pt2"):
        return None
    if asked.kind == "pt2" or read_file(source)[:4] == MAGIC:
        return load_program(source)
    return None


def read(source: Source, asked: Options) -> tuple[Model, str, int]:
    """The source as a model, what kind it is, and its size in bytes."""
    if isinstance(source, Model):
        return source, "model", sum(w.data.nbytes for w in source.weights)
    data = bytes_of(source) or b""
    if len(data) < 16:
        raise ConvertError(f"{name_of(source)}: {len(data)} bytes; too short for any model")
    others = [text for mark, text in OTHERS.items() if data.startswith(mark)]
    if asked.kind is None and others:
        raise ConvertError(f"{name_of(source)}: {others[0]}")
    kind = kind_of(data) if asked.kind in (None, "pt2") else asked.kind
    if kind == "ms":
        if asked.shapes or asked.outputs:
            raise ConvertError(f"{name_of(source)}: shapes and outputs are for imported models")
        return model_file.read(data), kind, len(data)
    if kind == "tflite":
        named = data if isinstance(source, bytes) else source
        return read_tflite(named, asked.shapes, asked.outputs), kind, len(data)
    proto = parse(data if isinstance(source, bytes) else source)  # a path finds external data
    return read_onnx(proto, asked.shapes, asked.outputs), kind, max(len(data), proto.ByteSize())


def kind_of(data: bytes) -> str:
    """onnx, ms or tflite, by content."""
    if data[4:8] == model_file.IDENTIFIER:
        return "ms"
    return "tflite" if data[4:8] == b"TFL3" else "onnx"


def bytes_of(source: Source) -> bytes | None:
    """The bytes of a file; None of a model or a program in memory."""
    if isinstance(source, (str, Path)):
        return read_file(source)
    return source if isinstance(source, bytes) else None


def name_of(source: Source) -> str:
    return str(source) if isinstance(source, (str, Path)) else "model"
