#include "kernels/int8/binary.h"
#include "kernels/int8/pool.h"
#include "kernels/kernels.h"
#include "kernels/wasm/int_vector.h"

namespace lite {

#define LITE_ISA wasm
#define LITE_INTS WasmInt
#include "kernels/int8/elements.inc"

}  // namespace lite
