// What lite.js takes for granted of lite.h: where the fields of its structs lie.

#include <cstddef>

#include "lite/lite.h"

static_assert(sizeof(void*) == 4 && sizeof(size_t) == 4, "addresses of 32 bits");

static_assert(offsetof(lite_tensor, name) == 0 && offsetof(lite_tensor, data) == 4 &&
                  offsetof(lite_tensor, size_bytes) == 8 && offsetof(lite_tensor, dtype) == 12 &&
                  offsetof(lite_tensor, rank) == 16 && offsetof(lite_tensor, shape) == 20 &&
                  sizeof(lite_tensor) == 20 + 4 * LITE_MAX_RANK,
              "kTensor of lite.js");

static_assert(offsetof(lite_options, struct_size) == 0 && offsetof(lite_options, threads) == 4 &&
                  offsetof(lite_options, check_finite) == 8 && offsetof(lite_options, backend) == 12 &&
                  offsetof(lite_options, most_memory) == 16 && offsetof(lite_options, most_steps) == 24 &&
                  offsetof(lite_options, timeout_s) == 32 && offsetof(lite_options, most_depth) == 40,
              "kOptions of lite.js");

static_assert(offsetof(lite_symbol, name) == 0 && offsetof(lite_symbol, low) == 4 && offsetof(lite_symbol, high) == 8,
              "kSymbol of lite.js");
