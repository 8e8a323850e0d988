"""What `convert` is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from converter.errors import ConvertError
from converter.items import Shapes
from converter.passes import ALLOWED
from converter.quantization import CALIBRATED, TOLERANCE, Quantization, parsed
from converter.training import TrainSpec
from ir.graph import Array

KINDS = ("onnx", "tflite", "pt2", "ms")
MOST_SECONDS = 2**31 - 1  # that an alarm takes
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Options:
    """What `convert` is asked for; the fields are the flags of ms-convert."""

    kind: str | None = None
    shapes: Shapes | None = None
    outputs: Sequence[str] = ()
    quantize: str = "none"
    calibration: Arrays | None = None
    calibrate: str = "min-max"
    equalize: bool = False
    correct_bias: bool = False
    keep_float: Sequence[str] = ()
    max_drop: float | None = None
    train: TrainSpec | None = None
    check: int = 4
    check_data: Arrays | None = None
    check_seconds: int = 600
    tol: float | None = None
    sign: bytes | None = None
    metadata: Mapping[str, str] | None = None
    explain: bool = False
    allow: Sequence[str] = ()

    def __post_init__(self) -> None:
        asked = self.quantization
        if self.kind not in (None, *KINDS):
            raise ConvertError(f"kind is {self.kind!r}, want one of {', '.join(KINDS)}")
        if asked.kind in CALIBRATED and not self.calibration:
            raise ConvertError(
                f"quantize {asked.kind} needs calibration data: arrays by input name"
            )
        if unknown := [name for name in self.allow if name not in ALLOWED]:
            raise ConvertError(f"allow is {unknown}, want some of {', '.join(ALLOWED)}")
        if self.tol is not None and not 0 <= self.tol < math.inf:
            raise ConvertError(f"tol is {self.tol}, want a finite number of at least 0")
        if self.check < 1:
            raise ConvertError(f"check is {self.check}, want at least 1 input")
        if not 1 <= self.check_seconds <= MOST_SECONDS:
            raise ConvertError(f"check_seconds is {self.check_seconds}, want 1 to {MOST_SECONDS}")

    @property
    def quantization(self) -> Quantization:
        return parsed(
            self.quantize,
            calibrate=self.calibrate,
            equalize=self.equalize,
            correct_bias=self.correct_bias,
            keep_float=tuple(self.keep_float),
            max_drop=self.max_drop,
        )

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.quantization.kind] if self.tol is None else self.tol
