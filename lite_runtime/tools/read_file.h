#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

namespace lite {

// Appends the bytes of a file. False: it cannot be read.
inline bool read_file(const char* path, std::vector<uint8_t>& bytes) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return false;
  uint8_t part[4096];
  for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + n);
  const bool ok = std::ferror(file) == 0;
  std::fclose(file);
  return ok;
}

}  // namespace lite
