#pragma once

#include <algorithm>

#include "core/half.h"
#include "core/kernel.h"

// Rows of weights in 16, 8 or 4 bits, as ir/ops/compressed.py describes them.

namespace lite {

constexpr int kNibbles = 32;  // elements of 4 bits that lie together

struct StoredRows {
  const Tensor& w;
  const Tensor* scale;  // null for 16 bits
  int64_t n;            // elements of a row
  int bits, group;
  int64_t size, groups;  // bytes (or halves) and scales of a row

  StoredRows(const Tensor& the_w, const Tensor* the_scale, int64_t the_n, int the_bits, int the_group)
      : w(the_w),
        scale(the_scale),
        n(the_n),
        bits(the_bits),
        group(the_group),
        size(bits == 4 ? (n + kNibbles - 1) / kNibbles * (kNibbles / 2) : n),
        groups(group > 0 ? (n + group - 1) / group : 1) {}

  const int8_t* bytes(int64_t row) const { return w.i8() + row * size; }
  const Half* halves(int64_t row) const { return w.as<Half>() + row * n; }

  // Scale `at` of a row.
  float scale_of(int64_t row, int64_t at) const {
    const int64_t place = row * groups + at;
    return scale->dtype == DType::f32 ? scale->f32()[place] : to_float(scale->as<Half>()[place]);
  }
  int level(int64_t row, int64_t k) const {
    if (bits == 8) return bytes(row)[k];
    const int place = static_cast<int>(k % kNibbles), half = kNibbles / 2;
    const unsigned pair = static_cast<uint8_t>(bytes(row)[k / kNibbles * half + place % half]);
    return static_cast<int>(place < half ? pair & 15 : pair >> 4) - 8;
  }
  float at(int64_t row, int64_t k) const {
    return bits == 16 ? to_float(halves(row)[k])
                      : static_cast<float>(level(row, k)) * scale_of(row, group > 0 ? k / group : 0);
  }

  // Whether the tensors are such rows.
  bool fit() const {
    const bool plain = bits == 16 || bits == 8 || (bits == 4 && group % kNibbles == 0);
    if (!plain || group < 0 || n < 0 || w.rank() != 2 || w.dim(1) != size) return false;
    if (bits == 16) return w.dtype == DType::f16 && scale == nullptr;
    return w.dtype == DType::i8 && scale != nullptr && (scale->dtype == DType::f32 || scale->dtype == DType::f16) &&
           scale->rank() == 2 && scale->dim(0) == w.dim(0) && scale->dim(1) == groups;
  }
};

inline StoredRows stored_rows(const Call<compressed_linear_attrs>& call) {
  return {call.in[1], call.optional(2), call.in[0].dim(-1), call.attrs.bits, call.attrs.group};
}
inline StoredRows stored_rows(const Call<compressed_gather_attrs>& call) {
  return {call.in[0], call.optional(2), call.attrs.size, call.attrs.bits, call.attrs.group};
}
inline StoredRows stored_rows(const Call<decompress_attrs>& call) {
  const int rows = call.in[0].dim(0);
  return {call.in[0], call.optional(1), call.y().elements() / std::max(rows, 1), call.attrs.bits, call.attrs.group};
}

}  // namespace lite
