"""The operator table. One module a family; importing this package declares every operator.

Codes by family: elementwise, trigonometry and integers 1-49, compare 50-69, reduce and sorting
70-89, shaping, index and scatter 90-129, linalg 130-149, conv 150-179, pool 180-199, norm 200-219,
loss and attention 220-239, quant and compressed 240-278, update 279-299, random 300-309, control
and custom 310-329, recurrent 330-339, fused and formula 340-349.
"""

from ir.ops import (  # noqa: F401
    attention,
    compare,
    compressed,
    control,
    conv,
    custom,
    elementwise,
    formula,
    found,
    fused,
    index,
    integers,
    linalg,
    loss,
    norm,
    norm_relu,
    pool,
    quant,
    quantized,
    quantized_layers,
    random,
    recurrent,
    reduce,
    scatter,
    shaping,
    sizes,
    sorting,
    trigonometry,
    update,
)

# layers with a weight, bias and activation -> the axis of the weight that makes output channels
OUTPUT_AXIS = {"conv2d": 0, "depthwise_conv2d": 2, "linear": 0}
