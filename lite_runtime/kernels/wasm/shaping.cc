#include "kernels/vector/transpose.h"

namespace lite {

KERNEL(transpose, any, wasm) { return transpose_strips(call) ? Status::kOk : transpose_any_ref(call); }

}  // namespace lite
