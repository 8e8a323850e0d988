#include "kernels/dotprod/layer.h"
#include "kernels/int8/conv.h"
#include "kernels/int8/kernels.h"
#include "kernels/kernels.h"

namespace lite {

LITE_INT8_LAYER(quantized_conv2d, Conv<NeonDot>, dotprod)
LITE_INT8_LAYER(quantized_linear, Conv<NeonDot>, dotprod)

}  // namespace lite
