#pragma once

#include "kernels/int8/layer.h"

// What convolutions on int8 read instead of x: the image with its edges, in the type that an instruction set
// multiplies.
//
// An instruction set is a class Isa with
//   X                   the type of numbers that its kernels read
//   kOffset             what they are moved by: X holds x + kOffset
//   kTogether           numbers of x that are multiplied at a time
//   convert(x, n, to)   n numbers

namespace lite {

// Numbers that a window sees, as pieces that lie in one place: `lines` by `places` of them, `length` numbers each,
// which is a multiple of kTogether. What a piece has beyond the window is multiplied by 0.
struct Pieces {
  int64_t lines = 1, line_step = 0, places = 1, place_step = 0, length = 0;

  int64_t depth() const { return lines * places * length; }
};

template <class Isa>
class Image {
 public:
  using X = typename Isa::X;

  explicit Image(const Layer& layer)
      : layer_(layer),
        pixel_(layer.groups * layer.channels),
        width_((layer.columns - 1) * layer.stride_w + (layer.s - 1) * layer.dilation_w + 1),
        height_((layer.rows - 1) * layer.stride_h + (layer.r - 1) * layer.dilation_h + 1) {
    const bool whole_lines = layer.groups == 1 && (layer.dilation_w == 1 || layer.s == 1);
    pieces_.lines = layer.r;
    pieces_.line_step = layer.dilation_h * width_ * pixel_;
    pieces_.places = whole_lines ? 1 : layer.s;
    pieces_.place_step = layer.dilation_w * pixel_;
    window_ = (whole_lines ? layer.s : 1) * layer.channels;
    pieces_.length = round_up(window_, Isa::kTogether);
  }

  const Pieces& pieces() const { return pieces_; }
  int64_t window() const { return window_; }  // numbers of a piece that are the window's

  // The last piece may end behind the image.
  size_t size() const {
    return bytes_of({layer_.images * height_, width_, pixel_, int64_t{sizeof(X)}}) +
           bytes_of({Isa::kTogether, int64_t{sizeof(X)}});
  }

  // Where the window at a position begins.
  int64_t start(int64_t position) const {
    const int64_t column = position % layer_.columns, line = position / layer_.columns;
    const int64_t row = line / layer_.rows * height_ + line % layer_.rows * layer_.stride_h;
    return (row * width_ + column * layer_.stride_w) * pixel_;
  }

  // From there to the next one in a line.
  int64_t step() const { return layer_.stride_w * pixel_; }

  void fill(const int8_t* x, int x_zero, X* to, ThreadPool* pool) const {
    const X edge = static_cast<X>(x_zero + Isa::kOffset);
    const int64_t row_size = width_ * pixel_, lines = layer_.images * height_;
    const int64_t left = std::min(layer_.left, width_), inside = std::clamp<int64_t>(width_ - left, 0, layer_.width);
    std::fill_n(to + lines * row_size, Isa::kTogether, X{0});
    parallel_for(pool, lines, share(lines, row_size), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        X* at = to + i * row_size;
        const int64_t row = i % height_ - layer_.top;
        if (row < 0 || row >= layer_.height) {
          std::fill_n(at, row_size, edge);
          continue;
        }
        std::fill_n(at, left * pixel_, edge);
        Isa::convert(x + (i / height_ * layer_.height + row) * layer_.width * pixel_, inside * pixel_,
                     at + left * pixel_);
        std::fill_n(at + (left + inside) * pixel_, (width_ - left - inside) * pixel_, edge);
      }
    });
  }

 private:
  const Layer layer_;
  int64_t pixel_, width_, height_;  // what windows see of the image
  int64_t window_;
  Pieces pieces_;
};

}  // namespace lite
