#pragma once

#include <algorithm>

#include "kernels/quantized.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/share.h"

// Loops over int8 tensors whose bodies take a few numbers at a time, for any instruction set.

namespace lite {

constexpr int64_t kElementCost = 64;  // operations that one number costs, as share() counts them

// together(a, b, y): kWide results, for elements that the numpy rule pairs.
template <int kWide, typename Attrs, typename Together>
Status binary_rows(const Call<Attrs>& call, const Together& together) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  const int64_t n = y.elements();
  if (n == 0) return Status::kOk;
  const bool same = a.shape == y.shape && b.shape == y.shape;
  const int64_t row = same ? std::min<int64_t>(n, 1 << 14) : y.dim(-1), rows = (n + row - 1) / row;
  // An operand with one number for a whole row shows it kWide times, and stays.
  const auto stays = [&](const Tensor& x) { return !same && (x.rank() == 0 || x.dim(-1) == 1); };
  const int64_t a_step = stays(a) ? 0 : 1, b_step = stays(b) ? 0 : 1;
  const auto start = [&](const Tensor& x, int64_t at, int64_t step, int8_t* shown) {
    const int8_t* from = x.i8() + (same ? at : broadcast_offset(x.shape, y.shape, at));
    if (step == 0) std::fill_n(shown, kWide, *from);
    return step == 0 ? shown : from;
  };
  parallel_for(call.context.pool, rows, share(rows, kElementCost * row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int8_t shown[2][kWide], last[3][kWide] = {};
      const int64_t count = std::min(row, n - r * row);
      const int8_t *from_a = start(a, r * row, a_step, shown[0]), *from_b = start(b, r * row, b_step, shown[1]);
      int8_t* to = y.i8() + r * row;
      int64_t i = 0;
      for (; i + kWide <= count; i += kWide) together(from_a + i * a_step, from_b + i * b_step, to + i);
      if (i == count) continue;
      std::copy_n(from_a + i * a_step, count - i, last[0]);
      std::copy_n(from_b + i * b_step, count - i, last[1]);
      together(last[0], last[1], last[2]);
      std::copy_n(last[2], count - i, to + i);
    }
  });
  return Status::kOk;
}

// together(x, y): kWide results.
template <int kWide, typename Attrs, typename Together>
Status unary_rows(const Call<Attrs>& call, const Together& together) {
  const int8_t* x = call.in[0].i8();
  int8_t* y = call.y().i8();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kWide <= end; i += kWide) together(x + i, y + i);
    if (i == end) return;
    int8_t last[2][kWide] = {};
    std::copy(x + i, x + end, last[0]);
    together(last[0], last[1]);
    std::copy_n(last[1], end - i, y + i);
  });
  return Status::kOk;
}

// together(x, y): eight means, of the columns from x on that have `count` numbers, `inner` apart. The reference does
// where there are fewer columns than that.
template <typename Together>
Status mean_columns(const Call<quantized_mean_attrs>& call, Status (*reference)(const Call<quantized_mean_attrs>&),
                    const Together& together) {
  const Tensor& x = call.in[0];
  const int first = call.attrs.axes[0], behind = first + call.attrs.axes.size;
  const int64_t outer = product(x.shape, 0, first), count = product(x.shape, first, behind);
  const int64_t inner = product(x.shape, behind, x.rank()), blocks = (inner + 7) / 8;
  if (inner < 8) return reference(call);
  parallel_for(call.context.pool, outer * blocks, share(outer * blocks, 32 * count), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i = task / blocks, j = task % blocks * 8, known = std::max<int64_t>(j + 8 - inner, 0);
      int8_t means[8];  // of the last eight columns, the first `known` belong to the block before
      together(x.i8() + i * count * inner + j - known, count, inner, means);
      std::copy(means + known, means + 8, call.y().i8() + i * inner + j);
    }
  });
  return Status::kOk;
}

}  // namespace lite
