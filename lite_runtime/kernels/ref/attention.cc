#include "kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"

namespace lite {

CHECK(attention) {
  if (!has_inputs(call, 3, 4)) return false;
  const Tensor &q = call.in[0], &k = call.in[1], &v = call.in[2], &y = call.y();
  if (q.rank() < 2 || k.rank() != q.rank() || v.rank() != q.rank() || y.rank() != q.rank()) return false;
  for (int i = 0; i + 2 < q.rank(); ++i) {
    if (k.dim(i) != q.dim(i) || v.dim(i) != q.dim(i) || y.dim(i) != q.dim(i)) return false;
  }
  const Tensor* mask = call.optional(3);
  return k.dim(-1) == q.dim(-1) && v.dim(-2) == k.dim(-2) && y.dim(-2) == q.dim(-2) && y.dim(-1) == v.dim(-1) &&
         (mask == nullptr || stretches_to(mask->shape, AttentionSizes(call).scores));
}

// Row by row; what was summed is scaled down where a larger score comes (Milakov and Gimelshein 2018).
KERNEL(attention, f32, ref) {
  const AttentionSizes n(call);
  for (int64_t row = 0; row < n.batch * n.t; ++row) {
    const int64_t b = row / n.t;
    const float *q = call.in[0].f32() + row * n.d, *k = call.in[1].f32() + b * n.s * n.d;
    const float* v = call.in[2].f32() + b * n.s * n.e;
    float *y = call.y().f32() + row * n.e, largest = -INFINITY, sum = 0;
    int64_t step = 0;
    const float* mask = n.mask(call, row, &step);
    std::fill_n(y, n.e, 0.0f);
    for (int64_t j = 0; j < n.s; ++j) {
      float score = 0;
      for (int64_t i = 0; i < n.d; ++i) score += q[i] * k[j * n.d + i];
      score *= call.attrs.scale;
      if (mask != nullptr) score += mask[j * step];
      if (score == -INFINITY) continue;
      const float now = std::max(largest, score), factor = std::exp(largest - now), weight = std::exp(score - now);
      for (int64_t i = 0; i < n.e; ++i) y[i] = y[i] * factor + weight * v[j * n.e + i];
      sum = sum * factor + weight;
      largest = now;
    }
    for (int64_t i = 0; i < n.e && n.s > 0; ++i) y[i] /= sum;
  }
  return Status::kOk;
}

}  // namespace lite
