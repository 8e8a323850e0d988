#pragma once

#include "kernels/fp16/tile.h"
#include "kernels/gemm/linalg.h"
#include "kernels/gemm/patches.h"
#include "kernels/neon/gemm_tile.h"

// Convolutions and linear layers whose weights are in float16, in its arithmetic. x is rounded to float16, into an
// image with zeros around it, where windows are read in place, a run of neighbouring numbers after the other.

namespace lite {

class HalfLayer {
 public:
  // y = x w^T where `windows` see x [n,h,w,channels], of which each of `groups` has an equal part, as it has of the
  // rows of w.
  HalfLayer(const LayerInputs& in, const Tensor& y, const Windows& windows, int channels, int groups,
            Activation activation, const Context& context)
      : in_(in),
        y_(y.f32()),
        context_(context),
        ends_(ends_of(in, activation)),
        at_(windows),
        groups_(groups),
        channels_(channels),
        c_(channels / groups),
        n_(in.w.dim(0) / groups),
        m_(int64_t{at_.n} * at_.h.count * at_.w.count),
        k_(int64_t{at_.h.size} * at_.w.size * c_),
        height_(reach(at_.h)),
        width_(reach(at_.w)) {}

  // Whether it suits: for rows enough, where the image does not grow too much.
  bool takes() const {
    return in_.w.dtype == DType::f16 && in_.x.elements() > 0 && m_ > 0 && n_ > 0 && !dots_pay<NeonTile>(m_, k_) &&
           height_ * width_ <= kMostGrowth * at_.h.length * at_.w.length;
  }

  uint64_t scratch_bytes() const { return image_bytes() + (packed() != nullptr ? 0 : panel_bytes()); }

  uint64_t prepare(void* to) const {
    if (to != nullptr) pack(static_cast<Half*>(PreparedHeader::start(to, Way::halves)));
    return sizeof(PreparedHeader) + panel_bytes();
  }

