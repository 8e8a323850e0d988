#pragma once

#include <numeric>

#include "kernels/int8/pack.h"

// Depthwise convolution on int8, for any instruction set, by blocks of channels.
//
//   for a band of lines of results and each block: the rows of x that their windows see are laid out column by column,
//   a few rows of a channel side by side; places beyond the image hold the zero point
//   for each result: multiply the columns of its window, add, bring back to int8
//
// Rows come in groups, so there are often some more than a window has. Lines below each other share them: the weights
// are packed once for each row of a group that a window may start in, as many rows farther down.
//
// An instruction set is a class Isa with what int8/pack.h wants, and
//   kRows, kMostVectors   rows side by side; vectors of a block of channels
//   Column                the type of numbers in columns
//   interleave(vectors, width, rows, steps, count, to, to_step)
//                         `count` columns of a block's channels, kRows rows of them, of which `width` numbers may be
//                         read; rows: where they are, and how far apart columns are
//   multiply_columns(vectors, results, x, x_step, count, groups, step, parameters, w, sums)
//                         sums of some results of a block, whose first columns are x_step apart: `count` columns,
//                         `step` apart, each with all its groups of rows
//   finish                as int8/conv.h has it
// or, in place of the last two, kLines and
//   line(quick, vectors, count, x, x_step, columns, groups, step, parameters, w, stored, y, y_step, width)
//                         `count` results of a block in one line, from columns to int8

namespace lite {

template <class Isa>
class Depthwise {
 public:
  using Column = typename Isa::Column;
  using Weight = typename Isa::Weight;
  static constexpr int kMostSums = 24;                       // vectors
  static constexpr int kNumbers = Isa::kLanes * Isa::kRows;  // in a vector of a column

  explicit Depthwise(const Layer& layer)
      : layer_(layer),
        blocks_(Blocks::large(layer.channels, Isa::kLanes, Isa::kMostVectors)),
        groups_(divide_up(layer.r, Isa::kRows)),
        span_((layer.columns - 1) * layer.stride_w + (layer.s - 1) * layer.dilation_w + 1),
        starts_(layer.dilation_h == 1 ? Isa::kRows / std::gcd(int64_t{Isa::kRows}, layer.stride_h) : 1) {
    const int64_t group_bytes =
        std::max<int64_t>(span_ * blocks_.size(0) * kNumbers * static_cast<int64_t>(sizeof(Column)), 1);
    const int64_t most = std::max(kBand / group_bytes, groups_);
    while (layer.dilation_h == 1 && together_ < layer.rows && fits(together_) && laid(together_ + 1) <= most) {
      ++together_;
    }
    if (together_ == 1) starts_ = 1;
    laid_ = laid(together_);
    places_ = layer.s * groups_ * kNumbers;
    vector_bytes_ = Isa::kLanes * 4 * Isa::kParts + starts_ * places_ * static_cast<int64_t>(sizeof(Weight));
    bands_ = divide_up(layer.rows, together_);
    const int64_t items = layer.images * bands_ * blocks_.count;
    grain_ = std::max<int64_t>(divide_up(items, tasks_of(one_group(layer), items)), 1);
    task_bytes_ = bytes_of({laid_, group_bytes});
  }

