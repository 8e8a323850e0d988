#include "kernels/int8/binary.h"
#include "kernels/int8/pool.h"
#include "kernels/kernels.h"
#include "kernels/neon/int_vector.h"

namespace lite {

#define LITE_ISA neon
#define LITE_INTS NeonInt
#include "kernels/int8/elements.inc"

}  // namespace lite
