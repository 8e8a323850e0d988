#pragma once

#include <cmath>

#include "core/kernel.h"

namespace lite {

// The factors of one step of Adam that are the same for all elements.
struct AdamScales {
  float rest1, rest2;   // 1 - beta
  float step, unbias;   // lr / (1 - beta1^t), 1 / (1 - beta2^t)
  float decay, shrink;  // weight decay as part of the gradient, or as a factor of the weight
};

inline AdamScales adam_scales(const Call<adam_step_attrs>& call) {
  const auto& a = call.attrs;
  const double t = call.in[3].dtype == DType::i32 ? *call.in[3].i32() : static_cast<double>(*call.in[3].f32());
  const double beta1 = a.beta1, beta2 = a.beta2, lr = *call.in[5].f32();
  const bool decoupled = a.decoupled != 0;
  return {static_cast<float>(1 - beta1),
          static_cast<float>(1 - beta2),
          static_cast<float>(lr / (1 - std::pow(beta1, t))),
          static_cast<float>(1 / (1 - std::pow(beta2, t))),
          decoupled ? 0.0f : a.weight_decay,
          decoupled ? static_cast<float>(1 - lr * a.weight_decay) : 1.0f};
}

}  // namespace lite
