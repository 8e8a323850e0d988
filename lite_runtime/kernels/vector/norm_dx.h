#pragma once

#include "kernels/vector/norm.h"

// Gradients of what is normalised along rows, for any instruction set.

namespace lite {

constexpr int64_t kMostBlocks = 16;  // of rows, whose sums are kept apart whatever the number of threads

inline int64_t block_rows(int64_t rows) { return std::max<int64_t>((rows + kMostBlocks - 1) / kMostBlocks, 1); }

// dx of one row; adds its part to dscale and dbias.
template <class Isa>
inline void layer_norm_dx_row(const float* g, const float* x, const float* scale, float epsilon, int64_t n, float* dx,
                              float* dscale, float* dbias) {
  using V = typename Isa::V;
  const V zero = Isa::all(0.0f), count = Isa::all(static_cast<float>(n));
  const V mean = Isa::all(row_sum<Isa>(x, n, [](V v) { return v; }) / static_cast<float>(n));
  const float squares = row_sum<Isa>(x, n, [&](V v) { return (v - mean) * (v - mean); });
  const V r = Isa::all(1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon));
  V level = zero, tilt = zero;
  over<Isa>(n, [&](int64_t i, int lanes) {
    const V gi = Isa::load(g + i, lanes), normalised = (Isa::load(x + i, lanes) - mean) * r;
    const V h = Isa::first(gi * Isa::load(scale + i, lanes), lanes, zero);
    level = level + h;
    tilt = Isa::fma(h, Isa::first(normalised, lanes, zero), tilt);
    Isa::store(dscale + i, Isa::fma(gi, normalised, Isa::load(dscale + i, lanes)), lanes);
    Isa::store(dbias + i, gi + Isa::load(dbias + i, lanes), lanes);
  });
  level = Isa::all(Isa::sum(level)) / count;
  tilt = Isa::all(Isa::sum(tilt)) / count;
  over<Isa>(n, [&](int64_t i, int lanes) {
    const V h = Isa::load(g + i, lanes) * Isa::load(scale + i, lanes);
    const V normalised = (Isa::load(x + i, lanes) - mean) * r;
    Isa::store(dx + i, r * (h - level - normalised * tilt), lanes);
  });
}

// Scratch: for each block of rows its dscale and dbias.
template <class Isa>
Status vector_layer_norm_dx(const Call<layer_norm_dx_attrs>& call) {
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  const int64_t size = block_rows(rows), blocks = (rows + size - 1) / size;
  float* sums = static_cast<float*>(call.context.scratch);
  std::fill(sums, sums + 2 * n * blocks, 0.0f);
  parallel_for(call.context.pool, blocks, share(blocks, size * n * 16), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * size; row < std::min(end * size, rows); ++row) {
      float* block = sums + row / size * 2 * n;
      layer_norm_dx_row<Isa>(call.in[0].f32() + row * n, call.in[1].f32() + row * n, call.in[2].f32(),
                             call.attrs.epsilon, n, call.y().f32() + row * n, block, block + n);
    }
  });
  for (int result = 1; result <= 2; ++result) {
    over<Isa>(n, [&](int64_t i, int lanes) {
      typename Isa::V sum = Isa::all(0.0f);
      for (int64_t b = 0; b < blocks; ++b) sum = sum + Isa::load(sums + (2 * b + result - 1) * n + i, lanes);
      Isa::store(call.out[result].f32() + i, sum, lanes);
    });
  }
  return Status::kOk;
}

inline uint64_t layer_norm_dx_scratch(const Call<layer_norm_dx_attrs>& call) {
  return static_cast<uint64_t>(call.y().dim(-1)) * 2 * kMostBlocks * sizeof(float);
}

// Over the last axis.
template <class Isa>
Status vector_softmax_dx(const Call<softmax_dx_attrs>& call) {
  using V = typename Isa::V;
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  for_rows(call.context.pool, rows, n, 4, [&](int64_t row) {
    const float *g = call.in[0].f32() + row * n, *y = call.in[1].f32() + row * n;
    float* dx = call.y().f32() + row * n;
    V sum = Isa::all(0.0f);
    over<Isa>(n, [&](int64_t i, int lanes) {
      sum = Isa::fma(Isa::first(Isa::load(g + i, lanes), lanes, Isa::all(0.0f)), Isa::load(y + i, lanes), sum);
    });
    const V along = Isa::all(Isa::sum(sum));
    over<Isa>(n, [&](int64_t i, int lanes) {
      Isa::store(dx + i, (Isa::load(g + i, lanes) - along) * Isa::load(y + i, lanes), lanes);
    });
  });
  return Status::kOk;
}

}  // namespace lite
