#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "kernels/quantized.h"
#include "kernels/ref/checks.h"
#include "kernels/vector/share.h"

// Convolution and linear layers on int8, for any instruction set.
//
//   widen the image to int16, its zero point subtracted and its edges padded with zeros (depthwise: only pad it)
//   pack the weights: blocks of Isa::kChannels results, for each place of the window and each channel of x
//   for each position of the result, four at a time, and each block: multiply, add, bring back to int8
//
// Sums of products of int16 are exact in int32, so that every kernel gives the bits of the reference.
//
// An instruction set is a class with
//   kChannels, kDepth                     results side by side; channels of x are rounded up to a multiple of kDepth
//   widen(x, n, zero, y)                  y[i] = x[i] - zero
//   pack(w, stride, results, depth, y)    weights of one place: `results` rows of `depth`, `stride` apart
//   pack_depthwise(layer, w, channels, y) weights of one block of channels
//   Finish                                what brings sums of kChannels results back to int8
//   multiply, multiply_depthwise          sums of four positions and one block, finished and stored
//   dots(x, w, depth, sums)               four dot products with one x

namespace lite {
namespace {  // of one file: kernels/int8 has others of these names

// A window slides over an image and gives `results` numbers for each of `groups` groups of channels. A linear layer is
// a window of one place over an image of one column.
struct Layer {
  int64_t images = 1, height = 1, width = 1, groups = 1, channels = 0;  // x, channels in a group
  int64_t top = 0, left = 0, padded_height = 1, padded_width = 1;
  int64_t r = 1, s = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t rows = 1, columns = 1, results = 0;  // y, results in a group

  int64_t positions() const { return images * rows * columns; }
};

// The layer of image x [n,h,w,c] and grid y [n,p,q,k] with windows of r by s.
template <typename Attrs>
Layer image_layer(const Tensor& x, int r, int s, const Tensor& y, const Attrs& attrs) {
  Layer layer;
  layer.images = x.dim(0), layer.height = x.dim(1), layer.width = x.dim(2);
  layer.top = attrs.pads[0], layer.left = attrs.pads[1];
  layer.padded_height = layer.height + layer.top + attrs.pads[2];
  layer.padded_width = layer.width + layer.left + attrs.pads[3];
  layer.r = r, layer.s = s;
  layer.stride_h = attrs.strides[0], layer.stride_w = attrs.strides[1];
  layer.dilation_h = attrs.dilations[0], layer.dilation_w = attrs.dilations[1];
  layer.rows = y.dim(1), layer.columns = y.dim(2);
  layer.channels = x.dim(3), layer.results = y.dim(3);
  return layer;
}

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// What a layer needs of memory: its image, and packed weights with the numbers of their channels, which are prepared
// where they never change and else lie behind the image. Absurd sizes saturate, so that the plan refuses them.
class LayerMemory {
 public:
  // `depth` channels of `element` bytes a pixel; `blocks` blocks of `block` results, each with `weights` packed
  // numbers.
  LayerMemory(const Layer& layer, int64_t depth, int64_t element, int64_t blocks, int64_t block, int64_t weights) {
    image_ = bytes({layer.images, layer.padded_height, layer.padded_width, depth, element});
    weights_ = bytes({blocks, weights, 2});
    channels_ = bytes({blocks, 3 * block, 4});
  }

  uint64_t packed_size() const { return weights_ + channels_; }
  uint64_t scratch_size(const void* prepared) const { return image_ + (prepared == nullptr ? packed_size() : 0); }
  void* behind_image(void* scratch) const { return static_cast<char*>(scratch) + image_; }

  // Of what is packed.
  static int16_t* weights(void* packed) { return static_cast<int16_t*>(packed); }
  static const int16_t* weights(const void* packed) { return static_cast<const int16_t*>(packed); }
  int32_t* channels(void* packed) const { return reinterpret_cast<int32_t*>(static_cast<char*>(packed) + weights_); }
  const int32_t* channels(const void* packed) const {
    return reinterpret_cast<const int32_t*>(static_cast<const char*>(packed) + weights_);
  }

