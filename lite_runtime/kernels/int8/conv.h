#pragma once

#include <type_traits>

#include "kernels/int8/image.h"
#include "kernels/int8/pack.h"

// Convolution and linear layers on int8, for any instruction set.
//
//   weights were packed: blocks of results, what a kernel multiplies at a time side by side
//   x is brought to the type that is multiplied: the image with its edges or, for products, some rows at a time in a
//   buffer that stays in the cache; windows are read where they lie, nothing is gathered
//   for some positions of the result and each block of results, a few rows at a time: multiply, add, bring back to int8
//
// Sums wrap around in 32 bits as the reference's do, so that every kernel gives its bits. x may be moved by a constant
// before it is multiplied; what that and the zero point add to a sum is known, and sums start without it.
//
// An instruction set is a class Isa with what int8/pack.h and int8/image.h want, and
//   kMostVectors         vectors in a block
//   rows_of(vectors)     rows that are multiplied at a time with a block of so many
//   multiply(quick, rows, vectors, x, pieces, parameters, w, sums)
//                        sums[row][vector]: what `parameters` say that they start with, and products with what
//                        `pieces` tells of each of the rows x
//   finish(quick, rows, vectors, sums, parameters, stored, y, y_step, width)
//                        brings them back to int8 and stores them, `width` of a row

namespace lite {

template <class Isa>
class Conv {
 public:
  using X = typename Isa::X;
  using Weight = typename Isa::Weight;
  static constexpr int64_t kTile = 24;  // a multiple of all rows_of
  static constexpr int kMostSums = 24;  // vectors: rows_of(v) * v is not more

  explicit Conv(const Layer& layer)
      : layer_(layer),
        image_(layer),
        pieces_(image_.pieces()),
        blocks_(Blocks::even(layer.results, Isa::kLanes, Isa::kMostVectors)),
        vector_bytes_(Isa::kLanes * (Isa::kParts * 4 + pieces_.depth() * static_cast<int64_t>(sizeof(Weight)))) {
    const int64_t tasks = tasks_of(layer, divide_up(layer.positions(), kTile));
    grain_ = std::max<int64_t>(round_up(divide_up(layer.positions(), tasks), kTile), kTile);
    chunks_ = divide_up(layer.positions(), grain_);
    const bool alone = !pays(layer.positions(), 2 * layer.depth() * layer.groups * layer.results);
    parts_ = alone || chunks_ == 0 ? 1 : std::clamp<int64_t>(kMostTasks / 2 / chunks_, 1, blocks_.count);
    const int64_t row = std::max<int64_t>(pieces_.depth(), 1) * static_cast<int64_t>(sizeof(X));
    rows_ = std::min(std::clamp<int64_t>(kBuffer / row / kTile, 1, 8) * kTile, grain_);
    if (layer.is_product()) {
      task_bytes_ = bytes_of({rows_, row});
      x_bytes_ = bytes_of({chunks_ * parts_, static_cast<int64_t>(task_bytes_)});
    } else {
      x_bytes_ = image_.size();
    }
  }

  uint64_t prepared_size() const {
    return sizeof(LayerHeader) + bytes_of({layer_.groups, blocks_.vectors, vector_bytes_});
  }
  uint64_t scratch_size(const void* prepared) const { return (prepared != nullptr ? 0 : prepared_size()) + x_bytes_; }

  template <typename Attrs>
  void prepare(const Call<Attrs>& call, void* to) const {
    const Channels channels = channels_of(call);
    const Stored stored = stored_of(call.attrs);
    const int64_t results = layer_.groups * layer_.results, depth = layer_.depth();
    const int8_t* w = call.in[1].i8();
    const auto weights = [&](int64_t k) { return ResultWeights{w + k * depth, depth, 1}; };
    LayerHeader* header = new (to) LayerHeader();
    header->valid = channels.valid(static_cast<int>(results));
    if (!header->valid) return;
    header->quick = all_quick<Isa>(channels, results, weights);
    char* block = static_cast<char*>(to) + sizeof(LayerHeader);
    for (int64_t g = 0; g < layer_.groups; ++g) {
      for (int64_t b = 0; b < blocks_.count; ++b) {
        const int64_t first = g * layer_.results + blocks_.first(b);
        const int size = blocks_.size(b), width = blocks_.width(b);
        int32_t* parameters = reinterpret_cast<int32_t*>(block);
        pack_parameters<Isa>(channels, header->quick, first, width, size, call.attrs.x_zero, stored, weights,
                             parameters);
        pack_weights<Isa>(w + first * depth, depth, image_.window(), pieces_.length, size, width,
                          weights_of(parameters, size));
        block += size * vector_bytes_;
      }
    }
  }

