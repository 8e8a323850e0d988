#pragma once

#include <cstdint>

namespace lite {

constexpr int kMaxRank = 8;

// A short list of integers, such as axes or a shape. Attribute structs are made of 32-bit words
// alone, so that they are filled from a file field by field.
struct Ints {
  int32_t size = 0;
  int32_t data[kMaxRank] = {};

  int32_t operator[](int i) const { return data[i]; }
  const int32_t* begin() const { return data; }
  const int32_t* end() const { return data + size; }
};

inline bool operator==(const Ints& a, const Ints& b) {
  if (a.size != b.size) return false;
  for (int i = 0; i < a.size; ++i) {
    if (a.data[i] != b.data[i]) return false;
  }
  return true;
}
inline bool operator!=(const Ints& a, const Ints& b) { return !(a == b); }

}  // namespace lite
