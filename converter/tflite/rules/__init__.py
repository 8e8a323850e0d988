"""What each TFLite operator becomes; see `common` for the three tables of rules.

Images are channels last on both sides, so that rules need no transposes.
"""

from converter.tflite.rules import (  # noqa: F401 - each declares its rules in RULES
    control,
    elementwise,
    elementwise_int8,
    images,
    layers,
    layers_int8,
    moves,
    parts,
    recurrent,
    reductions,
)
from converter.tflite.rules.common import MOVES, PLAIN, STORED, Call, Reader

RULES = sorted({*MOVES, *PLAIN, *STORED})
__all__ = ["MOVES", "PLAIN", "RULES", "STORED", "Call", "Reader"]
