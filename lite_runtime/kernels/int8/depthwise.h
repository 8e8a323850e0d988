#pragma once

#include "kernels/int8/pack.h"

// Depthwise convolution on int8, for any instruction set, by blocks of channels.
//
//   for each row of results and each block: the rows of x that its windows see are laid out column by column, a few
//   rows of a channel side by side; places beyond the image hold the zero point
//   for each result: multiply the columns of its window, add, bring back to int8
//
// An instruction set is a class Isa with what int8/pack.h wants, and
//   kRows, kMostVectors        rows side by side; vectors of a block of channels
//   Column                     the type of numbers in columns
//   interleave(vectors, width, rows, to)
//                              kRows rows of a block's channels, of which `width` may be read; rows: where they are
//   multiply_columns(vectors, columns, count, groups, step, parameters, w, sums)
//                              sums of one result of a block over `count` columns, `step` apart, each with all its
//                              groups of rows
//   finish                     as int8/conv.h has it

namespace lite {

template <class Isa>
class Depthwise {
 public:
  using Column = typename Isa::Column;
  using Weight = typename Isa::Weight;
  static constexpr int kMostSums = 24;                      // vectors
  static constexpr int kNumbers = Isa::kLanes * Isa::kRows;  // in a vector of a column

  explicit Depthwise(const Layer& layer)
      : layer_(layer),
        blocks_(layer.channels, Isa::kLanes, Isa::kMostVectors),
        groups_(divide_up(layer.r, Isa::kRows)),
        span_((layer.columns - 1) * layer.stride_w + (layer.s - 1) * layer.dilation_w + 1),
        vector_bytes_(Isa::kLanes * 4 * Isa::kParts +
                      layer.s * groups_ * kNumbers * static_cast<int64_t>(sizeof(Weight))) {
    const int64_t lines = layer.images * layer.rows;
    grain_ = std::max<int64_t>(divide_up(lines, tasks_of(one_group(layer), lines)), 1);
    task_bytes_ = bytes_of({std::max<int64_t>(span_, 0), groups_, blocks_.size(0) * kNumbers,
                            static_cast<int64_t>(sizeof(Column))});
  }

  size_t prepared_size() const { return sizeof(LayerHeader) + bytes_of({blocks_.vectors, vector_bytes_}); }
  size_t scratch_size(const void* prepared) const {
    const int64_t tasks = divide_up(layer_.images * layer_.rows, grain_);
    return (prepared != nullptr ? 0 : prepared_size()) + bytes_of({tasks, static_cast<int64_t>(task_bytes_)});
  }

  template <typename Attrs>
  void prepare(const Call<Attrs>& call, void* to) const {
    const Channels channels = channels_of(call);
    const int64_t results = layer_.channels, places = layer_.r * layer_.s;
    const int8_t* w = call.in[1].i8();
    const auto weights = [&](int64_t k) { return ResultWeights{w + k, places, results}; };
    LayerHeader* header = new (to) LayerHeader();
    header->valid = channels.valid(static_cast<int>(results));
    if (!header->valid) return;
    header->quick = all_quick<Isa>(channels, results, weights);
    char* block = static_cast<char*>(to) + sizeof(LayerHeader);
    for (int64_t b = 0; b < blocks_.count; ++b) {
      int32_t* parameters = reinterpret_cast<int32_t*>(block);
      pack_parameters<Isa>(channels, header->quick, blocks_.first(b), blocks_.width(b), blocks_.size(b),
                           call.attrs.x_zero, stored_of(call.attrs), weights, parameters);
      pack_places(w + blocks_.first(b), b, weights_of(parameters, b));
      block += blocks_.size(b) * vector_bytes_;
    }
  }

  template <typename Attrs>
  Status run(const Call<Attrs>& call) const {
    if (call.y().elements() == 0) return Status::kOk;
    const char* packed = packed_weights(call, [&](void* to) { prepare(call, to); });
    if (!reinterpret_cast<const LayerHeader*>(packed)->valid) return Status::kBadIndex;
    char* buffers = static_cast<char*>(call.context.scratch) + (call.context.prepared != nullptr ? 0 : prepared_size());
    const Stored stored = stored_of(call.attrs);
    parallel_for(call.context.pool, layer_.images * layer_.rows, grain_, [&](int64_t begin, int64_t end) {
      Column* columns = reinterpret_cast<Column*>(buffers + begin / grain_ * static_cast<int64_t>(task_bytes_));
      for (int64_t line = begin; line < end; ++line) {
        for (int64_t b = 0; b < blocks_.count; ++b) {
          lay_out(call.in[0].i8(), call.attrs.x_zero, line, b, columns);
          multiply(packed, b, columns, stored, call.y().i8() + line * layer_.columns * layer_.channels);
        }
      }
    });
    return Status::kOk;
  }

 private:
  static Layer one_group(Layer layer) {  // as tasks_of counts operations
    layer.results = layer.channels, layer.channels = 1;
    return layer;
  }
  Weight* weights_of(int32_t* parameters, int64_t b) const {
    return reinterpret_cast<Weight*>(parameters + blocks_.size(b) * Isa::kParts * Isa::kLanes);
  }

