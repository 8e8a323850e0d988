#pragma once

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/recurrent.h"

// Recurrent layers for any micro-kernel: each step is one product over all examples, with the matrix packed once, and
// one pass over the gates.

namespace lite {

// What a step multiplies with: w [rows,h] or its transpose, prepared, or packed once for all steps.
template <class Tile>
class StepProduct {
 public:
  // Floats of scratch: the packed matrix, unless that is prepared.
  static int64_t scratch_floats(const Context& context, int64_t k, int64_t n) {
    return context.prepared != nullptr ? 0 : PackedB<Tile>::numbers(n, k);
  }

  // For products of `m` rows with B [k,n], which has to be w^T for `columns` (w lies as [n,k]) and w itself else.
  StepProduct(const Context& context, const float* w, int64_t m, int64_t k, int64_t n, bool columns)
      : context_(context), packed_(static_cast<const float*>(context.prepared)), m_(m), k_(k), n_(n) {
    if (packed_ != nullptr) return;
    float* packed = static_cast<float*>(context.scratch);
    columns ? PackedB<Tile>::pack(ColumnsB{w, k}, n, k, packed) : PackedB<Tile>::pack(RowsB{w, n}, n, k, packed);
    packed_ = packed;
  }

  // y = a B
  void run(const RowsA& a, const RowsC& y) const {
    Gemm<Tile>::run(context_, m_, n_, k_, a, PackedB<Tile>{packed_, n_, k_}, y);
  }

 private:
  const Context& context_;
  const float* packed_;
  int64_t m_, k_, n_;
};

// body(example) for all of them, in parallel; `cost` is that of one.
template <typename Body>
void for_examples(const Context& context, int64_t n, int64_t cost, const Body& body) {
  parallel_for(context.pool, n, share(n, cost), [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) body(e);
  });
}

// Scratch of a forward pass: packed w^T [h, gates h] and the products [n, gates h].
template <class Tile>
uint64_t recurrent_scratch(const Context& context, int64_t n, int64_t gates, int64_t h) {
  return static_cast<uint64_t>(StepProduct<Tile>::scratch_floats(context, h, gates * h) + n * gates * h) *
         sizeof(float);
}
// What a forward pass makes of w [gates h, h]: packed w^T.
template <class Tile>
uint64_t recurrent_prepare(const Tensor& w, void* to) {
  const int64_t n = w.dim(0), h = w.dim(1);
  if (to != nullptr) PackedB<Tile>::pack(ColumnsB{w.f32(), h}, n, h, static_cast<float*>(to));
  return static_cast<uint64_t>(PackedB<Tile>::numbers(n, h)) * sizeof(float);
}
// Scratch of a backward pass: packed w [gates h, h], and `extra` rows [n, gates h].
template <class Tile>
uint64_t recurrent_dx_scratch(const Context& context, int64_t n, int64_t gates, int64_t h, int64_t extra) {
  return static_cast<uint64_t>(StepProduct<Tile>::scratch_floats(context, gates * h, h) + extra * n * gates * h) *
         sizeof(float);
}

template <class Tile>
Status gemm_lstm(const Call<lstm_attrs>& call) {
  using Isa = typename Tile::Isa;
  const Steps s = steps_of(call.out[0], call.attrs.reverse != 0);
  const int64_t h = s.h;
  const float* x = call.in[0].f32();
  float *hidden = call.out[0].f32(), *cell = call.out[1].f32(), *gates = call.out[2].f32();
  float* products =
      static_cast<float*>(call.context.scratch) + StepProduct<Tile>::scratch_floats(call.context, h, 4 * h);
  const StepProduct<Tile> product(call.context, call.in[1].f32(), s.n, h, 4 * h, true);
  for (int64_t step = 0; step < s.t; ++step) {
    const RowsA last = {s.before(step, 0, hidden, call.in[2].f32()), s.stride_before(step)};
    product.run(last, RowsC{products, 4 * h});
    for_examples(call.context, s.n, 64 * h, [&](int64_t e) {
      const int64_t at = s.at(step, e);
      const float *u = products + e * 4 * h, *a = x + at * 4 * h, *c0 = s.before(step, e, cell, call.in[3].f32());
      float* to = gates + at * 4 * h;
      over<Isa>(h, [&](int64_t j, int lanes) {
        const auto sum = [&](int64_t k) { return Isa::load(u + k * h + j, lanes) + Isa::load(a + k * h + j, lanes); };
        const auto i = vsigmoid<Isa>(sum(0)), f = vsigmoid<Isa>(sum(1)), o = vsigmoid<Isa>(sum(3));
        const auto fresh = vtanh<Isa>(sum(2)), c = Isa::fma(f, Isa::load(c0 + j, lanes), i * fresh);
        Isa::store(to + j, i, lanes);
        Isa::store(to + h + j, f, lanes);
        Isa::store(to + 2 * h + j, fresh, lanes);
        Isa::store(to + 3 * h + j, o, lanes);
        Isa::store(cell + at * h + j, c, lanes);
        Isa::store(hidden + at * h + j, o * vtanh<Isa>(c), lanes);
      });
    });
  }
  return Status::kOk;
}

