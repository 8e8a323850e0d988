#pragma once

#include "core/kernel.h"

// What layers make once of weights that never change.

namespace lite {

// The ways to compute a layer; sizes alone choose one.
enum class Way : int32_t { dots, winograd, winograd_large, product, halves };

constexpr int64_t kLeastSquares = 48;  // of 2x2 results, for which Way::winograd transforms weights

// The way that it is for, then the packed weights of that.
struct PreparedHeader {
  Way way;
  char rest[60];  // packed weights begin on a boundary of 64 bytes

  // The weights prepared for a call that goes this way, or null: other sizes may go other ways.
  static const void* weights(const Context& context, Way way) {
    const PreparedHeader* header = static_cast<const PreparedHeader*>(context.prepared);
    return header != nullptr && header->way == way ? header + 1 : nullptr;
  }
  // Writes itself; returns where the weights go.
  static void* start(void* to, Way way) {
    PreparedHeader* header = static_cast<PreparedHeader*>(to);
    header->way = way;
    return header + 1;
  }
};

}  // namespace lite
