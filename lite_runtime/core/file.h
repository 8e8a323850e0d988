#pragma once

#include <cstddef>

#include "core/error.h"

namespace lite {

// A file mapped for reading, where its pages are shared with all who map it; parts of it may become writable.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Status open(const char* path, Error& error);

  // From now on bytes [begin, end), and others of their pages, may be written. Neither the file nor anyone else sees
  // that: a page that is written is copied first.
  Status allow_writing(size_t begin, size_t end, Error& error);

  const unsigned char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const unsigned char* data_ = nullptr;
  size_t size_ = 0;
};

// Writes a file beside `path`, then renames it: a reader sees the old file or the new one, whole.
Status write_file(const char* path, const void* bytes, size_t size, Error& error);

}  // namespace lite