template <class Tile>
Status gemm_lstm_dx(const Call<lstm_dx_attrs>& call) {
  using Isa = typename Tile::Isa;
  const Steps s = steps_of(call.in[1], call.attrs.reverse != 0);
  const int64_t h = s.h;
  const float *gates = call.in[0].f32(), *cell = call.in[1].f32(), *g = call.in[4].f32();
  const float* gc = call.optional(5) != nullptr ? call.optional(5)->f32() : nullptr;
  const float* direct = call.optional(6) != nullptr ? call.optional(6)->f32() : nullptr;
  float *dx = call.out[0].f32(), *dh = call.out[1].f32(), *dc = call.out[2].f32();
  const StepProduct<Tile> product(call.context, call.in[2].f32(), s.n, 4 * h, h, false);
  std::fill_n(dh, s.n * h, 0.0f);
  std::fill_n(dc, s.n * h, 0.0f);
  for (int64_t step = s.t - 1; step >= 0; --step) {
    for_examples(call.context, s.n, 64 * h, [&](int64_t e) {
      const int64_t at = s.at(step, e);
      const float *a = gates + at * 4 * h, *old = s.before(step, e, cell, call.in[3].f32());
      float *to = dx + at * 4 * h, *of_last = dc + e * h;
      over<Isa>(h, [&](int64_t j, int lanes) {
        const auto one = Isa::all(1.0f);
        const auto load = [&](const float* from) { return Isa::load(from + j, lanes); };
        const auto i = load(a), f = load(a + h), fresh = load(a + 2 * h), o = load(a + 3 * h);
        const auto bent = vtanh<Isa>(load(cell + at * h)), of_h = load(dh + e * h) + load(g + at * h);
        auto of_c = load(of_last) + of_h * o * (one - bent * bent);
        if (gc != nullptr) of_c = of_c + load(gc + at * h);
        typename Isa::V by_gate[4] = {of_c * fresh, of_c * load(old), of_c * i, of_h * bent};
        for (int k = 0; k < 4 && direct != nullptr; ++k) by_gate[k] = by_gate[k] + load(direct + (at * 4 + k) * h);
        Isa::store(to + j, by_gate[0] * i * (one - i), lanes);
        Isa::store(to + h + j, by_gate[1] * f * (one - f), lanes);
        Isa::store(to + 2 * h + j, by_gate[2] * (one - fresh * fresh), lanes);
        Isa::store(to + 3 * h + j, by_gate[3] * o * (one - o), lanes);
        Isa::store(of_last + j, of_c * f, lanes);
      });
    });
    product.run(RowsA{dx + s.at(step, 0) * 4 * h, s.t * 4 * h}, RowsC{dh, h});
  }
  return Status::kOk;
}

