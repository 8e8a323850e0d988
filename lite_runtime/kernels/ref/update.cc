#include <cmath>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/ref/adam.h"
#include "kernels/ref/loops.h"

// Result i may lie where input i lies: each element is read before it is written.

namespace lite {
namespace {

bool alike(const Tensor& a, const Tensor& b) { return a.shape == b.shape && a.dtype == b.dtype; }

bool is_scalar(const Tensor& x, DType dtype) { return x.rank() == 0 && x.dtype == dtype; }

constexpr int kLargestRoot = 128;  // its rows lie on the stack, as doubles

// Rotates pairs of the m rows until all are orthogonal. Thirty sweeps are far more than any matrix was seen to need.
void orthogonalise(double* rows, int64_t m) {
  bool moved = true;
  for (int sweep = 0; sweep < 30 && moved; ++sweep) {
    moved = false;
    for (int64_t p = 0; p < m; ++p) {
      for (int64_t q = p + 1; q < m; ++q) {
        double *x = rows + p * m, *y = rows + q * m, xx = 0, yy = 0, xy = 0;
        for (int64_t i = 0; i < m; ++i) {
          xx += x[i] * x[i];
          yy += y[i] * y[i];
          xy += x[i] * y[i];
        }
        if (!(std::abs(xy) > 1e-12 * std::sqrt(xx * yy))) continue;
        moved = true;
        const double ratio = (yy - xx) / (2 * xy);
        const double tangent = (ratio < 0 ? -1 : 1) / (std::abs(ratio) + std::sqrt(1 + ratio * ratio));
        const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = cosine * tangent;
        for (int64_t i = 0; i < m; ++i) {
          const double old = x[i];
          x[i] = cosine * old - sine * y[i];
          y[i] = sine * old + cosine * y[i];
        }
      }
    }
  }
}

}  // namespace

CHECK(sgd_step) {
  const Tensor& w = call.in[0];
  return call.inputs == 3 && w.dtype == DType::f32 && alike(call.in[1], w) && is_scalar(call.in[2], DType::f32) &&
         alike(call.out[0], w);
}
KERNEL(sgd_step, f32, ref) {
  const float *w = call.in[0].f32(), *g = call.in[1].f32();
  const float lr = *call.in[2].f32(), decay = call.attrs.weight_decay;
  float* out = call.out[0].f32();
  const int64_t n = call.in[0].elements();
  for (int64_t i = 0; i < n; ++i) out[i] = w[i] - lr * (g[i] + decay * w[i]);
  return Status::kOk;
}

CHECK(momentum_step) {
  const Tensor& w = call.in[0];
  return call.inputs == 4 && w.dtype == DType::f32 && alike(call.in[1], w) && alike(call.in[2], w) &&
         is_scalar(call.in[3], DType::f32) && alike(call.out[0], w) && alike(call.out[1], w);
}
KERNEL(momentum_step, f32, ref) {
  const float *w = call.in[0].f32(), *m = call.in[1].f32(), *g = call.in[2].f32();
  const float lr = *call.in[3].f32();
  const auto& a = call.attrs;
  float *out_w = call.out[0].f32(), *out_m = call.out[1].f32();
  const int64_t n = call.in[0].elements();
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] + a.weight_decay * w[i];
    const float moved = a.momentum * m[i] + d;
    out_w[i] = w[i] - lr * (a.nesterov != 0 ? d + a.momentum * moved : moved);
    out_m[i] = moved;
  }
  return Status::kOk;
}

