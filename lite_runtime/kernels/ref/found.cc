// What finds any number of things: it has room for all that there could be, and counts them.

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"
#include "kernels/ref/loops.h"

namespace lite {

CHECK(nonzero) {
  const Tensor& x = call.in[0];
  return call.inputs == 1 && call.out[0].dtype == DType::i32 && call.out[1].dtype == DType::i32 &&
         is_vector(call.out[1], 1) && call.out[0].rank() == 2 && call.out[0].dim(0) == x.elements() &&
         call.out[0].dim(1) == x.rank();
}

namespace {

template <typename T, typename Call>
Status nonzero(const Call& call) {
  const Tensor &x = call.in[0], &indices = call.out[0];
  const int rank = x.rank();
  const int64_t n = x.elements();
  int32_t* to = indices.i32();
  int32_t count = 0;
  if (indices.size_bytes() > 0) std::memset(indices.data, 0, indices.size_bytes());
  for (int64_t i = 0; i < n; ++i) {
    if (x.as<T>()[i] == 0) continue;
    int64_t rest = i;
    for (int k = rank - 1; k >= 0; --k) {
      to[k] = static_cast<int32_t>(rest % x.dim(k));
      rest /= x.dim(k);
    }
    to += rank;
    ++count;
  }
  *call.out[1].i32() = count;
  return Status::kOk;
}

}  // namespace

KERNEL(nonzero, f32, ref) { return nonzero<float>(call); }
KERNEL(nonzero, i32, ref) { return nonzero<int32_t>(call); }
KERNEL(nonzero, i64, ref) { return nonzero<int64_t>(call); }
KERNEL(nonzero, boolean, ref) { return nonzero<uint8_t>(call); }

CHECK(unique_rows) {
  const Tensor& x = call.in[0];
  if (call.inputs != 1 || x.rank() != 2) return false;
  for (int i = 0; i < 4; ++i) {
    if (call.out[i].dtype != DType::i32 || !is_vector(call.out[i], i < 3 ? x.dim(0) : 1)) return false;
  }
  return true;
}

namespace {

// A number, NaN behind all others: below 0, 0 or above 0 as a is before, equal to or behind b.
template <typename T>
int compare(T a, T b) {
  if (a < b || (a == a && b != b)) return -1;
  return a > b || (a != a && b == b) ? 1 : 0;
}

template <typename T>
struct Rows {
  const T* x;
  int64_t columns;

  int order(int32_t a, int32_t b) const {
    for (int64_t k = 0; k < columns; ++k) {
      const int c = compare(x[a * columns + k], x[b * columns + k]);
      if (c != 0) return c;
    }
    return 0;
  }
};

// Numbers the groups as they come, and finds where each is for the first time, and how often.
int32_t renumber(int32_t n, int32_t* first, int32_t* group, int32_t* counts) {
  int32_t found = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (first[group[i]] == i) counts[group[i]] = found++;
    group[i] = counts[group[i]];
  }
  std::fill(counts, counts + n, 0);
  for (int32_t i = n - 1; i >= 0; --i) {
    first[group[i]] = i;
    ++counts[group[i]];
  }
  return found;
}

template <typename T, typename Call>
Status unique_rows(const Call& call) {
  const Rows<T> rows{call.in[0].template as<T>(), call.in[0].dim(1)};
  const int32_t n = call.in[0].dim(0);
  int32_t *first = call.out[0].i32(), *group = call.out[1].i32(), *counts = call.out[2].i32();
  for (int32_t i = 0; i < n; ++i) first[i] = i;
  std::sort(first, first + n, [&](int32_t a, int32_t b) {
    const int c = rows.order(a, b);
    return c != 0 ? c < 0 : a < b;
  });
  int32_t found = 0;
  for (int32_t i = 0; i < n; ++i) {
    const bool is_new = i == 0 || rows.order(first[found - 1], first[i]) != 0;
    if (is_new) {
      counts[found] = 0;
      group[first[i]] = found;
      first[found++] = first[i];
    } else {
      group[first[i]] = found - 1;
    }
    ++counts[found - 1];
  }
  if (call.attrs.in_order != 0) found = renumber(n, first, group, counts);
  std::fill(first + found, first + n, 0);
  std::fill(counts + found, counts + n, 0);
  *call.out[3].i32() = found;
  return Status::kOk;
}

}  // namespace

