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

bool random_number(uint64_t* number) {
  const int source = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (source < 0) return false;
  const bool good = ::read(source, number, sizeof *number) == static_cast<ssize_t>(sizeof *number);
  ::close(source);
  return good;
}

// A new file whose name nobody can foresee, so that neither other writers nor links that wait there are in its way.
int create_beside(const char* path, char* part, size_t capacity) {
  constexpr int kTries = 8;
  int file = -1;
  for (int i = 0; i < kTries; ++i) {
    uint64_t number = 0;
    if (!random_number(&number)) return -1;
    std::snprintf(part, capacity, "%s.%016llx.part", path, static_cast<unsigned long long>(number));
    file = ::open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) break;
  }
  return file;
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

Status MappedFile::allow_writing(size_t begin, size_t end, Error& error) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), first = begin / page * page;
  unsigned char* from = const_cast<unsigned char*>(data_) + first;
  if (begin >= end || ::mprotect(from, end - first, PROT_READ | PROT_WRITE) == 0) return Status::kOk;
  return error.set(Status::kOutOfMemory, "no memory for %zu bytes of weights that may change", end - begin);
}

Status write_file(const char* path, const void* bytes, size_t size, Error& error) {
  char part[PATH_MAX];
  if (std::strlen(path) + sizeof ".0123456789abcdef.part" > sizeof part) {
    return error.set(Status::kIo, "%.180s...: the path is too long", path);
  }
  const int file = create_beside(path, part, sizeof part);
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