 private:
  static uint64_t bytes(std::initializer_list<int64_t> sizes) {
    constexpr int64_t kMost = int64_t{1} << 60;
    int64_t n = 1;
    for (int64_t size : sizes) {
      if (__builtin_mul_overflow(n, size, &n) || n > kMost) n = kMost;
    }
    return static_cast<uint64_t>(round_up(n, 64));
  }

  uint64_t image_, weights_, channels_;
};

// The image with its edges, `depth` numbers for each group of a pixel; edges and surplus channels hold `edge`.
// convert(from, n, to) brings x to the elements of `image`.
template <typename T, typename Convert>
void pad_image(const Layer& layer, const int8_t* x, int64_t depth, T edge, T* image, ThreadPool* pool,
               const Convert& convert) {
  const int64_t pixel = layer.groups * depth, row_size = layer.padded_width * pixel;
  const int64_t row_bytes = layer.width * layer.groups * layer.channels;
  const int64_t lines = layer.images * layer.padded_height;
  parallel_for(pool, lines, share(lines, 8 * row_size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T *to = image + i * row_size, *behind = to + row_size;
      const int64_t row = i % layer.padded_height - layer.top;
      if (row >= 0 && row < layer.height) {
        const int8_t* from = x + (i / layer.padded_height * layer.height + row) * row_bytes;
        to = std::fill_n(to, layer.left * pixel, edge);
        if (depth == layer.channels) {
          convert(from, row_bytes, to);
          to += row_bytes;
        } else {
          for (int64_t j = 0; j < layer.width * layer.groups; ++j, from += layer.channels) {
            convert(from, layer.channels, to);
            to = std::fill_n(to + layer.channels, depth - layer.channels, edge);
          }
        }
      }
      std::fill(to, behind, edge);
    }
  });
}

// bias, multiplier and shift of channels [first, first + n), each in `block` places.
inline void pack_channels(const Channels& from, int64_t first, int64_t n, int64_t block, int32_t* to) {
  for (int64_t i = 0; i < block; ++i, ++to) {
    const FixedPoint by = i < n ? from.scale(first + i) : FixedPoint{0, 0};
    to[0] = i < n ? from.bias[first + i] : 0;
    to[block] = by.multiplier;
    to[2 * block] = by.shift;
  }
}

// Where four neighbouring positions begin in the padded image and in the result; short of four, the last one repeats.
template <typename T>
struct Tile {
  const T* x[4];
  int8_t* y[4];
  int count;
};

// The positions [begin, end), at most kMost of them.
class Positions {
 public:
  static constexpr int64_t kMost = 64;

  Positions(const Layer& layer, int64_t pixel, int64_t begin, int64_t end) : begin_(begin), count_(end - begin) {
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t row = (begin + i) / layer.columns, column = (begin + i) % layer.columns;
      const int64_t padded_row = row / layer.rows * layer.padded_height + row % layer.rows * layer.stride_h;
      starts_[i] = (padded_row * layer.padded_width + column * layer.stride_w) * pixel;
    }
  }

  // body(tile) for each four of them; y: the first result of a position, `size` of them each.
  template <typename T, typename Body>
  void for_tiles(const T* image, int8_t* y, int64_t size, const Body& body) const {
    for (int64_t first = 0; first < count_; first += 4) {
      Tile<T> tile;
      tile.count = static_cast<int>(std::min<int64_t>(count_ - first, 4));
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t at = first + std::min<int64_t>(i, tile.count - 1);
        tile.x[i] = image + starts_[at];
        tile.y[i] = y + (begin_ + at) * size;
      }
      body(tile);
    }
  }

 private:
  int64_t begin_, count_;
  int64_t starts_[kMost];
};