KERNEL(unique_rows, f32, ref) { return unique_rows<float>(call); }
KERNEL(unique_rows, i32, ref) { return unique_rows<int32_t>(call); }
KERNEL(unique_rows, i64, ref) { return unique_rows<int64_t>(call); }

CHECK(non_max_suppression) {
  if (call.inputs != 5) return false;
  for (int i = 0; i < 5; ++i) {
    if (call.in[i].dtype != (i == 2 ? DType::i32 : DType::f32) || (i > 1 && call.in[i].rank() != 0)) return false;
  }
  const Tensor &boxes = call.in[0], &scores = call.in[1];
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dim(0) != scores.dim(0) || boxes.dim(1) != scores.dim(2) ||
      boxes.dim(2) != 4 || call.attrs.limit < 0) {
    return false;
  }
  const int64_t rows = int64_t{scores.dim(0)} * scores.dim(1) * std::min(scores.dim(2), call.attrs.limit);
  for (int i = 0; i < 3; ++i) {
    if (call.out[i].dtype != DType::i32) return false;
  }
  return call.out[0].rank() == 2 && call.out[0].dim(0) == rows && call.out[0].dim(1) == 3 &&
         is_vector(call.out[1], 1) && is_vector(call.out[2], scores.dim(2));
}

namespace {

struct Box {
  float low[2], high[2];

  Box(const float* box, bool center) {
    for (int k = 0; k < 2; ++k) {
      low[k] = center ? box[k] - box[k + 2] / 2 : std::min(box[k], box[k + 2]);
      high[k] = center ? box[k] + box[k + 2] / 2 : std::max(box[k], box[k + 2]);
    }
  }
  float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

float overlap_of(const Box& a, const Box& b) {
  float common = 1;
  for (int k = 0; k < 2; ++k) common *= std::max(std::min(a.high[k], b.high[k]) - std::max(a.low[k], b.low[k]), 0.0f);
  const float together = a.area() + b.area() - common;
  return together > 0 ? common / together : 0;
}

}  // namespace

KERNEL(non_max_suppression, f32, ref) {
  const Tensor& scores = call.in[1];
  const int32_t batch = scores.dim(0), classes = scores.dim(1), n = scores.dim(2);
  const int32_t most = std::min(std::min(*call.in[2].i32(), call.attrs.limit), n);
  const float overlap = *call.in[3].f32(), threshold = *call.in[4].f32();
  const bool center = call.attrs.center != 0;
  int32_t *selected = call.out[0].i32(), *order = call.out[2].i32(), *to = selected;
  if (call.out[0].size_bytes() > 0) std::memset(selected, 0, call.out[0].size_bytes());
  for (int32_t i = 0; i < n; ++i) order[i] = i;
  for (int32_t row = 0; row < batch * classes; ++row) {
    const float* score = scores.f32() + int64_t{row} * n;
    const float* boxes = call.in[0].f32() + int64_t{row / classes} * n * 4;
    std::sort(order, order + n, [=](int32_t a, int32_t b) {
      const int c = compare(-score[a], -score[b]);
      return c != 0 ? c < 0 : a < b;
    });
    const int32_t* first = to;
    for (int32_t i = 0; i < n && (to - first) / 3 < most && score[order[i]] > threshold; ++i) {
      const Box box(boxes + int64_t{order[i]} * 4, center);
      bool alone = true;
      for (const int32_t* other = first; other < to && alone; other += 3) {
        alone = overlap_of(box, Box(boxes + int64_t{other[2]} * 4, center)) <= overlap;
      }
      if (!alone) continue;
      *to++ = row / classes;
      *to++ = row % classes;
      *to++ = order[i];
    }
  }
  *call.out[1].i32() = static_cast<int32_t>((to - selected) / 3);
  return Status::kOk;
}

}  // namespace lite
