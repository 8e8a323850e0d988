// A module of WebAssembly has no files: its host opens models from memory and saves them there.

#include "core/file.h"

namespace lite {

MappedFile::~MappedFile() = default;

Status MappedFile::open(const char* path, Error& error) {
  return error.set(Status::kIo, "%.160s: this build has no files; want the bytes of a model", path);
}

Status MappedFile::allow_writing(size_t, size_t, Error&) { return Status::kOk; }

Status write_file(const char* path, const void*, size_t, Error& error) {
  return error.set(Status::kIo, "%.160s: this build has no files; want to save to memory", path);
}

}  // namespace lite
