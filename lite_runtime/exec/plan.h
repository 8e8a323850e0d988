#pragma once

#include <cstddef>
#include <cstdint>

#include "core/array.h"

namespace lite {

// Memory that is wanted from step `first` to step `last`, both included.
struct Block {
  size_t size = 0;
  int32_t first = 0;
  int32_t last = -1;
  size_t offset = 0;  // what the planner chose
};

// Lays blocks out in one arena, so that blocks that are alive at the same step do not overlap.
//
// Greedy (Pisarchyk and Lee, 2020): block by block, each at the lowest offset that is free over its whole life; the
// largest first or, where that takes more memory, the longest-lived or the earliest.
class Planner {
 public:
  // Room to plan up to `blocks` blocks. False: no memory.
  [[nodiscard]] bool allocate(size_t blocks) { return order_.allocate(blocks) && placed_.allocate(blocks); }

  // Sets the offset of every block, a multiple of Arena::kAlignment, and returns the size of the arena. No better plan
  // is looked for than one of `enough` bytes.
  size_t plan(Array<Block>& blocks, size_t enough);

 private:
  template <typename Before>
  size_t place(Array<Block>& blocks, Before before);

  Array<uint32_t> order_;   // blocks, as they are placed
  Array<uint32_t> placed_;  // blocks that have an offset, by offset
};

// The most bytes that are alive at one of `steps` steps: no plan can do with less. `changes` has steps + 1 elements.
size_t least_size(const Array<Block>& blocks, Array<int64_t>& changes);

}  // namespace lite