  Status run() const {
    Half* image = static_cast<Half*>(context_.scratch);
    const Half* panels = packed();
    if (panels == nullptr) {
      Half* made = image + image_bytes() / sizeof(Half);
      pack(made);
      panels = made;
    }
    round(image);
    const int64_t blocks = divide_up(m_, kBlock), chunks = divide_up(n_, kChunk), tasks = groups_ * blocks * chunks;
    parallel_for(context_.pool, tasks, share(tasks, 2 * kBlock * std::min<int64_t>(kChunk, n_) * k_),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task) {
                     multiply(image, panels, static_cast<int>(task / blocks / chunks), task / chunks % blocks * kBlock,
                              task % chunks * kChunk);
                   }
                 });
    return Status::kOk;
  }

 private:
  using Tile = HalfTile;
  static constexpr int kTiles = 4, kBlock = kTiles * Tile::kRows;  // rows that read a panel together
  static constexpr int kChunk = 4 * Tile::kColumns;                // results of a task
  static constexpr int64_t kDepth = 512;                           // of a panel, that stays in the first cache
  static constexpr int64_t kMostGrowth = 8;

  static constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
  static int64_t reach(const Axis& axis) {
    return int64_t{axis.position(axis.count - 1, axis.size - 1)} - axis.position(0, 0) + 1;
  }
  uint64_t image_bytes() const {
    return static_cast<uint64_t>(at_.n * height_ * width_ * channels_ * static_cast<int64_t>(sizeof(Half)) + 63) / 64 *
           64;
  }
  int64_t group_numbers() const { return divide_up(n_, Tile::kColumns) * Tile::kColumns * k_; }  // of packed weights
  uint64_t panel_bytes() const { return static_cast<uint64_t>(groups_ * group_numbers()) * sizeof(Half); }
  const Half* packed() const { return static_cast<const Half*>(PreparedHeader::weights(context_, Way::halves)); }

  // Weights as panels [k][columns], zeros behind the last result of a group.
  void pack(Half* to) const {
    const int64_t panels = divide_up(n_, Tile::kColumns), tasks = groups_ * panels;
    parallel_for(context_.pool, tasks, share(tasks, 4 * Tile::kColumns * k_), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t column = task % panels * Tile::kColumns;
        const Half* from = in_.w.as<Half>() + (task / panels * n_ + column) * k_;
        Half* panel = to + task * Tile::kColumns * k_;
        for (int64_t i = 0; i < k_; ++i, panel += Tile::kColumns) {
          for (int j = 0; j < Tile::kColumns; ++j) panel[j] = column + j < n_ ? from[j * k_ + i] : Half{};
        }
      }
    });
  }

  // x in float16, as far as windows see, zeros for what is beyond it.
  void round(Half* image) const {
    const int64_t lines = at_.n * height_, line = width_ * channels_;
    const int64_t left = std::clamp<int64_t>(at_.w.pad, 0, width_);
    const int64_t right = std::clamp<int64_t>(int64_t{at_.w.pad} + at_.w.length, left, width_);
    parallel_for(context_.pool, lines, share(lines, line), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i % height_ - at_.h.pad;
        Half* to = image + i * line;
        if (row < 0 || row >= at_.h.length) {
          std::fill_n(to, line, Half{});
          continue;
        }
        const int64_t pixel = (i / height_ * at_.h.length + row) * at_.w.length + left - at_.w.pad;
        std::fill_n(to, left * channels_, Half{});
        round_numbers(in_.x.f32() + pixel * channels_, (right - left) * channels_, to + left * channels_);
        std::fill(to + right * channels_, to + line, Half{});
      }
    });
  }

  static void round_numbers(const float* from, int64_t n, Half* to) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const float16x4_t low = vcvt_f16_f32(vld1q_f32(from + i));
      vst1q_u16(&to[i].bits, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(from + i + 4))));
    }
    for (; i < n; ++i) to[i].bits = vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(from[i]))), 0);
  }

  // kBlock rows from `m` on by kChunk results of a group from `n` on.
  void multiply(const Half* image, const Half* panels, int group, int64_t m, int64_t n) const {
    const int count = static_cast<int>(std::min<int64_t>(kBlock, m_ - m));
    const Half* rows[kBlock];
    GridPosition window(at_, m);
    for (int r = 0; r < kBlock; ++r) {
      rows[r] = r < count ? start_of(image, window) + group * c_ : rows[count - 1];
      if (r + 1 < count) window.next(at_);
    }
    panels += group * group_numbers();
    const ProductEnds ends = ends_.from(group * n_);
    for (int64_t j = n; j < std::min<int64_t>(n + kChunk, n_); j += Tile::kColumns) {
      const int columns = static_cast<int>(std::min<int64_t>(Tile::kColumns, n_ - j));
      Tile::Sums sums[kTiles];
      start(ends, m, count, j, columns, sums);
      add_products(count, rows, panels + j * k_, sums);
      finish(ends.activation, count, columns, sums, y_ + m * y_step() + group * n_ + j);
    }
  }

  int64_t y_step() const { return int64_t{groups_} * n_; }

  const Half* start_of(const Half* image, const GridPosition& window) const {
    const int64_t row = window.n * height_ + int64_t{window.p} * at_.h.stride;
    return image + (row * width_ + int64_t{window.q} * at_.w.stride) * channels_;
  }

  void add_products(int count, const Half* const* rows, const Half* panel, Tile::Sums* sums) const {
    const bool whole = c_ == channels_ && at_.w.dilation == 1;  // neighbouring places are one run
    const int64_t places = whole ? 1 : at_.w.size, length = whole ? int64_t{at_.w.size} * c_ : c_;
    for (int64_t i = 0; i < at_.h.size; ++i) {
      for (int64_t j = 0; j < places; ++j) {
        const int64_t start = (i * at_.h.dilation * width_ + j * at_.w.dilation) * channels_;
        for (int64_t d = 0; d < length; d += kDepth) {
          const int64_t depth = std::min(kDepth, length - d);
          for (int t = 0; t * Tile::kRows < count; ++t) {
            Tile::add(depth, rows + t * Tile::kRows, start + d, panel, sums[t]);
          }
          panel += depth * Tile::kColumns;
        }
      }
    }
  }

  // bias + added, for whole tiles.
  static void start(const ProductEnds& ends, int64_t m, int count, int64_t column, int columns, Tile::Sums* sums) {
    float bias[Tile::kColumns] = {};
    if (ends.bias != nullptr) std::copy_n(ends.bias + column, columns, bias);
    for (int r = 0; r < divide_up(count, Tile::kRows) * Tile::kRows; ++r) {
      float* to = sums[r / Tile::kRows][r % Tile::kRows];
#pragma GCC unroll 4
      for (int j = 0; j < Tile::kColumns; j += Neon::kLanes) Neon::store(to + j, Neon::load(bias + j));
      if (ends.added == nullptr || r >= count) continue;
      const float* added = ends.added_row(m + r) + column;
      for (int j = 0; j < columns; j += Neon::kLanes) {
        Neon::store(to + j, Neon::load(to + j) + Neon::load(added + j, std::min(columns - j, Neon::kLanes)));
      }
    }
  }

  void finish(Activation activation, int count, int columns, const Tile::Sums* sums, float* to) const {
    const float32x4_t low = vdupq_n_f32(limits_of(activation).low), high = vdupq_n_f32(limits_of(activation).high);
    for (int r = 0; r < count; ++r, to += y_step()) {
      const float* from = sums[r / Tile::kRows][r % Tile::kRows];
      const auto limited = [&](int j) { return vminq_f32(high, vmaxq_f32(low, vld1q_f32(from + j))); };
      if (columns == Tile::kColumns) {
#pragma GCC unroll 4
        for (int j = 0; j < Tile::kColumns; j += Neon::kLanes) Neon::store(to + j, limited(j));
      } else {
        for (int j = 0; j < columns; j += Neon::kLanes) {
          Neon::store(to + j, limited(j), std::min(columns - j, Neon::kLanes));
        }
      }
      if (!only_limits(activation)) activate_row<Neon>(activation, columns, to);
    }
  }

  const LayerInputs in_;
  float* const y_;
  const Context& context_;
  const ProductEnds ends_;
  const Windows at_;
  const int groups_, channels_, c_, n_;  // c_ and n_: channels and results of a group
  const int64_t m_, k_, height_, width_;
};

template <class Attrs>
HalfLayer half_convolution(const Call<Attrs>& call) {
  const LayerInputs in = inputs_of(call);
  const conv2d_attrs attrs = plain(call.attrs);
  return {in,          call.y(),     windows_of(in.x, in.w.dim(1), in.w.dim(2), call.y(), attrs),
          in.x.dim(3), attrs.groups, attrs.activation,
          call.context};
}

// As a convolution of one pixel an image.
template <class Attrs>
HalfLayer half_product(const Call<Attrs>& call, const LayerInputs& in) {
  constexpr Axis kOne = {1, 1, 1, 1, 1, 0};
  const Windows rows = {static_cast<int>(rows_of(in.x)), kOne, kOne};
  return {in, call.y(), rows, in.x.dim(-1), 1, call.attrs.activation, call.context};
}

}  // namespace lite
