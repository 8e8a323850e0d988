#pragma once

#include <cstddef>
#include <cstdint>

#include "core/array.h"

namespace lite {

// Memory that is wanted from step `first` to step `last`, both included. Sizes and sums of them fit 64 bits, also where
// addresses have 32.
struct Block {
  uint64_t size = 0;
  int32_t first = 0;
  int32_t last = -1;
  uint64_t offset = 0;  // what the planner chose
};

// An arena in which memory is taken and given back, step after step: regions in order of their offsets, free ones also
// in a list of those of about one size. Both take constant time, so a free region may stay unused though it fits.
class Timeline {
 public:
  // Room for `blocks` regions that are in use at one time.
  [[nodiscard]] bool allocate(size_t blocks) { return regions_.allocate(2 * blocks + 1); }

  void clear();
  // The number of a region of `size` bytes, which are not 0.
  uint32_t take(uint64_t size);
  void give_back(uint32_t region);
  uint64_t offset(uint32_t region) const { return regions_[region].offset; }
  uint64_t end() const { return end_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int kLists = 64;

  struct Region {
    uint64_t offset, size;
    uint32_t before, after;           // its neighbours in the arena
    uint32_t list_before, list_next;  // in the list of free ones
    bool free;
  };

  static int list_of(uint64_t size);
  uint32_t find(uint64_t size) const;
  uint32_t add(uint64_t offset, uint64_t size, uint32_t before);
  void remove(uint32_t region);
  void link(uint32_t region);
  void unlink(uint32_t region);

  Array<Region> regions_;
  uint32_t lists_[kLists];
  uint32_t used_ = 0;       // how many of `regions_` were ever in use
  uint32_t spare_ = kNone;  // those of them that are not: a list by `after`
  uint32_t last_ = kNone;   // the region at the end of the arena
  uint64_t end_ = 0;
};

// Lays blocks out in one arena, so that blocks that are alive at the same step do not overlap.
//
// Greedy (Pisarchyk and Lee, 2020): block by block, each at the lowest offset that is free over its whole life; the
// largest first or, where that takes more memory, the longest-lived or the earliest. That takes quadratic time, so more
// than kMostGreedy blocks are laid out step by step, in n log n.
class Planner {
 public:
  static constexpr size_t kMostGreedy = 4096;

  // Room to plan up to `blocks` blocks. False: no memory.
  [[nodiscard]] bool allocate(size_t blocks) {
    return order_.allocate(blocks) && placed_.allocate(blocks) &&
           (blocks <= kMostGreedy || (region_of_.allocate(blocks) && timeline_.allocate(blocks)));
  }

  // Sets the offset of every block from `begin` to `end`, a multiple of Arena::kAlignment, and returns the size of the
  // arena. No better plan is looked for than one of `enough` bytes.
  uint64_t plan(Array<Block>& blocks, size_t begin, size_t end, uint64_t enough);

 private:
  template <typename Before>
  uint64_t place(Array<Block>& blocks, Before before);
  uint64_t place_by_step(Array<Block>& blocks);

  size_t count_ = 0;           // of blocks that want memory
  Array<uint32_t> order_;      // those, as they are placed
  Array<uint32_t> placed_;     // blocks that have an offset, by offset; or all, as they end
  Array<uint32_t> region_of_;  // each block's, where they are placed by step
  Timeline timeline_;
};

// The most bytes of blocks `begin` to `end` that are alive at one step: no plan can do with less. `changes` has an
// element for each step, and one more.
uint64_t least_size(const Array<Block>& blocks, size_t begin, size_t end, Array<int64_t>& changes);

}  // namespace lite
