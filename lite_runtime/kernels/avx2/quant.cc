#include "kernels/avx2/int_vector.h"
#include "kernels/int8/binary.h"
#include "kernels/int8/pool.h"
#include "kernels/kernels.h"

namespace lite {

#define LITE_ISA avx2
#define LITE_INTS Avx2Int
#include "kernels/int8/elements.inc"

}  // namespace lite
