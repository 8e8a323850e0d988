#include "kernels/avx512vnni/layer.h"
#include "kernels/int8/conv.h"
#include "kernels/int8/depthwise.h"
#include "kernels/int8/kernels.h"
#include "kernels/kernels.h"

namespace lite {

LITE_INT8_LAYER(quantized_conv2d, Conv<Vnni512>, avx512vnni)
LITE_INT8_LAYER(quantized_depthwise_conv2d, Depthwise<Vnni512>, avx512vnni)
LITE_INT8_LAYER(quantized_linear, Conv<Vnni512>, avx512vnni)

}  // namespace lite
