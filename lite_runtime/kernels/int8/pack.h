#pragma once

#include "kernels/int8/layer.h"
#include "kernels/int8/rescale.h"

// Packed weights of layers on int8. A group's vectors of results come one after the other, block by block; a block has
// the parameters of its vectors, then its weights as its kernel multiplies them.
//
// An instruction set is a class Isa with
//   kLanes, kParts, kQuick   32-bit lanes of a vector; vectors of parameters a vector has; whether it knows the short
//                            way
//   kOffset                  what its kernels add to x before they multiply
//   Weight                   the type of packed weights
//   result_of                the result of a block that is in a lane, as Blocks has it or in an order of its own

namespace lite {

// The weights of one result: w[0], w[stride], ...
struct ResultWeights {
  const int8_t* w;
  int64_t n, stride;

  int64_t sum() const {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += w[i * stride];
    return sum;
  }
  // No sum of products with x - x_zero, the bias added, is farther from 0.
  int64_t bound(int32_t bias) const {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::abs(w[i * stride]);
    return std::abs(int64_t{bias}) + 255 * sum;
  }
  bool none() const { return bound(0) == 0; }
  bool has(int8_t value) const {
    for (int64_t i = 0; i < n; ++i) {
      if (w[i * stride] == value) return true;
    }
    return false;
  }
};

// Whether all results can take the short way; weights(k) are those of result k.
template <class Isa, typename Weights>
bool all_quick(const Channels& channels, int64_t results, const Weights& weights) {
  for (int64_t k = 0; k < results; ++k) {
    if (!Isa::takes(weights(k), channels.bias[k], channels.scale(k).shift)) return false;
  }
  return true;
}

// Parameters of a block of `vectors` vectors whose first result is `first`, `width` of them: for each vector where sums
// start, then how to bring them back to int8.
template <class Isa, typename Weights>
void pack_parameters(const Channels& channels, bool quick, int64_t first, int width, int vectors, int x_zero,
                     const Stored& stored, const Weights& weights, int32_t* to) {
  for (int v = 0; v < vectors; ++v, to += Isa::kParts * Isa::kLanes) {
    std::fill_n(to, Isa::kParts * Isa::kLanes, 0);
    for (int lane = 0; lane < Isa::kLanes; ++lane) {
      const int at = Isa::result_of(vectors, v, lane);
      if (at >= width) continue;
      const int64_t k = first + at;
      const ResultWeights of = weights(k);
      const int64_t start = channels.bias[k] - (Isa::kOffset + x_zero) * of.sum();
      const FixedPoint by = channels.scale(k);
      to[lane] = wrap32(quick && Isa::kQuick ? start + (int64_t{1} << 31) : start);
      if (!quick || !Isa::kQuick) {
        to[Isa::kLanes + lane] = by.multiplier;
        to[2 * Isa::kLanes + lane] = by.shift;
      } else if constexpr (Isa::kQuick) {
        const bool constant = of.none();
        store_quick(constant ? Quick::always(channels.finish(0, static_cast<int>(k), stored))
                             : Quick::of(by.multiplier, by.shift, stored.zero, Quick::has_sign(stored)),
                    Isa::kLanes, lane, to + Isa::kLanes);
      }
    }
  }
}

// Weights of a block, `depth` of each result, for kernels that multiply kTogether numbers of x with as many of each
// result at a time: y[d / kTogether][vector][lane][d % kTogether]. Results have pieces of `piece` weights, which become
// `length` with zeros at their ends; where there is no result, there are zeros.
template <class Isa>
void pack_weights(const int8_t* w, int64_t depth, int64_t piece, int64_t length, int vectors, int width,
                  typename Isa::Weight* y) {
  for (int64_t from = 0; from < depth; from += piece) {
    for (int64_t d = 0; d < length; d += Isa::kTogether) {
      for (int v = 0; v < vectors; ++v) {
        for (int lane = 0; lane < Isa::kLanes; ++lane) {
          const int k = Isa::result_of(vectors, v, lane);
          for (int64_t i = d; i < d + Isa::kTogether; ++i) *y++ = k < width && i < piece ? w[k * depth + from + i] : 0;
        }
      }
    }
  }
}

}  // namespace lite
