#pragma once

#include "core/kernel.h"
#include "kernels/ref/loops.h"

// What kernels of attention share: its sizes, and where the mask of a row of scores lies.

namespace lite {

struct AttentionSizes {
  int64_t batch, t, s, d, e;
  Ints scores;  // their shape, as if they were there

  explicit AttentionSizes(const Call<attention_attrs>& call)
      : batch(1),
        t(call.in[0].dim(-2)),
        s(call.in[1].dim(-2)),
        d(call.in[0].dim(-1)),
        e(call.in[2].dim(-1)),
        scores(call.in[0].shape) {
    for (int i = 0; i + 2 < call.in[0].rank(); ++i) batch *= call.in[0].dim(i);
    scores.data[scores.size - 1] = call.in[1].dim(-2);
  }

  // The mask of row `row` of [batch t], its elements `step` apart; null: there is none.
  const float* mask(const Call<attention_attrs>& call, int64_t row, int64_t* step) const {
    const Tensor* mask = call.optional(3);
    if (mask == nullptr) return nullptr;
    *step = mask->rank() > 0 && mask->dim(-1) != 1 ? 1 : 0;
    return mask->f32() + broadcast_offset(mask->shape, scores, row * s);
  }
};

}  // namespace lite
