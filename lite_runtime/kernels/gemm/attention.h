#pragma once

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/gemm/dot.h"
#include "kernels/vector/norm.h"

// Attention for any micro-kernel: some rows of scores at a time, which stay in the second cache.

namespace lite {

constexpr int64_t kScores = 1 << 15;  // of a task: they stay in the second cache
constexpr int64_t kLeastRows = 24;    // of scores: enough that packing keys and values pays

struct AttentionTasks {
  AttentionSizes n;
  int64_t rows, blocks, tasks, cost, parts;  // rows of scores at a time

  explicit AttentionTasks(const Call<attention_attrs>& call)
      : n(call),
        rows(std::max<int64_t>(1, std::min(n.t, std::max(kLeastRows, kScores / std::max<int64_t>(n.s, 1))))),
        blocks((n.t + rows - 1) / rows),
        tasks(n.batch * blocks),
        cost(2 * rows * n.s * (n.d + n.e + 8)),
        parts(std::min<int64_t>(tasks, 4)) {}

  uint64_t scores_bytes() const { return (static_cast<uint64_t>(rows * n.s) * sizeof(float) + 63) / 64 * 64; }
  template <class Tile>
  uint64_t part_bytes() const {  // of each part of the tasks
    const uint64_t packed = std::max(Gemm<Tile>::scratch_bytes(n.s, n.d), Gemm<Tile>::scratch_bytes(n.e, n.s));
    return scores_bytes() + (packed + 63) / 64 * 64;
  }
};

template <class Tile>
void attention_rows(const Call<attention_attrs>& call, const AttentionSizes& n, int64_t b, int64_t row, int64_t count,
                    float* scores, const Context& alone) {
  using Isa = typename Tile::Isa;
  const float *q = call.in[0].f32() + (b * n.t + row) * n.d, *k = call.in[1].f32() + b * n.s * n.d;
  const float* v = call.in[2].f32() + b * n.s * n.e;
  const RowsC to = {scores, n.s};
  if (dots_pay<Tile>(count, n.d)) {
    dot_products<Isa>(alone, count, n.s, n.d, RowsA{q, n.d}, k, to);
  } else {
    Gemm<Tile>::run(alone, count, n.s, n.d, RowsA{q, n.d}, ColumnsB{k, n.d}, to);
  }
  const auto scale = Isa::all(call.attrs.scale);
  for (int64_t r = 0; r < count; ++r) {
    float* x = scores + r * n.s;
    int64_t step = 0;
    const float* mask = n.mask(call, b * n.t + row + r, &step);
    const auto same = Isa::all(mask != nullptr ? mask[0] : 0.0f);
    over<Isa>(n.s, [&](int64_t i, int lanes) {
      Isa::store(x + i, Isa::fma(Isa::load(x + i, lanes), scale, step != 0 ? Isa::load(mask + i, lanes) : same), lanes);
    });
    const auto factor = Isa::all(1.0f / row_exp<Isa>(x, n.s, x));
    over<Isa>(n.s, [&](int64_t i, int lanes) { Isa::store(x + i, Isa::load(x + i, lanes) * factor, lanes); });
  }
  Gemm<Tile>::run(alone, count, n.e, n.s, RowsA{scores, n.s}, RowsB{v, n.e},
                  RowsC{call.y().f32() + (b * n.t + row) * n.e, n.e});
}

template <class Tile>
Status gemm_attention(const Call<attention_attrs>& call) {
  const AttentionTasks all(call);
  if (all.tasks == 0 || all.n.e == 0) return Status::kOk;
  if (all.n.s == 0) {  // the sum of nothing
    std::fill_n(call.y().f32(), call.y().elements(), 0.0f);
    return Status::kOk;
  }
  const int64_t parts = all.parts;
  parallel_for(call.context.pool, parts, share(parts, all.tasks * all.cost / parts), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      char* scratch = static_cast<char*>(call.context.scratch) + part * all.part_bytes<Tile>();
      const Context alone = {scratch + all.scores_bytes(), nullptr};
      for (int64_t task = all.tasks * part / parts; task < all.tasks * (part + 1) / parts; ++task) {
        const int64_t row = task % all.blocks * all.rows;
        attention_rows<Tile>(call, all.n, task / all.blocks, row, std::min(all.rows, all.n.t - row),
                             reinterpret_cast<float*>(scratch), alone);
      }
    }
  });
  return Status::kOk;
}
template <class Tile>
uint64_t gemm_attention_scratch(const Call<attention_attrs>& call) {
  const AttentionTasks all(call);
  return all.parts * all.part_bytes<Tile>();
}

}  // namespace lite
