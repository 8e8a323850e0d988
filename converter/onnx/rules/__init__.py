"""What each ONNX operator becomes. One-to-one operators come from the table's `onnx` names; the
rest is a rule of one of these files: (reader, attributes, *inputs) -> result(s).

ONNX images are [n,c,h,w]; ours are [n,h,w,c], so rules put transposes around what depends on it,
and the layout pass cancels them.
"""

from converter.onnx.rules import (  # noqa: F401 - each declares its rules in RULES
    activations,
    attention,
    conditional,
    control,
    determinant,
    einsum,
    elementwise,
    found,
    grams,
    indexing,
    layers,
    losses,
    normalization,
    optimizers,
    pooling,
    quantization,
    recurrent,
    reductions,
    resize,
    sampling,
    sequences,
    shapes,
    signal,
)
from converter.onnx.rules.common import RULES, Names, Reader

__all__ = ["RULES", "Names", "Reader"]
RULES |= elementwise.DIRECT | RULES