// How far apart in the padded image the places of a window are.
struct Steps {
  int64_t row, column;

  Steps(const Layer& layer, int64_t pixel)
      : row(layer.dilation_h * layer.padded_width * pixel), column(layer.dilation_w * pixel) {}
};

// body(begin, end) over positions, in parts large enough to use a block of weights again and again; by one thread
// where a position's `weights` are too few to make threads worth their while.
template <typename Body>
void for_positions(const Layer& layer, int64_t weights, ThreadPool* pool, const Body& body) {
  const int64_t grain = std::clamp<int64_t>(round_up(layer.positions() / 16, 4), 4, Positions::kMost);
  parallel_for(pays(layer.positions(), 2 * weights) ? pool : nullptr, layer.positions(), grain, body);
}

// Fewer rows than this are dot products with the weights as they lie: packing would cost more than it saves.
constexpr int64_t kFewRows = 8;

// y [rows, results] from x [rows, depth] and w [results, depth]; `wide` has room for x.
template <typename Isa>
void dot_rows(int64_t rows, int64_t depth, int64_t results, const int8_t* x, int x_zero, const int8_t* w,
              const Channels& channels, const Stored& stored, int8_t* y, int16_t* wide, ThreadPool* pool) {
  Isa::widen(x, rows * depth, x_zero, wide);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k += 4) {
      const int64_t count = std::min<int64_t>(end - k, 4);
      const int8_t* lines[4];
      for (int64_t i = 0; i < 4; ++i) lines[i] = w + (k + std::min(i, count - 1)) * depth;
      for (int64_t m = 0; m < rows; ++m) {
        int32_t sums[4];
        Isa::dots(wide + m * depth, lines, depth, sums);
        for (int64_t i = 0; i < count; ++i) {
          y[m * results + k + i] = channels.finish(sums[i], static_cast<int>(k + i), stored);
        }
      }
    }
  };
  parallel_for(pays(results, 2 * rows * depth) ? pool : nullptr, results, 32, body);
}

// Packed weights: prepared, or made now behind the image. `pack(to)` makes them.
template <typename Pack>
const void* packed_of(Context& context, const LayerMemory& parts, const Pack& pack) {
  if (context.prepared != nullptr) return context.prepared;
  void* packed = parts.behind_image(context.scratch);
  pack(packed);
  return packed;
}

template <typename Isa>
struct ConvLayer {
  Layer layer;
  int64_t depth, blocks_group, block_weights;

  explicit ConvLayer(const Layer& of)
      : layer(of),
        depth(round_up(of.channels, Isa::kDepth)),
        blocks_group(round_up(of.results, Isa::kChannels) / Isa::kChannels),
        block_weights(of.r * of.s * depth * Isa::kChannels) {}

  LayerMemory memory() const {
    return LayerMemory(layer, layer.groups * depth, 2, layer.groups * blocks_group, Isa::kChannels, block_weights);
  }

  // Results in block `b` of a group.
  int64_t width(int64_t b) const { return std::min<int64_t>(layer.results - b * Isa::kChannels, Isa::kChannels); }

  void pack(const int8_t* w, const Channels& channels, void* packed) const {
    const LayerMemory parts = memory();
    const int64_t places = layer.r * layer.s, stride = places * layer.channels;
    for (int64_t i = 0; i < layer.groups * blocks_group; ++i) {
      const int64_t b = i % blocks_group, first = i / blocks_group * layer.results + b * Isa::kChannels;
      pack_channels(channels, first, width(b), Isa::kChannels, parts.channels(packed) + i * 3 * Isa::kChannels);
      int16_t* to = parts.weights(packed) + i * block_weights;
      for (int64_t place = 0; place < places; ++place, to += depth * Isa::kChannels) {
        Isa::pack(w + first * stride + place * layer.channels, stride, width(b), layer.channels, to);
      }
    }
  }

