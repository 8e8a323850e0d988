#pragma once

#include "core/kernel.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/prepared.h"
#include "kernels/ref/checks.h"

// The kernels of the linalg family, for any micro-kernel.

namespace lite {

// What one product of a batch is: y [m,n] = a [m,k] b [k,n], of which a and b may lie transposed.
struct BatchProduct {
  int64_t m, n, k, products;
  bool ta, tb;

  explicit BatchProduct(const Call<matmul_attrs>& call)
      : m(call.y().dim(-2)),
        n(call.y().dim(-1)),
        k(call.in[0].dim(call.attrs.transpose_a ? -2 : -1)),
        products(1),
        ta(call.attrs.transpose_a),
        tb(call.attrs.transpose_b) {
    for (int i = 0; i + 2 < call.y().rank(); ++i) products *= call.y().dim(i);
    if (call.in[1].rank() == 2 && !ta && call.in[0].elements() == products * m * k) {  // one product over all rows
      m *= products;
      products = products > 0 ? 1 : 0;
    }
  }

  int64_t cost() const { return 2 * m * n * k; }
  // Small products are shared whole, in parts of which each has scratch of its own; large ones share their rows.
  int64_t parts() const { return products > 1 && cost() < kSharedProduct ? std::min<int64_t>(products, 8) : 1; }
  template <class Tile>
  uint64_t scratch_bytes() const {
    return (Gemm<Tile>::scratch_bytes(n, k) + 63) / 64 * 64;
  }

  template <class Tile>
  void run(const Context& context, const float* a, const float* b, float* y) const {
    const RowsC c = {y, n};
    const auto product = [&](const auto& from_a, const auto& from_b) {
      Gemm<Tile>::run(context, m, n, k, from_a, from_b, c);
    };
    if (ta && tb) return product(ColumnsA{a, m}, ColumnsB{b, k});
    if (ta) return product(ColumnsA{a, m}, RowsB{b, n});
    if (!tb) return product(RowsA{a, k}, RowsB{b, n});
    if (dots_pay<Tile>(m, k)) {
      return dot_products<typename Tile::Isa>(context, m, n, k, RowsA{a, k}, b, c);
    }
    product(RowsA{a, k}, ColumnsB{b, k});
  }
};

// The offset, in matrices, of the one that product `index` of the batch takes from an input of shape `own`.
inline int64_t matrix_offset(const Ints& own, const Ints& out, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = 3; i <= out.size; ++i) {
    const int64_t at = index % out.data[out.size - i];
    index /= out.data[out.size - i];
    if (i > own.size) break;
    const int size = own.data[own.size - i];
    if (size != 1) offset += at * stride;
    stride *= size;
  }
  return offset;
}

template <class Tile>
Status gemm_matmul(const Call<matmul_attrs>& call) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  const BatchProduct one(call);
  const auto run = [&](const Context& context, int64_t p) {
    one.run<Tile>(context, a.f32() + matrix_offset(a.shape, y.shape, p) * one.m * one.k,
                  b.f32() + matrix_offset(b.shape, y.shape, p) * one.k * one.n, y.f32() + p * one.m * one.n);
  };
  const int64_t parts = one.parts(), products = one.products;
  if (parts == 1) {
    for (int64_t p = 0; p < products; ++p) run(call.context, p);
    return Status::kOk;
  }
  parallel_for(call.context.pool, parts, share(parts, products * one.cost() / parts), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const Context alone = {static_cast<char*>(call.context.scratch) + part * one.scratch_bytes<Tile>(), nullptr};
      for (int64_t p = products * part / parts; p < products * (part + 1) / parts; ++p) run(alone, p);
    }
  });
  return Status::kOk;
}
template <class Tile>
uint64_t gemm_matmul_scratch(const Call<matmul_attrs>& call) {
  const BatchProduct one(call);
  return one.parts() * one.scratch_bytes<Tile>();
}

// y [m,n] = x [m,k] w^T, of linear and of linear_add. `Halves` is the micro-kernel for weights in float16, or Tile
// itself where there is none.
template <class Tile, class Halves = Tile>
class LinearLayer {
 public:
  template <class Attrs>
  explicit LinearLayer(const Call<Attrs>& call) : LinearLayer(inputs_of(call), call, call.attrs.activation) {}

  template <class Attrs>
  LinearLayer(const LayerInputs& in, const Call<Attrs>& call, Activation activation)
      : in_(in),
        y_(call.y()),
        context_(call.context),
        ends_(ends_of(in, activation)),
        m_(rows_of(in.x)),
        n_(in.w.dim(0)),
        k_(in.w.dim(1)),
        way_(dots_pay<Tile>(m_, k_) ? Way::dots : Way::product) {}

  Status run() const { return halves() ? run_with<Halves>() : run_with<Tile>(); }
  uint64_t scratch_bytes() const {
    const bool packs = way_ == Way::product && PreparedHeader::weights(context_, way_) == nullptr;
    return packs ? Gemm<Tile>::scratch_bytes(n_, k_) : 0;  // enough for halves, too
  }
  uint64_t prepare(void* to) const { return halves() ? prepare_for<Halves>(to) : prepare_for<Tile>(to); }

 private:
  bool halves() const { return !std::is_same_v<Tile, Halves> && in_.w.dtype == DType::f16; }

  template <class T>
  __attribute__((noinline)) Status run_with() const {
    using Weight = typename T::Weight;
    const void* packed = PreparedHeader::weights(context_, way_);
    const Weight* w = in_.w.as<Weight>();
    const RowsA a = {in_.x.f32(), k_};
    const RowsC c = {y_.f32(), n_};
    if (way_ == Way::dots) {
      dot_products<typename Tile::Isa>(context_, m_, n_, k_, a, w, c, ends_);
    } else if (packed != nullptr) {
      Gemm<T>::run(context_, m_, n_, k_, a, PackedB<T>{static_cast<const Weight*>(packed), n_, k_}, c, ends_);
    } else {
      Gemm<T>::run(context_, m_, n_, k_, a, ColumnsB{w, k_}, c, ends_);
    }
    return Status::kOk;
  }

  template <class T>
  __attribute__((noinline)) uint64_t prepare_for(void* to) const {
    using Weight = typename T::Weight;
    const bool packs = way_ == Way::product;
    const uint64_t size = sizeof(PreparedHeader) + (packs ? PackedB<T>::numbers(n_, k_) * sizeof(Weight) : 0);
    if (to == nullptr) return size;
    void* packed = PreparedHeader::start(to, way_);
    const Weight* w = in_.w.as<Weight>();
    if (packs) PackedB<T>::pack(ColumnsB{w, k_}, n_, k_, static_cast<Weight*>(packed));
    return size;
  }

  const LayerInputs in_;
  const Tensor& y_;
  const Context& context_;
  const ProductEnds ends_;
  const int64_t m_, n_, k_;
  const Way way_;
};

}  // namespace lite
