// Files of POSIX systems: mapped to read, replaced whole to write.

#include "core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

namespace lite {
namespace {

bool write_all(int file, const void* bytes, size_t size) {
  const char* p = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(file, p, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    p += written, size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), size_);
}

Status MappedFile::open(const char* path, Error& error) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return error.set(Status::kIo, "%.160s: %s", path, std::strerror(errno));
  struct stat info;
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(file);
    return error.set(Status::kIo, "%.160s: not a file", path);
  }
  if (info.st_size == 0) {
    ::close(file);
    return error.set(Status::kBadFile, "%.160s: the file is empty", path);
  }
  void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  const int problem = errno;
  ::close(file);
  if (data == MAP_FAILED) return error.set(Status::kIo, "%.160s: cannot map it: %s", path, std::strerror(problem));
  data_ = static_cast<const unsigned char*>(data);
  size_ = static_cast<size_t>(info.st_size);
  return Status::kOk;
}

Status write_file(const char* path, const void* bytes, size_t size, Error& error) {
  char part[PATH_MAX];
  if (std::snprintf(part, sizeof part, "%s.%ld.part", path, static_cast<long>(::getpid())) >= PATH_MAX) {
    return error.set(Status::kIo, "%.180s...: the path is too long", path);
  }
  const int file = ::open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return error.set(Status::kIo, "%.160s: %s", path, std::strerror(errno));
  // The bytes reach the disk before the name does, so that a power cut leaves one of the two files.
  bool good = write_all(file, bytes, size) && ::fsync(file) == 0;
  int problem = errno;
  if (::close(file) != 0 && good) good = false, problem = errno;
  if (good && ::rename(part, path) != 0) good = false, problem = errno;
  if (good) return Status::kOk;
  ::unlink(part);
  return error.set(Status::kIo, "%.160s: cannot write it: %s", path, std::strerror(problem));
}

}  // namespace lite
