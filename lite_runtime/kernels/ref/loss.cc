#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"

namespace lite {
namespace {

// Logits [n,classes] and labels [n].
bool labels_fit(const Tensor& logits, const Tensor& labels) {
  return logits.dtype == DType::f32 && labels.dtype == DType::i32 && logits.rank() == 2 &&
         is_vector(labels, logits.dim(0));
}

// The largest of n logits, and the sum of e^(logit - largest).
struct Row {
  float max = -INFINITY, sum = 0;

  Row(const float* x, int n) {
    for (int i = 0; i < n; ++i) max = std::max(max, x[i]);
    for (int i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  }
};

}  // namespace

CHECK(softmax_cross_entropy) {
  return call.inputs == 2 && labels_fit(call.in[0], call.in[1]) && call.y().dtype == DType::f32 &&
         call.y().shape == call.in[1].shape;
}
KERNEL(softmax_cross_entropy, f32, ref) {
  const int n = call.in[0].dim(0), classes = call.in[0].dim(1);
  for (int i = 0; i < n; ++i) {
    const float* x = call.in[0].f32() + int64_t{i} * classes;
    const int label = call.in[1].i32()[i];
    if (label < 0 || label >= classes) return Status::kBadIndex;
    const Row row(x, classes);
    call.y().f32()[i] = std::log(row.sum) + row.max - x[label];
  }
  return Status::kOk;
}

CHECK(softmax_cross_entropy_dx) {
  return call.inputs == 3 && labels_fit(call.in[1], call.in[2]) && call.in[0].dtype == DType::f32 &&
         call.in[0].shape == call.in[2].shape && call.y().dtype == DType::f32 && call.y().shape == call.in[1].shape;
}
KERNEL(softmax_cross_entropy_dx, f32, ref) {
  const int n = call.in[1].dim(0), classes = call.in[1].dim(1);
  for (int i = 0; i < n; ++i) {
    const float* x = call.in[1].f32() + int64_t{i} * classes;
    const float g = call.in[0].f32()[i];
    float* y = call.y().f32() + int64_t{i} * classes;
    const int label = call.in[2].i32()[i];
    if (label < 0 || label >= classes) return Status::kBadIndex;
    const Row row(x, classes);
    for (int c = 0; c < classes; ++c) y[c] = g * (std::exp(x[c] - row.max) / row.sum - (c == label ? 1.0f : 0.0f));
  }
  return Status::kOk;
}

CHECK(mean_squared_error) {
  return has_inputs(call, 2, 2) && call.in[0].shape == call.in[1].shape && call.y().rank() == 0;
}
KERNEL(mean_squared_error, f32, ref) {
  const float *x = call.in[0].f32(), *target = call.in[1].f32();
  const int64_t n = call.in[0].elements();
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float difference = x[i] - target[i];
    sum += difference * difference;
  }
  *call.y().f32() = static_cast<float>(sum / n);
  return Status::kOk;
}

}  // namespace lite