  // Whether it is a linear layer of few rows: one place, every pixel of x.
  bool few_rows() const {
    return layer.groups * layer.r * layer.s == 1 && layer.positions() < kFewRows && layer.rows == layer.padded_height &&
           layer.columns == layer.padded_width && layer.rows == layer.height && layer.columns == layer.width;
  }

  Status run(const int8_t* x, int x_zero, const int8_t* w, const Channels& channels, const Stored& stored, int8_t* y,
             Context& context) const {
    if (!channels.valid(static_cast<int>(layer.groups * layer.results))) return Status::kBadArgument;
    int16_t* image = static_cast<int16_t*>(context.scratch);
    if (few_rows()) {
      dot_rows<Isa>(layer.positions(), layer.channels, layer.results, x, x_zero, w, channels, stored, y, image,
                    context.pool);
      return Status::kOk;
    }
    const LayerMemory parts = memory();
    const int64_t pixel = layer.groups * depth;
    pad_image(layer, x, depth, int16_t{0}, image, context.pool,
              [&](const int8_t* from, int64_t n, int16_t* to) { Isa::widen(from, n, x_zero, to); });
    const void* packed = packed_of(context, parts, [&](void* to) { pack(w, channels, to); });
    const int64_t weights_position = layer.groups * blocks_group * block_weights;
    for_positions(layer, weights_position, context.pool, [&](int64_t begin, int64_t end) {
      const Positions positions(layer, pixel, begin, end);
      const Steps steps(layer, pixel);
      for (int64_t i = 0; i < layer.groups * blocks_group; ++i) {
        const int64_t g = i / blocks_group, b = i % blocks_group;
        const typename Isa::Finish finish(parts.channels(packed) + i * 3 * Isa::kChannels, stored);
        const int16_t* weights = parts.weights(packed) + i * block_weights;
        int8_t* to = y + g * layer.results + b * Isa::kChannels;
        const int width_b = static_cast<int>(width(b));
        positions.for_tiles(image + g * depth, to, layer.groups * layer.results, [&](const Tile<int16_t>& tile) {
          Isa::multiply(layer, steps, depth, tile, weights, finish, width_b);
        });
      }
    });
    return Status::kOk;
  }
};

// The image stays int8: edges hold the zero point, and the bias takes what it adds, zero point * sum of w, away again.
template <typename Isa>
struct DepthwiseLayer {
  Layer layer;
  int64_t depth, block_weights;

  explicit DepthwiseLayer(const Layer& of)
      : layer(of),
        depth(round_up(of.channels, Isa::kChannels)),
        block_weights(round_up(of.r * of.s, 2) * Isa::kChannels) {}

  int64_t blocks() const { return depth / Isa::kChannels; }
  LayerMemory memory() const { return LayerMemory(layer, depth, 1, blocks(), Isa::kChannels, block_weights); }
  int64_t width(int64_t b) const { return std::min<int64_t>(layer.channels - b * Isa::kChannels, Isa::kChannels); }

  // The sum over a channel's window.
  int64_t weight_sum(const int8_t* w) const {
    int64_t sum = 0;
    for (int64_t place = 0; place < layer.r * layer.s; ++place) sum += w[place * layer.channels];
    return sum;
  }

  void pack(const int8_t* w, int x_zero, const Channels& channels, void* packed) const {
    const LayerMemory parts = memory();
    for (int64_t b = 0; b < blocks(); ++b) {
      const int64_t first = b * Isa::kChannels;
      int32_t* to = parts.channels(packed) + b * 3 * Isa::kChannels;
      pack_channels(channels, first, width(b), Isa::kChannels, to);
      for (int64_t c = 0; c < width(b); ++c) to[c] = wrap32(to[c] - x_zero * weight_sum(w + first + c));
      Isa::pack_depthwise(layer, w + first, width(b), parts.weights(packed) + b * block_weights);
    }
  }

