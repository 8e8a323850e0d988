// Chunks of memory that are kept between runs.

#include "exec/region.h"

#include <algorithm>
#include <cstdlib>

namespace lite {

struct Region::Chunk {
  Chunk* next;
  size_t size;  // with this header, which fills Arena::kAlignment bytes

  unsigned char* begin() { return reinterpret_cast<unsigned char*>(this) + Arena::kAlignment; }
  unsigned char* end() { return reinterpret_cast<unsigned char*>(this) + size; }
};

namespace {

constexpr size_t kLeastChunk = size_t{1} << 12, kMostAhead = size_t{1} << 26;

}  // namespace

Region::~Region() {
  while (first_ != nullptr) {
    Chunk* next = first_->next;
    std::free(first_);
    first_ = next;
  }
}

void Region::enter(Chunk* chunk) {
  chunk_ = chunk;
  at_ = chunk != nullptr ? chunk->begin() : nullptr;
  end_ = chunk != nullptr ? chunk->end() : nullptr;
}

void Region::release(const Mark& mark) {
  enter(static_cast<Chunk*>(mark.chunk));
  if (mark.at != nullptr) at_ = mark.at;
}

// From the next chunk that is long enough, or from a new one, as long as all so far together: few allocations, and
// never much more memory than is wanted.
unsigned char* Region::take_elsewhere(size_t size) {
  Chunk** link = chunk_ != nullptr ? &chunk_->next : &first_;
  while (*link != nullptr && static_cast<size_t>((*link)->end() - (*link)->begin()) < size) link = &(*link)->next;
  if (*link == nullptr) {
    if (size > SIZE_MAX / 2) return nullptr;
    const size_t least = size + Arena::kAlignment + std::clamp(total_, kLeastChunk, kMostAhead) / 2;
    const size_t step = least < Arena::kLargePage ? Arena::kAlignment : Arena::kLargePage;
    const size_t wanted = (least + step - 1) / step * step;
    void* memory = Arena::allocate(wanted);
    if (memory == nullptr) return nullptr;
    *link = static_cast<Chunk*>(memory);
    **link = {nullptr, wanted};
    total_ += wanted;
  }
  enter(*link);
  return take(size);
}

}  // namespace lite
