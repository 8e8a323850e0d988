#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"

namespace lite {
namespace {

// Inputs from 1 on, and results from 1 on, are one number a feature of input 0; result 0 has its shape.
template <typename Attrs>
bool check_features(const Call<Attrs>& call, int inputs, int results = 1) {
  if (!has_inputs(call, inputs, inputs, DType::f32, results)) return false;
  const Tensor& x = call.in[0];
  if (x.rank() < 1 || call.y().shape != x.shape) return false;
  for (int i = 1; i < inputs; ++i) {
    if (!is_vector(call.in[i], x.dim(-1))) return false;
  }
  for (int i = 1; i < results; ++i) {
    if (!is_vector(call.out[i], x.dim(-1))) return false;
  }
  return true;
}

template <typename Attrs>
bool check_axis(const Call<Attrs>& call) {
  return has_inputs(call, 1, 1) && call.y().shape == call.in[0].shape && call.attrs.axis >= 0 &&
         call.attrs.axis < call.in[0].rank();
}

// body(x, y, stride) for every line of input 0 and the result along the axis; a line has elements 0, stride, 2 stride.
template <typename Attrs, typename Body>
Status for_lines(const Call<Attrs>& call, Body body) {
  const Tensor& t = call.in[0];
  int64_t outer = 1, stride = 1;
  for (int i = 0; i < call.attrs.axis; ++i) outer *= t.dim(i);
  for (int i = call.attrs.axis + 1; i < t.rank(); ++i) stride *= t.dim(i);
  const int64_t block = stride * t.dim(call.attrs.axis);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < stride; ++i) {
      body(call.in[0].f32() + o * block + i, call.y().f32() + o * block + i, stride);
    }
  }
  return Status::kOk;
}

// batch_norm_train with its result limited to [low, high].
template <typename Attrs>
Status normalise_batch(const Call<Attrs>& call, float low, float high) {
  const float *x = call.in[0].f32(), *scale = call.in[1].f32(), *bias = call.in[2].f32();
  float *y = call.y().f32(), *means = call.out[1].f32(), *variances = call.out[2].f32();
  const int64_t rows = rows_of(call.y()), channels = call.y().dim(-1);
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < rows; ++i) sum += x[i * channels + c];
    const float mean = static_cast<float>(sum / rows);
    for (int64_t i = 0; i < rows; ++i) {
      const float centred = x[i * channels + c] - mean;
      squares += centred * centred;
    }
    means[c] = mean;
    variances[c] = static_cast<float>(squares / rows);
    const float r = scale[c] / std::sqrt(variances[c] + call.attrs.epsilon);
    for (int64_t i = c; i < rows * channels; i += channels) {
      y[i] = std::min(std::max((x[i] - mean) * r + bias[c], low), high);
    }
  }
  return Status::kOk;
}

template <typename Attrs>
bool check_batch_dx(const Call<Attrs>& call, int inputs) {
  if (!has_inputs(call, inputs, inputs, DType::f32, 3)) return false;
  const Tensor& x = call.in[1];
  if (x.rank() < 1 || call.in[0].shape != x.shape || call.y().shape != x.shape) return false;
  for (int i = 2; i < inputs; ++i) {
    if (!is_vector(call.in[i], x.dim(-1))) return false;
  }
  return is_vector(call.out[1], x.dim(-1)) && is_vector(call.out[2], x.dim(-1));
}

// The gradients of batch norm's inputs, from passed(g, channel, x - mean).
template <typename Attrs, typename Passed>
Status batch_dx(const Call<Attrs>& call, Passed passed) {
  const float *g = call.in[0].f32(), *x = call.in[1].f32(), *scale = call.in[2].f32();
  const float *mean = call.in[3].f32(), *variance = call.in[4].f32();
  const int64_t rows = rows_of(call.y()), channels = call.y().dim(-1);
  for (int64_t c = 0; c < channels; ++c) {
    const float r = 1.0f / std::sqrt(variance[c] + call.attrs.epsilon);
    double along = 0, sum = 0;
    for (int64_t i = c; i < rows * channels; i += channels) {
      const float grad = passed(g[i], c, x[i] - mean[c]);
      along += grad * (x[i] - mean[c]) * r;
      sum += grad;
    }
    call.out[1].f32()[c] = static_cast<float>(along);
    call.out[2].f32()[c] = static_cast<float>(sum);
    const float mean_along = static_cast<float>(along / rows), mean_g = static_cast<float>(sum / rows);
    for (int64_t i = c; i < rows * channels; i += channels) {
      const float centred = x[i] - mean[c];
      call.y().f32()[i] = scale[c] * r * (passed(g[i], c, centred) - mean_g - centred * r * mean_along);
    }
  }
  return Status::kOk;
}

float max_of(const float* x, int64_t n, int64_t stride) {
  float best = -INFINITY;
  for (int64_t i = 0; i < n; ++i) best = std::max(best, x[i * stride]);
  return best;
}

}  // namespace

CHECK(batch_norm) { return check_features(call, 5); }
KERNEL(batch_norm, f32, ref) {
  const float *x = call.in[0].f32(), *scale = call.in[1].f32(), *bias = call.in[2].f32();
  const float *mean = call.in[3].f32(), *variance = call.in[4].f32();
  float* y = call.y().f32();
  const int64_t rows = rows_of(call.y()), channels = call.y().dim(-1);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const float r = scale[c] / std::sqrt(variance[c] + call.attrs.epsilon);
      y[i * channels + c] = (x[i * channels + c] - mean[c]) * r + bias[c];
    }
  }
  return Status::kOk;
}