  // y[column][group of rows][vector][lane][row], zeros where there is no row or no channel.
  void pack_places(const int8_t* w, int64_t b, Weight* y) const {
    for (int64_t j = 0; j < layer_.s; ++j) {
      for (int64_t i = 0; i < groups_ * Isa::kRows; i += Isa::kRows) {
        for (int at = 0; at < blocks_.size(b) * Isa::kLanes; ++at) {
          const int c = Blocks::result_of(blocks_.size(b), at / Isa::kLanes, at % Isa::kLanes);
          for (int64_t row = i; row < i + Isa::kRows; ++row) {
            const bool there = c < blocks_.width(b) && row < layer_.r;
            *y++ = there ? w[(row * layer_.s + j) * layer_.channels + c] : 0;
          }
        }
      }
    }
  }

  // The columns that the windows of a line of results see, in block b.
  void lay_out(const int8_t* x, int x_zero, int64_t line, int64_t b, Column* to) const {
    alignas(64) int8_t edge[Isa::kMostVectors * Isa::kLanes];
    std::memset(edge, x_zero, sizeof edge);
    const int64_t image = line / layer_.rows, top = line % layer_.rows * layer_.stride_h - layer_.top;
    const int64_t first = std::clamp<int64_t>(layer_.left, 0, span_);
    const int64_t behind = std::clamp<int64_t>(layer_.width + layer_.left, first, span_);
    const int size = blocks_.size(b), width = blocks_.width(b);
    const int64_t step = groups_ * size * kNumbers;
    for (int64_t g = 0; g < groups_; ++g) {
      const int8_t* rows[Isa::kRows];
      std::fill_n(rows, Isa::kRows, edge);
      Column* column = to + g * size * kNumbers;
      for (int64_t j = 0; j < first; ++j) Isa::interleave(size, width, rows, column + j * step);
      for (int64_t j = behind; j < span_; ++j) Isa::interleave(size, width, rows, column + j * step);
      int64_t steps[Isa::kRows] = {};
      for (int64_t i = 0; i < Isa::kRows && g * Isa::kRows + i < layer_.r; ++i) {
        const int64_t row = top + (g * Isa::kRows + i) * layer_.dilation_h;
        if (row < 0 || row >= layer_.height) continue;
        rows[i] = x + ((image * layer_.height + row) * layer_.width + first - layer_.left) * layer_.channels;
        rows[i] += blocks_.first(b);
        steps[i] = layer_.channels;
      }
      for (int64_t j = first; j < behind; ++j) {
        Isa::interleave(size, width, rows, column + j * step);
        for (int64_t i = 0; i < Isa::kRows; ++i) rows[i] += steps[i];
      }
    }
  }

  // y: the line's results.
  void multiply(const char* packed, int64_t b, const Column* columns, const Stored& stored, int8_t* y) const {
    alignas(64) int32_t sums[kMostSums * Isa::kLanes];
    const bool quick = reinterpret_cast<const LayerHeader*>(packed)->quick;
    const char* block = packed + sizeof(LayerHeader) + blocks_.first_vector(b) * vector_bytes_;
    const int32_t* parameters = reinterpret_cast<const int32_t*>(block);
    const Weight* w = weights_of(const_cast<int32_t*>(parameters), b);
    const int size = blocks_.size(b);
    const int64_t together = kMostSums / size, column = groups_ * size * kNumbers;
    for (int64_t q = 0; q < layer_.columns; q += together) {
      const int count = static_cast<int>(std::min(together, layer_.columns - q));
      for (int i = 0; i < count; ++i) {
        Isa::multiply_columns(size, columns + (q + i) * layer_.stride_w * column, layer_.s, groups_,
                              layer_.dilation_w * column, parameters, w, sums + i * size * Isa::kLanes);
      }
      Isa::finish(quick, count, size, sums, parameters, stored, y + q * layer_.channels + blocks_.first(b),
                  layer_.channels, blocks_.width(b));
    }
  }

  const Layer layer_;
  const Blocks blocks_;   // of channels
  int64_t groups_;        // of rows of a window
  int64_t span_;          // columns that the windows of a line see
  int64_t vector_bytes_;  // packed, of a vector of channels
  int64_t grain_;         // lines of a task
  size_t task_bytes_;
};

// multiply_columns for instruction sets with Isa::dot: kRows numbers in each 32-bit lane.
template <class Isa, int W>
void dot_columns(const typename Isa::Column* x, int64_t count, int64_t groups, int64_t step, const int32_t* parameters,
                 const typename Isa::Weight* w, int32_t* sums) {
  constexpr int kNumbers = Isa::kLanes * Isa::kRows;
  typename Isa::V acc[W];
#pragma GCC unroll 4
  for (int v = 0; v < W; ++v) acc[v] = Isa::load(parameters + v * Isa::kParts * Isa::kLanes);
  for (int64_t j = 0; j < count; ++j, x += step) {
    for (int64_t g = 0; g < groups; ++g, w += W * kNumbers) {
#pragma GCC unroll 4
      for (int v = 0; v < W; ++v) {
        acc[v] = Isa::dot(acc[v], Isa::load(x + (g * W + v) * kNumbers), Isa::load(w + v * kNumbers));
      }
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < W; ++v) Isa::store(sums + v * Isa::kLanes, acc[v]);
}

}  // namespace lite
