#include "kernels/avx512/int_vector.h"
#include "kernels/int8/binary.h"
#include "kernels/int8/pool.h"
#include "kernels/kernels.h"

namespace lite {

#define LITE_ISA avx512
#define LITE_INTS Avx512Int
#include "kernels/int8/elements.inc"

}  // namespace lite