  Status run(const int8_t* x, int x_zero, const int8_t* w, const Channels& channels, const Stored& stored, int8_t* y,
             Context& context) const {
    if (!channels.valid(static_cast<int>(layer.channels))) return Status::kBadArgument;
    const LayerMemory parts = memory();
    int8_t* image = static_cast<int8_t*>(context.scratch);
    pad_image(layer, x, depth, static_cast<int8_t>(x_zero), image, context.pool,
              [](const int8_t* from, int64_t n, int8_t* to) { std::memcpy(to, from, static_cast<size_t>(n)); });
    const void* packed = packed_of(context, parts, [&](void* to) { pack(w, x_zero, channels, to); });
    for_positions(layer, blocks() * block_weights, context.pool, [&](int64_t begin, int64_t end) {
      const Positions positions(layer, depth, begin, end);
      const Steps steps(layer, depth);
      for (int64_t b = 0; b < blocks(); ++b) {
        const typename Isa::Finish finish(parts.channels(packed) + b * 3 * Isa::kChannels, stored);
        const int16_t* weights = parts.weights(packed) + b * block_weights;
        const int width_b = static_cast<int>(width(b));
        positions.for_tiles(
            image + b * Isa::kChannels, y + b * Isa::kChannels, layer.channels,
            [&](const Tile<int8_t>& tile) { Isa::multiply_depthwise(layer, steps, tile, weights, finish, width_b); });
      }
    });
    return Status::kOk;
  }
};

// x [rows, depth], w [results, depth]
template <typename Isa>
struct LinearLayer {
  int64_t rows, depth, results;

  Layer layer() const {
    Layer out;
    out.height = out.padded_height = out.rows = rows;
    out.channels = depth, out.results = results;
    return out;
  }

  uint64_t scratch_size() const {
    if (rows >= kFewRows) return ConvLayer<Isa>(layer()).memory().scratch_size(nullptr);
    return LayerMemory(layer(), depth, 2, 0, 0, 0).scratch_size(nullptr);
  }

  Status run(const int8_t* x, int x_zero, const int8_t* w, const Channels& channels, const Stored& stored, int8_t* y,
             Context& context) const {
    if (rows >= kFewRows) return ConvLayer<Isa>(layer()).run(x, x_zero, w, channels, stored, y, context);
    if (!channels.valid(static_cast<int>(results))) return Status::kBadArgument;
    dot_rows<Isa>(rows, depth, results, x, x_zero, w, channels, stored, y, static_cast<int16_t*>(context.scratch),
                  context.pool);
    return Status::kOk;
  }
};

template <typename Isa>
ConvLayer<Isa> conv_layer(const Call<quantized_conv2d_attrs>& call) {
  const Tensor& w = call.in[1];
  Layer layer = image_layer(call.in[0], w.dim(1), w.dim(2), call.y(), call.attrs);
  layer.groups = call.attrs.groups, layer.channels = w.dim(3), layer.results = w.dim(0) / call.attrs.groups;
  return ConvLayer<Isa>(layer);
}

template <typename Isa>
DepthwiseLayer<Isa> depthwise_layer(const Call<quantized_depthwise_conv2d_attrs>& call) {
  const Tensor& w = call.in[1];
  return DepthwiseLayer<Isa>(image_layer(call.in[0], w.dim(0), w.dim(1), call.y(), call.attrs));
}

template <typename Isa>
LinearLayer<Isa> linear_layer(const Call<quantized_linear_attrs>& call) {
  const Tensor& w = call.in[1];
  return {rows_of(call.in[0]), w.dim(1), w.dim(0)};
}

template <typename AnyLayer, typename Attrs>
Status run_layer(const AnyLayer& layer, const Call<Attrs>& call) {
  if (call.y().elements() == 0) return Status::kOk;
  return layer.run(call.in[0].i8(), call.attrs.x_zero, call.in[1].i8(), channels_of(call), stored_of(call.attrs),
                   call.y().i8(), call.context);
}

}  // namespace
}  // namespace lite
