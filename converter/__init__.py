"""ONNX, TFLite and our own models → checked `.ms` files."""

from converter.errors import ConvertError, UnsupportedError
from converter.options import Options
from converter.pipeline import bisect, convert
from converter.report import Report
from converter.training import TrainSpec

__all__ = [
    "ConvertError",
    "Options",
    "Report",
    "TrainSpec",
    "UnsupportedError",
    "bisect",
    "convert",
]