  template <typename Attrs>
  Status run(const Call<Attrs>& call) const {
    if (call.y().elements() == 0) return Status::kOk;
    const char* packed = packed_weights(call, [&](void* to) { prepare(call, to); });
    if (!reinterpret_cast<const LayerHeader*>(packed)->valid) return Status::kBadArgument;
    char* scratch = static_cast<char*>(call.context.scratch) + (call.context.prepared != nullptr ? 0 : prepared_size());
    X* image = reinterpret_cast<X*>(scratch);
    const int8_t* x = call.in[0].i8();
    const Stored stored = stored_of(call.attrs);
    if (!layer_.is_product()) image_.fill(x, call.attrs.x_zero, image, call.context.pool);
    parallel_for(call.context.pool, chunks_ * parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task / parts_ * grain_, last = std::min(first + grain_, layer_.positions());
        const int64_t part = task % parts_;
        X* buffer = reinterpret_cast<X*>(scratch + task * static_cast<int64_t>(task_bytes_));
        for (int64_t at = first; at < last; at += rows_) {
          Rows rows;
          rows.count = std::min(rows_, last - at);
          layer_.is_product() ? copy_rows(x, at, buffer, rows) : find_rows(image, at, rows);
          multiply(packed, blocks_.count * part / parts_, blocks_.count * (part + 1) / parts_, rows, stored,
                   call.y().i8() + at * layer_.groups * layer_.results);
        }
      }
    });
    return Status::kOk;
  }

 private:
  static constexpr int64_t kBuffer = 1 << 16;  // bytes of a task's rows, where so many are enough

  struct Rows {
    const X* x[8 * kTile];
    int64_t count;
  };

  // Rows of x from row `first` on, in the type that is multiplied: where they lie or in a buffer.
  void copy_rows(const int8_t* x, int64_t first, X* buffer, Rows& rows) const {
    const int64_t depth = layer_.channels, step = pieces_.length;
    const X* from = buffer;
    if constexpr (std::is_same_v<X, int8_t>) {
      if (step == depth) from = x + first * depth;
    }
    if (step == depth && from == buffer) Isa::convert(x + first * depth, rows.count * depth, buffer);
    for (int64_t i = 0; i < rows.count; ++i) {
      rows.x[i] = from + i * step;
      if (step == depth) continue;
      Isa::convert(x + (first + i) * depth, depth, buffer + i * step);
      std::fill(buffer + i * step + depth, buffer + (i + 1) * step, X{0});
    }
  }

  void find_rows(const X* image, int64_t first, Rows& rows) const {
    int64_t column = first % layer_.columns;
    const X* at = image + image_.start(first);
    for (int64_t i = 0; i < rows.count; ++i) {
      rows.x[i] = at;
      at += image_.step();
      if (++column < layer_.columns) continue;
      column = 0;
      at = image + image_.start(first + i + 1);
    }
  }

  static Weight* weights_of(int32_t* parameters, int size) {
    return reinterpret_cast<Weight*>(parameters + size * Isa::kParts * Isa::kLanes);
  }

  // Results of blocks [begin, end) of every group; y: the first row's results.
  void multiply(const char* packed, int64_t begin, int64_t end, const Rows& rows, const Stored& stored,
                int8_t* y) const {
    alignas(64) int32_t sums[kMostSums * Isa::kLanes];
    const bool quick = reinterpret_cast<const LayerHeader*>(packed)->quick;
    const int64_t y_step = layer_.groups * layer_.results;
    for (int64_t i = 0; i < layer_.groups * (end - begin); ++i) {
      const int64_t g = i / (end - begin), b = begin + i % (end - begin);
      const int size = blocks_.size(b);
      const char* block =
          packed + sizeof(LayerHeader) + (g * blocks_.vectors + blocks_.first_vector(b)) * vector_bytes_;
      const int32_t* parameters = reinterpret_cast<const int32_t*>(block);
      const Weight* w = weights_of(const_cast<int32_t*>(parameters), size);
      int8_t* to = y + g * layer_.results + blocks_.first(b);
      const int64_t together = Isa::rows_of(size);
      for (int64_t row = 0; row < rows.count; row += together) {
        const int count = static_cast<int>(std::min(together, rows.count - row));
        const X* x[8];
        for (int r = 0; r < count; ++r) x[r] = rows.x[row + r] + g * layer_.channels;
        Isa::multiply(quick, count, size, x, pieces_, parameters, w, sums);
        Isa::finish(quick, count, size, sums, parameters, stored, to + row * y_step, y_step, blocks_.width(b));
      }
    }
  }

  const Layer layer_;
  const Image<Isa> image_;
  const Pieces pieces_;
  const Blocks blocks_;                    // of a group
  int64_t vector_bytes_;                   // packed, of a vector of results
  int64_t rows_;                           // that a task takes at a time
  int64_t grain_, chunks_;                 // positions of a task, and how many such parts there are
  int64_t parts_;                          // the results are cut into, for a task each
  uint64_t task_bytes_ = 0, x_bytes_ = 0;  // of a task's rows, and of all or of the image
};

}  // namespace lite
