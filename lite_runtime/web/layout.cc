// What lite.js takes for granted of lite.h: where the fields of its structs lie.

#include <cstddef>

#include "lite/lite.h"

static_assert(sizeof(void*) == 4 && sizeof(size_t) == 4, "addresses of 32 bits");

static_assert(offsetof(lite_tensor, name) == 0 && offsetof(lite_tensor, data) == 4 &&
                  offsetof(lite_tensor, size_bytes) == 8 && offsetof(lite_tensor, dtype) == 12 &&
                  offsetof(lite_tensor, rank) == 16 && offsetof(lite_tensor, shape) == 20 &&
                  sizeof(lite_tensor) == 20 + 4 * LITE_MAX_RANK,
              "TENSOR of lite.js");

static_assert(offsetof(lite_model, entry_count) == 0 && offsetof(lite_model, weight_count) == 4 &&
                  offsetof(lite_model, metadata_count) == 12,
              "#readCounts of lite.js");

static_assert(offsetof(lite_entry, input_count) == 0 && offsetof(lite_entry, output_count) == 4 &&
                  offsetof(lite_entry, output_ids) == 12,
              "ENTRY of lite.js");

static_assert(offsetof(lite_options, struct_size) == 0 && offsetof(lite_options, threads) == 4 &&
                  offsetof(lite_options, check_finite) == 8 && offsetof(lite_options, backend) == 12 &&
                  offsetof(lite_options, most_memory) == 16 && offsetof(lite_options, most_steps) == 24 &&
                  offsetof(lite_options, timeout_s) == 32 && offsetof(lite_options, most_depth) == 40,
              "OPTIONS of lite.js");