CHECK(adam_step) {
  const Tensor &w = call.in[0], &t = call.in[3];
  return call.inputs == 6 && w.dtype == DType::f32 && alike(call.in[1], w) && alike(call.in[2], w) &&
         (is_scalar(t, DType::i32) || is_scalar(t, DType::f32)) && alike(call.in[4], w) &&
         is_scalar(call.in[5], DType::f32) && alike(call.out[0], w) && alike(call.out[1], w) && alike(call.out[2], w);
}
KERNEL(adam_step, f32, ref) {
  const float *w = call.in[0].f32(), *m = call.in[1].f32(), *v = call.in[2].f32(), *g = call.in[4].f32();
  const AdamScales s = adam_scales(call);
  const auto& a = call.attrs;
  float *out_w = call.out[0].f32(), *out_m = call.out[1].f32(), *out_v = call.out[2].f32();
  const int64_t n = call.in[0].elements();
  for (int64_t i = 0; i < n; ++i) {
    const float d = g[i] + s.decay * w[i];
    const float mean = a.beta1 * m[i] + s.rest1 * d, square = a.beta2 * v[i] + s.rest2 * d * d;
    out_w[i] = s.shrink * w[i] - s.step * mean / (std::sqrt(square * s.unbias) + a.epsilon);
    out_m[i] = mean;
    out_v[i] = square;
  }
  return Status::kOk;
}

CHECK(increment) { return check_same(call) && call.in[0].dtype == DType::i32; }
KERNEL(increment, i32, ref) {
  const uint32_t by = static_cast<uint32_t>(call.attrs.by);
  return unary<uint32_t, uint32_t>(call, [by](uint32_t t) { return t + by; });
}

CHECK(assign) { return call.inputs == 2 && alike(call.in[1], call.in[0]) && alike(call.y(), call.in[0]); }
KERNEL(assign, any, ref) {
  if (call.y().size_bytes() > 0) std::memmove(call.y().data, call.in[1].data, call.y().size_bytes());
  return Status::kOk;
}

CHECK(ema_step) {
  const Tensor& running = call.in[0];
  return call.inputs == 2 && running.dtype == DType::f32 && alike(call.in[1], running) && alike(call.y(), running);
}
KERNEL(ema_step, f32, ref) {
  const float momentum = call.attrs.momentum;
  return binary<float, float>(call, [=](float old, float x) { return (1 - momentum) * old + momentum * x; });
}

CHECK(inverse_root_step) {
  const Tensor &root = call.in[0], &a = call.in[1];
  return call.inputs == 3 && root.dtype == DType::f32 && root.rank() == 2 && root.dim(0) == root.dim(1) &&
         root.dim(0) <= kLargestRoot && alike(a, root) && is_scalar(call.in[2], DType::i32) &&
         alike(call.out[0], root) && call.attrs.order > 0 && call.attrs.every > 0 && call.attrs.epsilon > 0;
}
// Rotations make the rows of a + epsilon I orthogonal (one-sided Jacobi, Hestenes 1958). Of a symmetric matrix without
// negative eigenvalues each row then is an eigenvector times its eigenvalue.
KERNEL(inverse_root_step, f32, ref) {
  const int64_t m = call.in[0].dim(0);
  const float* a = call.in[1].f32();
  float* root = call.out[0].f32();
  if ((static_cast<int64_t>(*call.in[2].i32()) - 1) % call.attrs.every != 0) {
    for (int64_t i = 0; i < m * m; ++i) root[i] = call.in[0].f32()[i];
    return Status::kOk;
  }
  double rows[kLargestRoot * kLargestRoot];
  for (int64_t i = 0; i < m * m; ++i) {
    rows[i] = a[i] + (i % (m + 1) == 0 ? static_cast<double>(call.attrs.epsilon) : 0.0);
  }
  orthogonalise(rows, m);
  for (int64_t i = 0; i < m * m; ++i) root[i] = 0;
  for (int64_t k = 0; k < m; ++k) {
    const double* row = rows + k * m;
    double square = 0;
    for (int64_t i = 0; i < m; ++i) square += row[i] * row[i];
    if (!(square > 0)) continue;
    const double scale = std::pow(square, -0.5 / call.attrs.order) / square;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < m; ++j) root[i * m + j] += static_cast<float>(scale * row[i] * row[j]);
    }
  }
  return Status::kOk;
}

}  // namespace lite