template <class Tile>
Status gemm_gru(const Call<gru_attrs>& call) {
  using Isa = typename Tile::Isa;
  const Steps s = steps_of(call.out[0], call.attrs.reverse != 0);
  const int64_t h = s.h;
  const float *x = call.in[0].f32(), *b = call.optional(3) != nullptr ? call.optional(3)->f32() : nullptr;
  float *hidden = call.out[0].f32(), *gates = call.out[1].f32();
  float* products =
      static_cast<float*>(call.context.scratch) + StepProduct<Tile>::scratch_floats(call.context, h, 3 * h);
  const StepProduct<Tile> product(call.context, call.in[1].f32(), s.n, h, 3 * h, true);
  for (int64_t step = 0; step < s.t; ++step) {
    const RowsA last = {s.before(step, 0, hidden, call.in[2].f32()), s.stride_before(step)};
    product.run(last, RowsC{products, 3 * h});
    for_examples(call.context, s.n, 48 * h, [&](int64_t e) {
      const int64_t at = s.at(step, e);
      const float *u = products + e * 3 * h, *a = x + at * 3 * h, *h0 = s.before(step, e, hidden, call.in[2].f32());
      float* to = gates + at * 4 * h;
      over<Isa>(h, [&](int64_t j, int lanes) {
        const auto load = [&](const float* from) { return Isa::load(from + j, lanes); };
        const auto r = vsigmoid<Isa>(load(u) + load(a)), z = vsigmoid<Isa>(load(u + h) + load(a + h));
        auto v = load(u + 2 * h);
        if (b != nullptr) v = v + load(b);
        const auto fresh = vtanh<Isa>(Isa::fma(r, v, load(a + 2 * h)));
        Isa::store(to + j, r, lanes);
        Isa::store(to + h + j, z, lanes);
        Isa::store(to + 2 * h + j, fresh, lanes);
        Isa::store(to + 3 * h + j, v, lanes);
        Isa::store(hidden + at * h + j, (Isa::all(1.0f) - z) * fresh + z * load(h0), lanes);
      });
    });
  }
  return Status::kOk;
}

template <class Tile>
Status gemm_gru_dx(const Call<gru_dx_attrs>& call) {
  using Isa = typename Tile::Isa;
  const Steps s = steps_of(call.in[1], call.attrs.reverse != 0);
  const int64_t h = s.h;
  const float *gates = call.in[0].f32(), *hidden = call.in[1].f32(), *g = call.in[4].f32();
  const float* direct = call.optional(5) != nullptr ? call.optional(5)->f32() : nullptr;
  float *dx = call.out[0].f32(), *dv = call.out[1].f32(), *dh = call.out[2].f32();
  float* of_product =
      static_cast<float*>(call.context.scratch) + StepProduct<Tile>::scratch_floats(call.context, 3 * h, h);
  float* kept = of_product + s.n * 3 * h;  // z times the gradient of h, beside what comes back through the product
  const StepProduct<Tile> product(call.context, call.in[2].f32(), s.n, 3 * h, h, false);
  std::fill_n(dh, s.n * h, 0.0f);
  for (int64_t step = s.t - 1; step >= 0; --step) {
    for_examples(call.context, s.n, 48 * h, [&](int64_t e) {
      const int64_t at = s.at(step, e);
      const float *a = gates + at * 4 * h, *old = s.before(step, e, hidden, call.in[3].f32());
      float *to = dx + at * 3 * h, *u = of_product + e * 3 * h;
      over<Isa>(h, [&](int64_t j, int lanes) {
        const auto one = Isa::all(1.0f);
        const auto load = [&](const float* from) { return Isa::load(from + j, lanes); };
        const auto more = [&](int64_t k) { return direct != nullptr ? load(direct + (at * 4 + k) * h) : one - one; };
        const auto r = load(a), z = load(a + h), fresh = load(a + 2 * h), v = load(a + 3 * h);
        const auto of_h = load(dh + e * h) + load(g + at * h);
        const auto bent = (of_h * (one - z) + more(2)) * (one - fresh * fresh);
        const auto dr = (bent * v + more(0)) * r * (one - r);
        const auto dz = (of_h * (load(old) - fresh) + more(1)) * z * (one - z), of_v = bent * r + more(3);
        for (float* row : {to, u}) {
          Isa::store(row + j, dr, lanes);
          Isa::store(row + h + j, dz, lanes);
        }
        Isa::store(to + 2 * h + j, bent, lanes);
        Isa::store(u + 2 * h + j, of_v, lanes);
        Isa::store(dv + at * h + j, of_v, lanes);
        Isa::store(kept + e * h + j, of_h * z, lanes);
      });
    });
    product.run(RowsA{of_product, 3 * h}, RowsC{dh, h});
    over<Isa>(s.n * h, [&](int64_t i, int lanes) {
      Isa::store(dh + i, Isa::load(dh + i, lanes) + Isa::load(kept + i, lanes), lanes);
    });
  }
  return Status::kOk;
}

}  // namespace lite
