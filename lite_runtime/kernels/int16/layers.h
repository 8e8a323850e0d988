#pragma once

#include "kernels/int8/layer.h"

// Layers on int16 with weights of 8 bits, for any instruction set. `Isa` has a vector V of sums of 32 bits, and for
// kShorts numbers of 16 bits: dot(sum, x, w), which adds their products; total(sum), of all its lanes;
// add_products(sums, x, w), which adds each product to its own sum.

namespace lite {

constexpr int64_t kShortSum = 256;  // products of int16 and int8 that int32 holds the sum of
constexpr int64_t kDot = 1024;      // of a dot product before its lanes are added up, each of which has 128 or 256

// What one result is made with, from what its channel was given.
struct Result16 {
  int64_t bias;
  int32_t by, right;  // the upper half of the multiplier, and how far to shift to the right

  int16_t operator()(int64_t sum, const StoredAs<int16_t>& stored) const {
    return stored(((sum + bias) * by + (int64_t{1} << (right - 1))) >> right);
  }
};

// Prepared: a header, a Result16 for each result, and the weights as int16.
template <typename Isa>
class Layer16 {
 public:
  explicit Layer16(const Layer& layer, bool is_depthwise)
      : layer_(layer), is_depthwise_(is_depthwise), results_(layer.groups * layer.results), depth_(layer.depth()) {
    step_ = round_up(depth_, Isa::kShorts);
    reads_x_ = is_depthwise || (layer.is_product() && step_ == depth_);
    taps_ = is_depthwise ? layer.r * layer.s : step_;
    chunks_ = tasks_of(layer, layer.positions());
    row_bytes_ = bytes_of({reads_x_ ? 0 : layer.groups * step_ * 2});
  }

  uint64_t prepared_size() const {
    return sizeof(LayerHeader) + bytes_of({results_, sizeof(Result16)}) + bytes_of({results_, taps_, 2});
  }
  uint64_t scratch_size(const void* prepared) const {
    return (prepared != nullptr ? 0 : prepared_size()) + bytes_of({chunks_, static_cast<int64_t>(row_bytes_)});
  }

