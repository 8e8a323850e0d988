#pragma once

#include <algorithm>
#include <cstring>

#include "core/kernel.h"
#include "kernels/int8/layer.h"
#include "kernels/windows.h"

// Pooling of int8 images, for any instruction set: a class I with what int8/elements.h wants, and
//   Bytes, kBytes, load_all(from), store_all(to, b), max_bytes(a, b)   vectors of kBytes numbers of int8

namespace lite {

// The largest number of each window: first those of the window's rows, all columns of a line at a time, then those of
// its columns.
template <class I>
class MaxPool {
 public:
  explicit MaxPool(const Call<max_pool2d_attrs>& call)
      : call_(call),
        at_(windows_of(call.in[0], call.attrs.size[0], call.attrs.size[1], call.y(), call.attrs)),
        channels_(call.y().dim(3)),
        line_(int64_t{at_.w.length} * channels_) {
    const int64_t lines = int64_t{at_.n} * at_.h.count;
    const int64_t tasks = pays(lines, line_ * at_.h.size) ? std::clamp<int64_t>(lines, 1, kMostTasks) : 1;
    grain_ = std::max<int64_t>(divide_up(lines, tasks), 1);
    task_bytes_ = static_cast<int64_t>(bytes_of({line_ + I::kBytes}));
  }

  uint64_t scratch_size() const { return bytes_of({divide_up(int64_t{at_.n} * at_.h.count, grain_), task_bytes_}); }

  Status run() const {
    const int64_t lines = int64_t{at_.n} * at_.h.count;
    parallel_for(call_.context.pool, lines, grain_, [&](int64_t begin, int64_t end) {
      int8_t* largest = static_cast<int8_t*>(call_.context.scratch) + begin / grain_ * task_bytes_;
      for (int64_t line = begin; line < end; ++line) {
        rows(line / at_.h.count, static_cast<int>(line % at_.h.count), largest);
        columns(largest, call_.y().i8() + line * at_.w.count * channels_);
      }
    });
    return Status::kOk;
  }

 private:
  // body(i, n): n numbers from number i on, kBytes or what is left.
  template <typename Body>
  static void over_bytes(int64_t size, const Body& body) {
    int64_t i = 0;
    for (; i + I::kBytes <= size; i += I::kBytes) body(i, int64_t{I::kBytes});
    if (i < size) body(i, size - i);
  }
  static typename I::Bytes load(const int8_t* from, int64_t n) {
    if (n == I::kBytes) return I::load_all(from);
    int8_t some[I::kBytes] = {};
    std::memcpy(some, from, static_cast<size_t>(n));
    return I::load_all(some);
  }
  static void store(int8_t* to, typename I::Bytes b, int64_t n) {
    if (n == I::kBytes) return I::store_all(to, b);
    int8_t some[I::kBytes];
    I::store_all(some, b);
    std::memcpy(to, some, static_cast<size_t>(n));
  }

  // The largest number over the rows of line p's windows, column by column.
  void rows(int64_t image, int p, int8_t* largest) const {
    const int start = at_.h.position(p, 0), first = at_.h.first_inside(start);
    const int behind = at_.h.behind_inside(start);
    const int8_t* x = call_.in[0].i8() + (image * at_.h.length + at_.h.position(p, first)) * line_;
    const int64_t step = int64_t{at_.h.dilation} * line_;
    if (first >= behind) {
      std::memset(largest, kLowest, static_cast<size_t>(line_));
      return;
    }
    over_bytes(line_, [&](int64_t i, int64_t n) {
      auto best = load(x + i, n);
      for (int64_t r = 1; r < behind - first; ++r) best = I::max_bytes(best, load(x + r * step + i, n));
      I::store_all(largest + i, best);  // there is room behind the line
    });
  }

