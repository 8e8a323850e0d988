#pragma once

#include <cstddef>
#include <cstdint>

#include "core/array.h"

namespace lite {

// Memory that is taken piece by piece and given back all at once, or down to a mark: frames and tapes of a run, and
// what kernels prepare for a session. It grows by chunks, so that what was taken never moves, and keeps them: a run
// that takes no more than one before it allocates nothing.
class Region {
 public:
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  struct Mark {
    void* chunk = nullptr;
    unsigned char* at = nullptr;
  };

  // `size` bytes, a multiple of kStep, on a boundary of kStep bytes; null where there is no memory.
  unsigned char* take(size_t size) {
    if (size > static_cast<size_t>(end_ - at_)) return take_elsewhere(size);
    unsigned char* bytes = at_;
    at_ += size;
    return bytes;
  }
  Mark mark() const { return {chunk_, at_}; }
  // Gives back everything that was taken since.
  void release(const Mark& mark);
  void clear() { release({}); }

  static constexpr size_t kStep = 16;
  static constexpr size_t round_up(size_t size) { return (size + kStep - 1) / kStep * kStep; }

 private:
  struct Chunk;
  unsigned char* take_elsewhere(size_t size);
  void enter(Chunk* chunk);

  Chunk* first_ = nullptr;
  Chunk* chunk_ = nullptr;  // the one that is being taken from; null: none yet
  unsigned char* at_ = nullptr;
  unsigned char* end_ = nullptr;
  size_t total_ = 0;
};

}  // namespace lite
