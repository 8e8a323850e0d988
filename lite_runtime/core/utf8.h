#pragma once

#include <cstddef>
#include <cstdint>

namespace lite {

// How many bytes the UTF-8 character at the start of `bytes` has; 0: it is none, or is cut.
inline size_t utf8_length(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const uint8_t first = bytes[0];
  if (first < 0x80) return 1;
  const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4 || size <= more) return 0;
  uint32_t point = first & (0x3F >> more);
  for (size_t k = 1; k <= more; ++k) {
    if ((bytes[k] & 0xC0) != 0x80) return 0;
    point = point << 6 | (bytes[k] & 0x3F);
  }
  const uint32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
  const bool good = point >= least && point <= 0x10FFFF && !(point >= 0xD800 && point < 0xE000);
  return good ? more + 1 : 0;
}

inline bool is_control(uint8_t byte) { return byte < 0x20 || byte == 0x7F; }

// Whether bytes are UTF-8 without control characters other than zero (and, where `lines`, tabs and line ends), so that
// a text of a hostile file can be shown in one line.
inline bool is_text(const uint8_t* bytes, size_t size, bool lines = false) {
  for (size_t i = 0; i < size;) {
    const size_t n = utf8_length(bytes + i, size - i);
    const uint8_t first = bytes[i];
    const bool line = lines && (first == '\t' || first == '\n' || first == '\r');
    if (n == 0 || (is_control(first) && first != 0 && !line)) return false;
    i += n;
  }
  return true;
}

}  // namespace lite
