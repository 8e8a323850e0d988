#pragma once

#include <cstdint>
#include <cstring>

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

// A list of any length, which lies in the model file. Its address stands in two words.
struct WordList {
  int32_t size = 0;
  int32_t address[2] = {};

  const int32_t* data() const {
    uint64_t at;
    std::memcpy(&at, address, sizeof at);
    return reinterpret_cast<const int32_t*>(static_cast<uintptr_t>(at));
  }
  void set(const int32_t* words, int32_t count) {
    const uint64_t at = reinterpret_cast<uintptr_t>(words);
    std::memcpy(address, &at, sizeof at);
    size = count;
  }
};
static_assert(sizeof(WordList) == 3 * sizeof(int32_t), "made of words alone");

}  // namespace lite
