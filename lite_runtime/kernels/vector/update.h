#pragma once

#include "kernels/kernels.h"
#include "kernels/ref/adam.h"
#include "kernels/vector/math.h"

// The steps of the optimisers for any instruction set. Each element is read before it is written: results may lie
// where inputs lie.

namespace lite {

// body(i, lanes) over all elements of the weight, in parallel
template <class Isa, typename Attrs, typename Body>
Status vupdate(const Call<Attrs>& call, Body body) {
  parallel_for(call.context.pool, call.in[0].elements(), 1 << 14, [=](int64_t begin, int64_t end) {
    over<Isa>(end - begin, [=](int64_t i, int lanes) { body(begin + i, lanes); });
  });
  return Status::kOk;
}

template <class Isa>
Status vsgd_step(const Call<sgd_step_attrs>& call) {
  const float *w = call.in[0].f32(), *g = call.in[1].f32();
  const float lr = *call.in[2].f32(), shrink = 1 - lr * call.attrs.weight_decay;
  float* out = call.out[0].f32();
  return vupdate<Isa>(call, [=](int64_t i, int lanes) {
    Isa::store(out + i, Isa::load(w + i, lanes) * shrink - Isa::load(g + i, lanes) * lr, lanes);
  });
}

template <class Isa>
Status vmomentum_step(const Call<momentum_step_attrs>& call) {
  const float *w = call.in[0].f32(), *m = call.in[1].f32(), *g = call.in[2].f32();
  const float lr = *call.in[3].f32();
  const auto a = call.attrs;
  float *out_w = call.out[0].f32(), *out_m = call.out[1].f32();
  return vupdate<Isa>(call, [=](int64_t i, int lanes) {
    const auto old = Isa::load(w + i, lanes), d = Isa::load(g + i, lanes) + old * a.weight_decay;
    const auto moved = Isa::load(m + i, lanes) * a.momentum + d;
    const auto step = a.nesterov != 0 ? d + moved * a.momentum : moved;
    Isa::store(out_w + i, old - step * lr, lanes);
    Isa::store(out_m + i, moved, lanes);
  });
}

template <class Isa>
Status vadam_step(const Call<adam_step_attrs>& call) {
  const float *w = call.in[0].f32(), *m = call.in[1].f32(), *v = call.in[2].f32(), *g = call.in[4].f32();
  const AdamScales s = adam_scales(call);
  const auto a = call.attrs;
  float *out_w = call.out[0].f32(), *out_m = call.out[1].f32(), *out_v = call.out[2].f32();
  return vupdate<Isa>(call, [=](int64_t i, int lanes) {
    const auto old = Isa::load(w + i, lanes), d = Isa::load(g + i, lanes) + old * s.decay;
    const auto mean = Isa::load(m + i, lanes) * a.beta1 + d * s.rest1;
    const auto square = Isa::load(v + i, lanes) * a.beta2 + d * d * s.rest2;
    const auto step = mean * s.step / (Isa::sqrt(square * s.unbias) + a.epsilon);
    Isa::store(out_w + i, old * s.shrink - step, lanes);
    Isa::store(out_m + i, mean, lanes);
    Isa::store(out_v + i, square, lanes);
  });
}

}  // namespace lite