CHECK(batch_norm_train) { return check_features(call, 3, 3); }
KERNEL(batch_norm_train, f32, ref) { return normalise_batch(call, -INFINITY, INFINITY); }

CHECK(batch_norm_relu) { return check_features(call, 3, 3); }
KERNEL(batch_norm_relu, f32, ref) { return normalise_batch(call, 0.0f, call.attrs.limit); }

CHECK(batch_norm_train_dx) { return check_batch_dx(call, 5); }
KERNEL(batch_norm_train_dx, f32, ref) {
  return batch_dx(call, [](float g, int64_t, float) { return g; });
}

CHECK(batch_norm_relu_dx) { return check_batch_dx(call, 6); }
KERNEL(batch_norm_relu_dx, f32, ref) {
  const float *scale = call.in[2].f32(), *variance = call.in[4].f32(), *bias = call.in[5].f32();
  return batch_dx(call, [&](float g, int64_t c, float centred) {
    const float forward = centred * (scale[c] / std::sqrt(variance[c] + call.attrs.epsilon)) + bias[c];
    return forward > 0.0f && forward < call.attrs.limit ? g : 0.0f;
  });
}

CHECK(layer_norm) { return check_features(call, 3); }
KERNEL(layer_norm, f32, ref) {
  const float *scale = call.in[1].f32(), *bias = call.in[2].f32();
  const int64_t rows = rows_of(call.y()), n = call.y().dim(-1);
  for (int64_t i = 0; i < rows; ++i) {
    const float* x = call.in[0].f32() + i * n;
    float* y = call.y().f32() + i * n;
    float sum = 0, squares = 0;
    for (int64_t j = 0; j < n; ++j) sum += x[j];
    const float mean = sum / n;
    for (int64_t j = 0; j < n; ++j) squares += (x[j] - mean) * (x[j] - mean);
    const float r = 1.0f / std::sqrt(squares / n + call.attrs.epsilon);
    for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean) * r * scale[j] + bias[j];
  }
  return Status::kOk;
}

CHECK(layer_norm_dx) {
  if (!has_inputs(call, 3, 3, DType::f32, 3)) return false;
  const Tensor& x = call.in[1];
  if (x.rank() < 1 || call.in[0].shape != x.shape || call.y().shape != x.shape) return false;
  for (const Tensor& t : {call.in[2], call.out[1], call.out[2]}) {
    if (!is_vector(t, x.dim(-1))) return false;
  }
  return true;
}
KERNEL(layer_norm_dx, f32, ref) {
  const float* scale = call.in[2].f32();
  float *dscale = call.out[1].f32(), *dbias = call.out[2].f32();
  const int64_t rows = rows_of(call.y()), n = call.y().dim(-1);
  std::fill(dscale, dscale + n, 0.0f);
  std::fill(dbias, dbias + n, 0.0f);
  for (int64_t i = 0; i < rows; ++i) {
    const float *g = call.in[0].f32() + i * n, *x = call.in[1].f32() + i * n;
    float sum = 0, squares = 0, level = 0, tilt = 0;
    for (int64_t j = 0; j < n; ++j) sum += x[j];
    const float mean = sum / n;
    for (int64_t j = 0; j < n; ++j) squares += (x[j] - mean) * (x[j] - mean);
    const float r = 1.0f / std::sqrt(squares / n + call.attrs.epsilon);
    for (int64_t j = 0; j < n; ++j) {
      level += g[j] * scale[j] / n;
      tilt += g[j] * scale[j] * (x[j] - mean) * r / n;
      dscale[j] += g[j] * (x[j] - mean) * r;
      dbias[j] += g[j];
    }
    for (int64_t j = 0; j < n; ++j) {
      call.y().f32()[i * n + j] = r * (g[j] * scale[j] - level - (x[j] - mean) * r * tilt);
    }
  }
  return Status::kOk;
}

CHECK(softmax) { return check_axis(call); }
KERNEL(softmax, f32, ref) {
  const int64_t n = call.y().dim(call.attrs.axis);
  return for_lines(call, [n](const float* x, float* y, int64_t stride) {
    const float max = max_of(x, n, stride);
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += y[i * stride] = std::exp(x[i * stride] - max);
    for (int64_t i = 0; i < n; ++i) y[i * stride] /= sum;
  });
}

CHECK(softmax_dx) {
  return has_inputs(call, 2, 2) && call.in[0].shape == call.in[1].shape && call.y().shape == call.in[0].shape &&
         call.attrs.axis >= 0 && call.attrs.axis < call.in[0].rank();
}
KERNEL(softmax_dx, f32, ref) {
  const int64_t n = call.y().dim(call.attrs.axis);
  const float *first = call.in[0].f32(), *y = call.in[1].f32();
  return for_lines(call, [&](const float* g, float* dx, int64_t stride) {
    const float* p = y + (g - first);
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += g[i * stride] * p[i * stride];
    for (int64_t i = 0; i < n; ++i) dx[i * stride] = (g[i * stride] - sum) * p[i * stride];
  });
}

CHECK(log_softmax) { return check_axis(call); }
KERNEL(log_softmax, f32, ref) {
  const int64_t n = call.y().dim(call.attrs.axis);
  return for_lines(call, [n](const float* x, float* y, int64_t stride) {
    const float max = max_of(x, n, stride);
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i * stride] - max);
    const float log_sum = std::log(sum);
    for (int64_t i = 0; i < n; ++i) y[i * stride] = x[i * stride] - max - log_sum;
  });
}

}  // namespace lite
