#pragma once

#include "kernels/int8/pack.h"
#include "kernels/int8/patches.h"

// Convolution and linear layers on int8, for any instruction set.
//
//   weights were packed: blocks of results, what a kernel multiplies at a time side by side
//   for some positions of the result: what their windows see goes into rows of a buffer that stays in the cache
//   for each block of results, a few rows at a time: multiply, add, bring back to int8, store
//
// Sums wrap around in 32 bits as the reference's do, so that every kernel gives its bits. x may be moved by a constant
// before it is multiplied; what that and the zero point add to a sum is known, and sums start without it.
//
// An instruction set is a class Isa with what int8/pack.h and int8/patches.h want, and
//   kTogether            numbers of x that are multiplied at a time
//   kMostVectors         vectors in a block
//   rows_of(vectors)     rows that are multiplied at a time with a block of so many
//   multiply(rows, vectors, x, x_step, depth, parameters, w, sums)
//                        sums[row][vector]: what `parameters` say that they start with, and products
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
        blocks_(layer.results, Isa::kLanes, Isa::kMostVectors),
        depth_(round_up(layer.depth(), Isa::kTogether)),
        vector_bytes_(Isa::kLanes * (Isa::kParts * 4 + depth_ * static_cast<int64_t>(sizeof(Weight)))) {
    const int64_t row = std::max<int64_t>(depth_, 1) * static_cast<int64_t>(sizeof(X));
    const int64_t fit = std::clamp<int64_t>(kBuffer / row / kTile, 1, 8) * kTile;
    rows_ = std::min(fit, round_up(layer.positions(), kTile));
    const int64_t tasks = tasks_of(layer, divide_up(layer.positions(), kTile));
    grain_ = std::max<int64_t>(round_up(divide_up(layer.positions(), tasks), kTile), kTile);
    chunks_ = divide_up(layer.positions(), grain_);
    const bool alone = !pays(layer.positions(), 2 * layer.depth() * layer.groups * layer.results);
    parts_ = alone || chunks_ == 0 ? 1 : std::clamp<int64_t>(kMostTasks / 2 / chunks_, 1, blocks_.count);
    task_bytes_ = bytes_of({rows_, row});
  }

  size_t prepared_size() const {
    return sizeof(LayerHeader) + bytes_of({layer_.groups, blocks_.vectors, vector_bytes_});
  }
  size_t scratch_size(const void* prepared) const {
    return (prepared != nullptr ? 0 : prepared_size()) + bytes_of({chunks_ * parts_, static_cast<int64_t>(task_bytes_)});
  }

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
        pack_weights<Isa>(w + first * depth, depth, depth_, Isa::kTogether, size, width, weights_of(parameters, size));
        block += size * vector_bytes_;
      }
    }
  }

  template <typename Attrs>
  Status run(const Call<Attrs>& call) const {
    if (call.y().elements() == 0) return Status::kOk;
    const char* packed = packed_weights(call, [&](void* to) { prepare(call, to); });
    if (!reinterpret_cast<const LayerHeader*>(packed)->valid) return Status::kBadIndex;
    char* buffers = static_cast<char*>(call.context.scratch) + (call.context.prepared != nullptr ? 0 : prepared_size());
    const Patches<Isa> patches(layer_, depth_, call.in[0].i8(), call.attrs.x_zero);
    const Stored stored = stored_of(call.attrs);
    parallel_for(call.context.pool, chunks_ * parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        X* buffer = reinterpret_cast<X*>(buffers + task * static_cast<int64_t>(task_bytes_));
        const int64_t first = task / parts_ * grain_, last = std::min(first + grain_, layer_.positions());
        const int64_t part = task % parts_;
        for (int64_t at = first; at < last; at += rows_) {
          const int64_t rows = std::min(rows_, last - at);
          for (int64_t g = 0; g < layer_.groups; ++g) {
            patches.gather(g, at, at + rows, buffer);
            multiply(packed, g, blocks_.count * part / parts_, blocks_.count * (part + 1) / parts_, buffer, rows,
                     stored, call.y().i8() + at * layer_.groups * layer_.results);
          }
        }
      }
    });
    return Status::kOk;
  }

 private:
  static constexpr int64_t kBuffer = 1 << 16;  // bytes of a task's rows, where so many are enough

  static Weight* weights_of(int32_t* parameters, int size) {
    return reinterpret_cast<Weight*>(parameters + size * Isa::kParts * Isa::kLanes);
  }

  // Results of blocks [begin, end) of group g from `rows` rows; y: the first row's results.
  void multiply(const char* packed, int64_t g, int64_t begin, int64_t end, const X* x, int64_t rows,
                const Stored& stored, int8_t* y) const {
    alignas(64) int32_t sums[kMostSums * Isa::kLanes];
    const bool quick = reinterpret_cast<const LayerHeader*>(packed)->quick;
    const int64_t y_step = layer_.groups * layer_.results;
    for (int64_t b = begin; b < end; ++b) {
      const int size = blocks_.size(b);
      const char* block = packed + sizeof(LayerHeader) + (g * blocks_.vectors + blocks_.first_vector(b)) * vector_bytes_;
      const int32_t* parameters = reinterpret_cast<const int32_t*>(block);
      const Weight* w = weights_of(const_cast<int32_t*>(parameters), size);
      int8_t* to = y + g * layer_.results + blocks_.first(b);
      const int64_t together = Isa::rows_of(size);
      for (int64_t row = 0; row < rows; row += together) {
        const int count = static_cast<int>(std::min(together, rows - row));
        Isa::multiply(count, size, x + row * depth_, depth_, depth_, parameters, w, sums);
        Isa::finish(quick, count, size, sums, parameters, stored, to + row * y_step, y_step, blocks_.width(b));
      }
    }
  }

  const Layer layer_;
  const Blocks blocks_;         // of a group
  int64_t depth_;               // of a row, rounded up
  int64_t vector_bytes_;        // packed, of a vector of results
  int64_t rows_;                // in a task's buffer
  int64_t grain_, chunks_;      // positions of a task, and how many such parts there are
  int64_t parts_;               // the results are cut into, for a task each
  size_t task_bytes_;
};

}  // namespace lite
