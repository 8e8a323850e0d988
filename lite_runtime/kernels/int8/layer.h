#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/quantized.h"
#include "kernels/ref/checks.h"
#include "kernels/vector/share.h"

// What convolution, depthwise and linear layers on int8 share, for any instruction set.

namespace lite {

// A window slides over an image and gives `results` numbers for each of `groups` groups of channels. A linear layer is
// a window of one place over an image of one row.
struct Layer {
  int64_t images = 1, height = 1, width = 1, groups = 1, channels = 0;  // x, channels in a group
  int64_t top = 0, left = 0;
  int64_t r = 1, s = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t rows = 1, columns = 1, results = 0;  // y, results in a group

  int64_t positions() const { return images * rows * columns; }
  int64_t depth() const { return r * s * channels; }  // numbers that a window sees
  // Whether windows are the pixels of x, one after the other.
  bool is_product() const { return groups * r * s == 1 && rows == height && columns == width && top + left == 0; }
};

// The layer of image x [n,h,w,c] and grid y [n,p,q,k] with windows of r by s.
template <typename Attrs>
Layer image_layer(const Tensor& x, int r, int s, const Tensor& y, const Attrs& attrs) {
  Layer layer;
  layer.images = x.dim(0), layer.height = x.dim(1), layer.width = x.dim(2);
  layer.top = attrs.pads[0], layer.left = attrs.pads[1];
  layer.r = r, layer.s = s;
  layer.stride_h = attrs.strides[0], layer.stride_w = attrs.strides[1];
  layer.dilation_h = attrs.dilations[0], layer.dilation_w = attrs.dilations[1];
  layer.rows = y.dim(1), layer.columns = y.dim(2);
  layer.channels = x.dim(3), layer.results = y.dim(3);
  return layer;
}

inline Layer layer_of(const Call<quantized_conv2d_attrs>& call) {
  const Tensor& w = call.in[1];
  Layer layer = image_layer(call.in[0], w.dim(1), w.dim(2), call.y(), call.attrs);
  layer.groups = call.attrs.groups, layer.channels = w.dim(3), layer.results = w.dim(0) / call.attrs.groups;
  return layer;
}

inline Layer layer_of(const Call<quantized_depthwise_conv2d_attrs>& call) {
  const Tensor& w = call.in[1];
  return image_layer(call.in[0], w.dim(0), w.dim(1), call.y(), call.attrs);
}

// x [rows, depth], w [results, depth]
inline Layer layer_of(const Call<quantized_linear_attrs>& call) {
  Layer layer;
  layer.width = layer.columns = rows_of(call.in[0]);
  layer.channels = call.in[1].dim(1), layer.results = call.in[1].dim(0);
  return layer;
}

inline int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
inline int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

// A product of sizes, which saturates where it is absurd, so that the plan of memory refuses it.
inline uint64_t bytes_of(std::initializer_list<int64_t> sizes) {
  constexpr int64_t kMost = int64_t{1} << 59;
  int64_t n = 1;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(n, size, &n) || n > kMost) n = kMost;
  }
  return static_cast<uint64_t>(round_up(n, 64));
}

// Results in blocks of one to `most` vectors: as even as can be, or all but the last as large as can be. Result number
// result_of(v, lane) of a block is in a lane: four lanes of each vector in turn, as instructions that narrow vectors
// put them together.
struct Blocks {
  int64_t results, lanes, vectors, count;
  int64_t least, larger;  // vectors of every block; how many of the first ones have one more, or as many as can be
  int64_t most;           // 0: even ones

  static Blocks even(int64_t results, int64_t lanes, int64_t most) {
    Blocks blocks = large(results, lanes, most);
    blocks.least = blocks.vectors / blocks.count, blocks.larger = blocks.vectors % blocks.count, blocks.most = 0;
    return blocks;
  }
  static Blocks large(int64_t results, int64_t lanes, int64_t most) {
    const int64_t vectors = divide_up(results, lanes), count = std::max<int64_t>(divide_up(vectors, most), 1);
    return {results, lanes, vectors, count, 0, 0, most};
  }

  int size(int64_t b) const {
    return static_cast<int>(most > 0 ? std::min(most, vectors - b * most) : least + (b < larger));
  }
  int64_t first_vector(int64_t b) const { return most > 0 ? b * most : b * least + std::min(b, larger); }
  int64_t first(int64_t b) const { return first_vector(b) * lanes; }
  int width(int64_t b) const { return static_cast<int>(std::min(results - first(b), size(b) * lanes)); }

  static int result_of(int vectors, int v, int lane) { return lane / 4 * 4 * vectors + 4 * v + lane % 4; }
};

// At the start of what a layer prepares.
struct LayerHeader {
  bool valid;     // the multipliers are sound
  bool quick;     // kernels may take their short way
  char rest[62];  // packed numbers begin on a boundary of 64 bytes
};

// Where a call's packed weights are: prepared, or made now at the start of the scratch memory. `pack(to)` makes them.
template <typename Attrs, typename Pack>
const char* packed_weights(const Call<Attrs>& call, const Pack& pack) {
  if (call.context.prepared != nullptr) return static_cast<const char*>(call.context.prepared);
  pack(call.context.scratch);
  return static_cast<const char*>(call.context.scratch);
}

// Tasks that a layer is cut into, each with scratch memory of its own: by size, never by the number of threads.
constexpr int64_t kMostTasks = 16;

inline int64_t tasks_of(const Layer& layer, int64_t items) {
  const int64_t macs = layer.depth() * layer.groups * layer.results;
  return pays(layer.positions(), 2 * macs) ? std::clamp<int64_t>(items, 1, kMostTasks) : 1;
}

}  // namespace lite
