#pragma once

#include <type_traits>

#include "core/kernel.h"

// What a convolution or linear layer reads: x, what its result is added to, if it is one of those, weight and bias.

namespace lite {

// The first input that is a weight, of any operator whose inputs from there on are weights.
inline int first_weight(int code) { return code == code::conv2d_add || code == code::linear_add ? 2 : 1; }

struct LayerInputs {
  const Tensor &x, &w;
  const Tensor *added, *bias;  // or null

  // Whether an output of a layer of `channels` results fits to bias and to what is added.
  bool ends_fit(const Tensor& y, int channels) const {
    const bool bias_fits = bias == nullptr || (bias->rank() == 1 && bias->dim(0) == channels);
    return bias_fits && (added == nullptr || added->shape == y.shape);
  }
};

template <class Attrs>
constexpr bool kAdds = std::is_same_v<Attrs, conv2d_add_attrs> || std::is_same_v<Attrs, linear_add_attrs>;
template <class Attrs>
constexpr int kLeastInputs = kAdds<Attrs> ? 3 : 2;

template <class Attrs>
LayerInputs inputs_of(const Call<Attrs>& call) {
  constexpr int kLeast = kLeastInputs<Attrs>;
  return {call.in[0], call.in[kLeast - 1], kAdds<Attrs> ? &call.in[1] : nullptr, call.optional(kLeast)};
}

// The attributes of either convolution.
inline const conv2d_attrs& plain(const conv2d_attrs& attrs) { return attrs; }
inline conv2d_attrs plain(const conv2d_add_attrs& attrs) {
  return {attrs.strides, attrs.pads, attrs.dilations, attrs.groups, attrs.activation};
}

}  // namespace lite
