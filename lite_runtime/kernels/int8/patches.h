#pragma once

#include "kernels/int8/layer.h"

// What the windows of some positions see, one row of numbers each, as kernels for products read them.
//
// An instruction set is a class Isa with
//   X                   the type of numbers that its kernels read
//   kOffset             what they are moved by: X holds x + kOffset
//   convert(x, n, to)   n numbers

namespace lite {

// Consecutive positions of the result.
template <class Isa>
class Patches {
 public:
  using X = typename Isa::X;

  Patches(const Layer& layer, int64_t step, const int8_t* x, int x_zero)
      : layer_(layer),
        step_(step),
        x_(x),
        edge_(static_cast<X>(x_zero + Isa::kOffset)),
        whole_rows_(layer.groups == 1 && (layer.dilation_w == 1 || layer.s == 1)) {}

  // The windows of group `group` at positions [begin, end), `step` numbers apart. What lies between a window's end and
  // the next one is not written.
  void gather(int64_t group, int64_t begin, int64_t end, X* to) const {
    if (layer_.is_product() && step_ == layer_.channels) {
      Isa::convert(x_ + begin * step_, (end - begin) * step_, to);
      return;
    }
    int64_t column = begin % layer_.columns, row = begin / layer_.columns % layer_.rows;
    int64_t image = begin / layer_.columns / layer_.rows;
    for (int64_t i = begin; i < end; ++i, to += step_) {
      window(group, image, row * layer_.stride_h - layer_.top, column * layer_.stride_w - layer_.left, to);
      if (++column < layer_.columns) continue;
      column = 0;
      if (++row < layer_.rows) continue;
      row = 0, ++image;
    }
  }

 private:
  void window(int64_t group, int64_t image, int64_t top, int64_t left, X* to) const {
    const int64_t line = layer_.s * layer_.channels, pixel = layer_.groups * layer_.channels;
    for (int64_t i = 0; i < layer_.r; ++i, to += line) {
      const int64_t row = top + i * layer_.dilation_h;
      if (row < 0 || row >= layer_.height) {
        std::fill_n(to, line, edge_);
        continue;
      }
      const int8_t* from = x_ + (image * layer_.height + row) * layer_.width * pixel + group * layer_.channels;
      whole_rows_ ? whole_line(from, left, to) : apart(from, pixel, left, to);
    }
  }

  // Places of a window's line that lie side by side.
  void whole_line(const int8_t* from, int64_t left, X* to) const {
    const int64_t c = layer_.channels, first = std::clamp<int64_t>(-left, 0, layer_.s);
    const int64_t behind = std::clamp<int64_t>(layer_.width - left, first, layer_.s);
    if (first > 0) std::fill_n(to, first * c, edge_);
    if (behind > first) Isa::convert(from + (left + first) * c, (behind - first) * c, to + first * c);
    if (behind < layer_.s) std::fill(to + behind * c, to + layer_.s * c, edge_);
  }

  void apart(const int8_t* from, int64_t pixel, int64_t left, X* to) const {
    for (int64_t j = 0; j < layer_.s; ++j, to += layer_.channels) {
      const int64_t column = left + j * layer_.dilation_w;
      const bool inside = column >= 0 && column < layer_.width;
      if (inside) Isa::convert(from + column * pixel, layer_.channels, to);
      if (!inside) std::fill_n(to, layer_.channels, edge_);
    }
  }

  const Layer& layer_;
  int64_t step_;
  const int8_t* x_;
  X edge_;
  bool whole_rows_;
};

}  // namespace lite
