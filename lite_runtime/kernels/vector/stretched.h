#pragma once

#include <algorithm>

#include "kernels/ref/loops.h"
#include "kernels/vector/math.h"

// Inputs of elementwise operators, stretched to the shape of the result by the numpy rule: block by block they become
// dense, so that one dense loop does for all shapes.

namespace lite {

constexpr int64_t kRoom = 1024;  // elements that are stretched at a time: those of three inputs fit the first cache

// Where a thread keeps a stretched block, and which: where its elements start in the tensor, or -1.
template <typename T>
struct Room {
  T data[kRoom + 16];  // a vector may be stored across the end
  int64_t from = -1, size = 0;
};

template <class Isa, typename T>
class Stretched {
 public:
  Stretched(const Tensor& x, const Ints& shape) : data_(x.template as<T>()) {
    for (int i = 0; i < shape.size; ++i) {
      const int own = i - (shape.size - x.rank());
      const bool stands = own < 0 || x.shape[own] == 1;
      outer_.add(shape[i], stands ? 0 : product(x.shape, own + 1, x.rank()), product(shape, i + 1, shape.size));
    }
    if (outer_.rank == 0) return;
    const int last = --outer_.rank;
    row_ = outer_.size[last];
    step_ = outer_.from[last];
    dense_ = last == 0 && step_ == 1;
    same_ = step_ == 1 && last > 0 && outer_.from[last - 1] == 0 ? outer_.size[last - 1] * row_ : row_;
  }

  bool dense() const { return dense_; }

  // Blocks of a multiple of this many elements often are the same.
  int64_t period() const { return dense_ || step_ == 0 || row_ > kRoom ? 1 : row_; }

  // Elements [begin, begin + n): where they lie, or stretched in `room`, where the last block may still be.
  const T* at(int64_t begin, int64_t n, Room<T>* room) const {
    if (dense_) return data_ + begin;
    const Place place(outer_, begin / row_);
    const int64_t in_row = begin % row_, from = place.from + in_row * step_;
    if (step_ == 1 && in_row + n <= row_) return data_ + from;
    const bool one_source = begin % same_ + n <= same_;
    if (!one_source || room->from != from || room->size < n) {
      fill(place, in_row, n, room->data);
      room->from = one_source ? from : -1;
      room->size = n;
    }
    return room->data;
  }

 private:
  void fill(Place place, int64_t in_row, int64_t n, T* to) const {
    for (const T* end = to + n; to < end; in_row = 0, place.advance(outer_)) {
      const int64_t length = std::min<int64_t>(row_ - in_row, end - to);
      const T* from = data_ + place.from + in_row * step_;
      step_ == 0 ? repeat(*from, length, to) : copy(from, length, to);
      to += length;
    }
  }

  static void repeat(float x, int64_t n, float* to) {
    for (int64_t i = 0; i < n; i += Isa::kLanes) Isa::store(to + i, Isa::all(x));
  }
  static void repeat(uint8_t x, int64_t n, uint8_t* to) { std::memset(to, x, static_cast<size_t>(n)); }
  static void copy(const float* from, int64_t n, float* to) {
    over<Isa>(n, [=](int64_t i, int lanes) { Isa::store(to + i, Isa::load(from + i, lanes)); });
  }
  static void copy(const uint8_t* from, int64_t n, uint8_t* to) { std::memcpy(to, from, static_cast<size_t>(n)); }

  const T* data_;
  Walk outer_;                  // over the rows
  int64_t row_ = 1, step_ = 1;  // elements of a row, and how far apart they are in the tensor: 0 or 1
  int64_t same_ = 1;            // elements of the result within which rows are equal
  bool dense_ = true;
};

// How many elements to take at a time: what suits the inputs, or `grain` where nothing is to be stretched.
template <typename... Inputs>
int64_t block_of(int64_t grain, const Inputs&... inputs) {
  const int64_t period = std::max({inputs.period()...});
  return (inputs.dense() && ...) ? grain : kRoom / period * period;
}

// body(begin, end) over [0, n) in tasks of `grain` elements, in whole blocks
template <typename Body>
void by_blocks(ThreadPool* pool, int64_t n, int64_t block, int64_t grain, const Body& body) {
  parallel_for(pool, (n + block - 1) / block, grain / block,
               [=, &body](int64_t first, int64_t last) { body(first * block, std::min(last * block, n)); });
}

}  // namespace lite