  void columns(const int8_t* largest, int8_t* y) const {
    const int64_t step = int64_t{at_.w.dilation} * channels_;
    for (int q = 0; q < at_.w.count; ++q, y += channels_) {
      const int start = at_.w.position(q, 0);
      const bool whole = start >= 0 && at_.w.position(q, at_.w.size - 1) < at_.w.length;
      const int first = whole ? 0 : at_.w.first_inside(start), behind = whole ? at_.w.size : at_.w.behind_inside(start);
      if (first >= behind) {
        std::memset(y, kLowest, static_cast<size_t>(channels_));
        continue;
      }
      const int8_t* from = largest + int64_t{at_.w.position(q, first)} * channels_;
      over_bytes(channels_, [&](int64_t c, int64_t n) {
        auto best = I::load_all(from + c);
        for (int64_t s = 1; s < behind - first; ++s) best = I::max_bytes(best, I::load_all(from + s * step + c));
        store(y + c, best, n);
      });
    }
  }

  const Call<max_pool2d_attrs>& call_;
  const Windows at_;
  int64_t channels_, line_;     // numbers of a pixel and of a line of x
  int64_t grain_, task_bytes_;  // lines of a task, and its scratch
};

// The mean of each window's places inside the image, halves away from zero. The reference does where there are fewer
// channels than lanes, or so large windows that float division might round another way.
template <class I>
Status int8_avg_pool2d(const Call<quantized_avg_pool2d_attrs>& call,
                       Status (*reference)(const Call<quantized_avg_pool2d_attrs>&)) {
  using F = typename I::F;
  constexpr int64_t kMostPlaces = 1 << 16;
  const auto& attrs = call.attrs;
  const Tensor &x = call.in[0], &y = call.y();
  const Windows at = windows_of(x, attrs.size[0], attrs.size[1], y, attrs, kNoDilation);
  const int64_t channels = y.dim(3), lines = int64_t{at.n} * at.h.count;
  if (channels < I::kLanes || int64_t{at.h.size} * at.w.size > kMostPlaces) return reference(call);
  const auto low = I::all(attrs.low), high = I::all(attrs.high);
  const int64_t cost = at.w.count * channels * at.h.size * at.w.size;
  parallel_for(call.context.pool, lines, share(lines, cost), [&](int64_t begin, int64_t end) {
    for (int64_t window = begin * at.w.count; window < end * at.w.count; ++window) {
      const int64_t line = window / at.w.count;
      const int top = at.h.position(static_cast<int>(line % at.h.count), 0);
      const int left = at.w.position(static_cast<int>(window % at.w.count), 0);
      const int64_t i0 = std::max(top, 0), i1 = std::min(top + at.h.size, at.h.length);
      const int64_t j0 = std::max(left, 0), j1 = std::min(left + at.w.size, at.w.length);
      const int64_t rows = std::max<int64_t>(i1 - i0, 0), columns = std::max<int64_t>(j1 - j0, 0);
      const int64_t count = std::max<int64_t>(rows * columns, 1);
      const int8_t* image = x.i8() + line / at.h.count * at.h.length * at.w.length * channels;
      const auto half = I::all(static_cast<int32_t>(count / 2));
      const auto divisor = F::all(static_cast<float>(count));
      for (int64_t next = 0; next < channels; next += I::kLanes) {
        const int64_t c = std::min(next, channels - I::kLanes);  // the last ones overlap
        auto sum = I::all(0);
        for (int64_t i = i0; i < i0 + rows; ++i) {
          const int8_t* from = image + (i * at.w.length + j0) * channels + c;
          for (int64_t j = 0; j < columns; ++j) sum = I::add(sum, I::load_bytes(from + j * channels));
        }
        const auto size = I::max(sum, I::sub(I::all(0), sum));
        const auto mean = I::truncate(I::to_float(I::add(size, half)) / divisor);
        const auto with_sign = I::truncate(F::with_sign_of(I::to_float(mean), I::to_float(sum)));
        I::store_bytes(y.i8() + window * channels + c, I::min(I::max(with_sign, low), high));
      }
    }
  });
  return Status::kOk;
}

}  // namespace lite
