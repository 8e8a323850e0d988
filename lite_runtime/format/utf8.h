#pragma once

#include <cstddef>
#include <cstdint>

namespace lite {

// Whether bytes are UTF-8 without control characters other than zero (and, where `lines`, tabs and line ends), so that
// a text of a hostile file can be shown in one line.
inline bool is_text(const uint8_t* bytes, size_t size, bool lines = false) {
  for (size_t i = 0; i < size;) {
    const uint8_t first = bytes[i];
    if (first < 0x80) {
      const bool line = first == '\t' || first == '\n' || first == '\r';
      if (first == 0x7F || (first < 0x20 && first != 0 && !(lines && line))) return false;
      ++i;
      continue;
    }
    const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || size - i <= more) return false;
    uint32_t point = first & (0x3F >> more);
    for (size_t k = 1; k <= more; ++k) {
      if ((bytes[i + k] & 0xC0) != 0x80) return false;
      point = point << 6 | (bytes[i + k] & 0x3F);
    }
    const uint32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
    if (point < least || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace lite
