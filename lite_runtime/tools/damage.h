#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tools/case_file.h"

// Damaged copies of a sample call, as a hostile model file might hold them: trial(what, damage) for each.

namespace lite {

template <typename Trial>
void damage_input(const Case& c, size_t i, const Trial& trial) {
  const CaseTensor& t = c.in[i];
  if (t.dtype == DType::none) return;
  const std::string what = "input " + std::to_string(i);
  for (int axis = 0; axis < t.shape.size; ++axis) {
    const std::string where = what + ", axis " + std::to_string(axis);
    trial(where + " + 1", [=](Case& d) { ++d.in[i].shape.data[axis]; });
    if (t.shape.data[axis] > 0) trial(where + " - 1", [=](Case& d) { --d.in[i].shape.data[axis]; });
    trial(where + " = 0", [=](Case& d) { d.in[i].shape.data[axis] = 0; });
    trial(where + " = 1", [=](Case& d) { d.in[i].shape.data[axis] = 1; });
  }
  if (t.shape.size > 0) {
    trial(what + " of a smaller rank", [=](Case& d) {
      std::copy(t.shape.begin() + 1, t.shape.end(), d.in[i].shape.data);
      --d.in[i].shape.size;
    });
  }
  if (t.shape.size < kMaxRank) {
    trial(what + " of a larger rank", [=](Case& d) { d.in[i].shape.data[d.in[i].shape.size++] = 2; });
  }
  trial(what + " left out", [=](Case& d) { d.in[i] = CaseTensor(); });
  if (t.dtype == DType::i32 || t.dtype == DType::i64) {  // indices, labels, shifts: kernels may not trust them
    for (int byte : {0x7F, 0x80, 0xFF}) {
      trial(what + " of bytes " + std::to_string(byte),
            [=](Case& d) { d.in[i].bytes.assign(t.bytes.size(), static_cast<uint8_t>(byte)); });
    }
  }
  for (DType dtype : {DType::i8, DType::i16, DType::i32, DType::f16, DType::f32}) {
    if (dtype != t.dtype) trial(what + " of type " + name_of(dtype), [=](Case& d) { d.in[i].dtype = dtype; });
  }
}

template <typename Trial>
void damage_number(const Case& c, size_t at, const Trial& trial) {
  for (int32_t value : {-1, 0, 1, 2, 9, c.attrs[at] + 1, c.attrs[at] - 1, 1 << 30, INT32_MAX, INT32_MIN}) {
    trial("attribute word " + std::to_string(at) + " = " + std::to_string(value),
          [=](Case& d) { d.attrs[at] = value; });
  }
}

// A list of words: each one changed, and the list cut short.
template <typename Trial>
void damage_list(const Case& c, const Trial& trial) {
  for (size_t i = 0; i < c.list->size(); ++i) {
    const int32_t word = (*c.list)[i];
    for (int32_t value : {-1, 0, 1, 2, 9, word + 1, word - 1, 1 << 30, INT32_MAX, INT32_MIN}) {
      trial("list word " + std::to_string(i) + " = " + std::to_string(value), [=](Case& d) {
        std::vector<int32_t> words = *d.list;
        words[i] = value;
        d.set_list(std::move(words));
      });
    }
    trial("a list of " + std::to_string(i) + " words", [=](Case& d) {
      d.set_list(std::vector<int32_t>(d.list->begin(), d.list->begin() + static_cast<int64_t>(i)));
    });
  }
}

template <typename Trial>
void damage_attrs(const Case& c, const Trial& trial) {
  size_t at = 0;
  for (const char* kind = c.op->attrs; *kind != 0; ++kind) {
    const int32_t count = c.attrs[at];
    if (*kind == 'I') {
      const std::string what = "attribute word " + std::to_string(at) + ", a list,";
      if (count > 0) trial(what + " shorter", [=](Case& d) { --d.attrs[at]; });
      if (count < kMaxRank) trial(what + " longer", [=](Case& d) { ++d.attrs[at]; });
      for (int i = 1; i <= count; ++i) damage_number(c, at + static_cast<size_t>(i), trial);
      at += kMaxRank;
    } else if (*kind == 'W') {
      damage_list(c, trial);
      at += sizeof(WordList) / sizeof(int32_t) - 1;
    } else if (*kind == 'i' || *kind == 'b') {
      damage_number(c, at, trial);
    }
    ++at;
  }
}

}  // namespace lite