  uint64_t prepared_size() const { return sizeof(LayerHeader) + bytes_of({blocks_.vectors, vector_bytes_}); }
  uint64_t scratch_size(const void* prepared) const {
    const int64_t tasks = divide_up(layer_.images * bands_ * blocks_.count, grain_);
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
    if (!reinterpret_cast<const LayerHeader*>(packed)->valid) return Status::kBadArgument;
    char* buffers = static_cast<char*>(call.context.scratch) + (call.context.prepared != nullptr ? 0 : prepared_size());
    const Stored stored = stored_of(call.attrs);
    const int64_t items = layer_.images * bands_ * blocks_.count;
    parallel_for(call.context.pool, items, grain_, [&](int64_t begin, int64_t end) {
      Column* columns = reinterpret_cast<Column*>(buffers + begin / grain_ * static_cast<int64_t>(task_bytes_));
      int edged = 0;  // the size of the blocks that columns have edges for
      for (int64_t item = begin; item < end; ++item) {
        const int64_t b = item % blocks_.count, band = item / blocks_.count, image = band / bands_;
        const int64_t first = band % bands_ * together_, lines = std::min(together_, layer_.rows - first);
        if (edged != blocks_.size(b)) lay_edges(call.attrs.x_zero, b, columns);
        edged = blocks_.size(b);
        lay_out(call.in[0].i8(), call.attrs.x_zero, image, first, lines, b, columns);
        for (int64_t line = 0; line < lines; ++line) {
          int8_t* y = call.y().i8() + (image * layer_.rows + first + line) * layer_.columns * layer_.channels;
          multiply(packed, b, line, columns, stored, y);
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

  // Whether the window of a line that is number `line` of a band ends in the last of its groups of rows.
  bool fits(int64_t line) const { return line * layer_.stride_h % Isa::kRows + layer_.r <= groups_ * Isa::kRows; }

  // Groups of rows that so many lines see.
  int64_t laid(int64_t lines) const { return (lines - 1) * layer_.stride_h / Isa::kRows + groups_; }

  // y[line][column][group of rows][vector][lane][row], zeros where there is no row or no channel.
  void pack_places(const int8_t* w, int64_t b, Weight* y) const {
    for (int64_t n = 0; n < starts_ * layer_.s * groups_; ++n) {
      const int64_t line = n / groups_ / layer_.s, column = n / groups_ % layer_.s;
      const int64_t first = n % groups_ * Isa::kRows - line * layer_.stride_h % Isa::kRows;
      for (int at = 0; at < blocks_.size(b) * Isa::kLanes; ++at) {
        const int c = Isa::result_of(blocks_.size(b), at / Isa::kLanes, at % Isa::kLanes);
        for (int64_t row = first; row < first + Isa::kRows; ++row) {
          const bool there = c < blocks_.width(b) && row >= 0 && row < layer_.r;
          *y++ = there ? w[(row * layer_.s + column) * layer_.channels + c] : 0;
        }
      }
    }
  }

  // Columns of a line that are beyond the image on its left, and those that are not beyond it on its right.
  int64_t left() const { return std::clamp<int64_t>(layer_.left, 0, span_); }
  int64_t right() const { return std::clamp<int64_t>(layer_.width + layer_.left, left(), span_); }

  // The columns beyond the image, which are the same for all bands.
  void lay_edges(int x_zero, int64_t b, Column* to) const {
    alignas(64) int8_t edge[Isa::kMostVectors * Isa::kLanes];
    std::memset(edge, x_zero, sizeof edge);
    const int size = blocks_.size(b), width = blocks_.width(b);
    const int64_t step = laid_ * size * kNumbers;
    const int8_t* rows[Isa::kRows];
    const int64_t steps[Isa::kRows] = {};
    std::fill_n(rows, Isa::kRows, edge);
    for (int64_t g = 0; g < laid_; ++g, to += size * kNumbers) {
      Isa::interleave(size, width, rows, steps, left(), to, step);
      Isa::interleave(size, width, rows, steps, span_ - right(), to + right() * step, step);
    }
  }

  // The other columns that the windows of some lines of results see, from line `first` on, in block b.
  void lay_out(const int8_t* x, int x_zero, int64_t image, int64_t first, int64_t lines, int64_t b, Column* to) const {
    alignas(64) int8_t edge[Isa::kMostVectors * Isa::kLanes];
    std::memset(edge, x_zero, sizeof edge);
    const int size = blocks_.size(b), width = blocks_.width(b);
    const int64_t step = laid_ * size * kNumbers, groups = laid(lines), begin = left(), end = right();
    to += begin * step;
    for (int64_t g = 0; g < groups; ++g, to += size * kNumbers) {
      const int8_t* rows[Isa::kRows];
      int64_t steps[Isa::kRows] = {};
      std::fill_n(rows, Isa::kRows, edge);
      for (int64_t i = 0; i < Isa::kRows; ++i) {
        const int64_t row = first * layer_.stride_h - layer_.top + (g * Isa::kRows + i) * layer_.dilation_h;
        if (row < 0 || row >= layer_.height) continue;
        rows[i] = x + ((image * layer_.height + row) * layer_.width + begin - layer_.left) * layer_.channels;
        rows[i] += blocks_.first(b);
        steps[i] = layer_.channels;
      }
      Isa::interleave(size, width, rows, steps, end - begin, to, step);
    }
  }

  // y: results of the line that is number `line` of those that were laid out.
  void multiply(const char* packed, int64_t b, int64_t line, const Column* columns, const Stored& stored,
                int8_t* y) const {
    const bool quick = reinterpret_cast<const LayerHeader*>(packed)->quick;
    const char* block = packed + sizeof(LayerHeader) + blocks_.first_vector(b) * vector_bytes_;
    const int32_t* parameters = reinterpret_cast<const int32_t*>(block);
    const int size = blocks_.size(b), width = blocks_.width(b);
    const Weight* w = weights_of(const_cast<int32_t*>(parameters), b) + (line & (starts_ - 1)) * places_ * size;
    const int64_t column = laid_ * size * kNumbers, step = layer_.dilation_w * column;
    const Column* x = columns + line * layer_.stride_h / Isa::kRows * size * kNumbers;
    y += blocks_.first(b);
    if constexpr (Isa::kLines) {
      Isa::line(quick, size, layer_.columns, x, layer_.stride_w * column, layer_.s, groups_, step, parameters, w,
                stored, y, layer_.channels, width);
    } else {
      alignas(64) int32_t sums[kMostSums * Isa::kLanes];
      const int64_t together = kMostSums / size;
      for (int64_t q = 0; q < layer_.columns; q += together) {
        const int count = static_cast<int>(std::min(together, layer_.columns - q));
        Isa::multiply_columns(size, count, x + q * layer_.stride_w * column, layer_.stride_w * column, layer_.s,
                              groups_, step, parameters, w, sums);
        Isa::finish(quick, count, size, sums, parameters, stored, y + q * layer_.channels, layer_.channels, width);
      }
    }
  }

  static constexpr int64_t kBand = 1 << 14;  // bytes of what is laid out at a time, where so many are enough

  const Layer layer_;
  const Blocks blocks_;   // of channels
  int64_t groups_;        // of rows that a window sees
  int64_t span_;          // columns that the windows of a line see
  int64_t starts_;        // rows of a group that windows start in, a power of two
  int64_t together_ = 1;  // lines of a band
  int64_t laid_;          // groups of rows that are laid out for a band
  int64_t bands_;         // of an image
  int64_t places_;        // packed weights of a vector of channels, for one row to start in
  int64_t vector_bytes_;  // packed, of a vector of channels
  int64_t grain_;         // blocks of bands of a task
  uint64_t task_bytes_;
};

}  // namespace lite