  template <typename Attrs>
  void prepare(const Call<Attrs>& call, void* to) const {
    const Channels16 channels = channels16_of(call);
    LayerHeader* header = new (to) LayerHeader();
    header->valid = channels.valid(static_cast<int>(results_));
    if (!header->valid) return;
    Result16* result = const_cast<Result16*>(results_of(to));
    for (int64_t k = 0; k < results_; ++k) {
      const FixedPoint scale = channels.rest.scale(k);
      result[k] = {channels.bias[k], static_cast<int32_t>(upper_half(scale.multiplier)), 15 - scale.shift};
    }
    int16_t* weight = const_cast<int16_t*>(weights_of(to));
    const int8_t* from = call.in[1].i8();
    const int64_t rows = is_depthwise_ ? taps_ : results_, size = is_depthwise_ ? results_ : depth_;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < size; ++j) *weight++ = *from++;
      for (int64_t j = size; j < step_ && !is_depthwise_; ++j) *weight++ = 0;
    }
  }

  template <typename Attrs>
  Status run(const Call<Attrs>& call) const {
    if (call.y().elements() == 0) return Status::kOk;
    const char* packed = packed_weights(call, [&](void* to) { prepare(call, to); });
    if (!reinterpret_cast<const LayerHeader*>(packed)->valid) return Status::kBadArgument;
    char* scratch = static_cast<char*>(call.context.scratch) + (call.context.prepared != nullptr ? 0 : prepared_size());
    const int16_t* x = call.in[0].i16();
    const StoredAs<int16_t> stored = stored_of<int16_t>(call.attrs);
    parallel_for(call.context.pool, chunks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        int16_t* row = reinterpret_cast<int16_t*>(scratch + chunk * static_cast<int64_t>(row_bytes_));
        const int64_t behind = layer_.positions() * (chunk + 1) / chunks_;
        for (int64_t at = layer_.positions() * chunk / chunks_; at < behind; ++at) {
          int16_t* y = call.y().i16() + at * results_;
          is_depthwise_ ? slide(packed, x, at, stored, y) : multiply(packed, seen(x, at, row), stored, y);
        }
      }
    });
    return Status::kOk;
  }

 private:
  static constexpr int64_t kChannels = 64;  // of a depthwise layer, at a time

  const Result16* results_of(const void* packed) const {
    return reinterpret_cast<const Result16*>(static_cast<const char*>(packed) + sizeof(LayerHeader));
  }
  const int16_t* weights_of(const void* packed) const {
    return reinterpret_cast<const int16_t*>(reinterpret_cast<const char*>(results_of(packed)) +
                                            bytes_of({results_, sizeof(Result16)}));
  }

  // What the window at a position sees, group by group: where it lies, or copied to `row`.
  const int16_t* seen(const int16_t* x, int64_t position, int16_t* row) const {
    if (reads_x_) return x + position * depth_;
    for (int64_t g = 0; g < layer_.groups; ++g) std::fill(row + g * step_ + depth_, row + (g + 1) * step_, int16_t{0});
    const int64_t pixel = layer_.groups * layer_.channels;
    for_places(x, pixel, position, [&](int64_t place, const int16_t* from) {
      for (int64_t g = 0; g < layer_.groups; ++g) {
        int16_t* to = row + g * step_ + place * layer_.channels;
        if (from == nullptr) {
          std::fill_n(to, layer_.channels, int16_t{0});
        } else {
          std::copy_n(from + g * layer_.channels, layer_.channels, to);
        }
      }
    });
    return row;
  }

  // visit(place, its pixel, or null beyond the image) for the places of the window at a position
  template <typename Visit>
  void for_places(const int16_t* x, int64_t pixel, int64_t position, const Visit& visit) const {
    const int64_t column = position % layer_.columns, row = position / layer_.columns % layer_.rows;
    const int16_t* image = x + position / layer_.columns / layer_.rows * layer_.height * layer_.width * pixel;
    for (int64_t i = 0; i < layer_.r; ++i) {
      const int64_t h = row * layer_.stride_h + i * layer_.dilation_h - layer_.top;
      for (int64_t j = 0; j < layer_.s; ++j) {
        const int64_t w = column * layer_.stride_w + j * layer_.dilation_w - layer_.left;
        const bool inside = 0 <= h && h < layer_.height && 0 <= w && w < layer_.width;
        visit(i * layer_.s + j, inside ? image + (h * layer_.width + w) * pixel : nullptr);
      }
    }
  }

  void multiply(const char* packed, const int16_t* rows, const StoredAs<int16_t>& stored, int16_t* y) const {
    const Result16* result = results_of(packed);
    const int16_t* w = weights_of(packed);
    for (int64_t k = 0; k < results_;) {
      const int64_t group = k / layer_.results, behind = (group + 1) * layer_.results;
      const int16_t* x = rows + group * step_;
      for (; k + 4 <= behind; k += 4) {
        int64_t sums[4];
        dot<4>(x, w + k * step_, sums);
        for (int i = 0; i < 4; ++i) y[k + i] = result[k + i](sums[i], stored);
      }
      for (; k < behind; ++k) {
        int64_t sum;
        dot<1>(x, w + k * step_, &sum);
        y[k] = result[k](sum, stored);
      }
    }
  }

  // The products of x with `count` rows of weights.
  template <int count>
  void dot(const int16_t* x, const int16_t* w, int64_t* sums) const {
    std::fill_n(sums, count, 0);
    for (int64_t from = 0; from < step_; from += kDot) {
      const int64_t end = std::min(from + kDot, step_);
      typename Isa::V parts[count] = {};
      for (int64_t i = from; i < end; i += Isa::kShorts) {
#pragma GCC unroll 4
        for (int k = 0; k < count; ++k) parts[k] = Isa::dot(parts[k], x + i, w + k * step_ + i);
      }
#pragma GCC unroll 4
      for (int k = 0; k < count; ++k) sums[k] += Isa::total(parts[k]);
    }
  }

  // One position of a depthwise layer.
  void slide(const char* packed, const int16_t* x, int64_t position, const StoredAs<int16_t>& stored,
             int16_t* y) const {
    const Result16* result = results_of(packed);
    const int16_t* w = weights_of(packed);
    for (int64_t first = 0; first < results_; first += kChannels) {
      const int64_t n = std::min(kChannels, results_ - first);
      int64_t sums[kChannels] = {};
      int32_t parts[kChannels] = {};
      for_places(x, results_, position, [&](int64_t place, const int16_t* pixel) {
        const int16_t* pw = w + place * results_ + first;
        if (pixel != nullptr) {
          int64_t c = 0;
          for (; c + Isa::kShorts <= n; c += Isa::kShorts) Isa::add_products(parts + c, pixel + first + c, pw + c);
          for (; c < n; ++c) parts[c] += int32_t{pixel[first + c]} * pw[c];
        }
        if (place % kShortSum != kShortSum - 1 && place != taps_ - 1) return;
        for (int64_t c = 0; c < n; ++c) sums[c] += parts[c], parts[c] = 0;
      });
      for (int64_t c = 0; c < n; ++c) y[first + c] = result[first + c](sums[c], stored);
    }
  }

  Layer layer_;
  bool is_depthwise_;
  int64_t results_, depth_, chunks_;
  int64_t step_;  // numbers of a window with zeros behind them, so that they are whole vectors
  int64_t taps_;  // numbers of a result's weights
  bool reads_x_;  // rows are used where they lie
  uint64_t row_bytes_;
};

}  // namespace lite

// The three functions of a layer's kernel.
#define LITE_INT16_LAYER(op, is_depthwise, Isa, isa)                                                               \
  SCRATCH(op, i16, isa) { return Layer16<Isa>(layer_of(call), is_depthwise).scratch_size(call.context.prepared); } \
  PREPARE(op, i16, isa) {                                                                                          \
    const Layer16<Isa> layer(layer_of(call), is_depthwise);                                                        \
    if (to != nullptr) layer.prepare(call, to);                                                                    \
    return layer.prepared_size();                                                                                  \
  }                                                                                                                \
  KERNEL(op, i16, isa) { return Layer16<Isa>(layer_of(call), is_depthwise).run(call); }
