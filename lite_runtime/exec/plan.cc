// Where each block of memory lies in the arena.

#include "exec/plan.h"

#include <algorithm>

namespace lite {
namespace {

bool alive_together(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

// Three orders in which blocks may be placed; the one that takes the least memory.
size_t Planner::plan(Array<Block>& blocks, size_t enough) {
  const auto life = [](const Block& b) { return b.last - b.first; };
  const auto larger = [](const Block& a, const Block& b) { return a.size > b.size; };
  const auto longer = [&](const Block& a, const Block& b) {
    return life(a) != life(b) ? life(a) > life(b) : a.size > b.size;
  };
  const auto earlier = [](const Block& a, const Block& b) {
    return a.first != b.first ? a.first < b.first : a.size > b.size;
  };
  const size_t by_size = place(blocks, larger);
  if (by_size <= enough) return by_size;
  const size_t by_life = place(blocks, longer);
  if (by_life <= enough) return by_life;
  const size_t by_time = place(blocks, earlier);
  if (by_time <= by_size && by_time <= by_life) return by_time;
  return by_life < by_size ? place(blocks, longer) : place(blocks, larger);
}

template <typename Before>
size_t Planner::place(Array<Block>& blocks, Before before) {
  for (size_t i = 0; i < blocks.size(); ++i) order_[i] = static_cast<uint32_t>(i);
  std::sort(order_.begin(), order_.begin() + blocks.size(), [&](uint32_t a, uint32_t b) {
    if (before(blocks[a], blocks[b])) return true;
    return !before(blocks[b], blocks[a]) && a < b;
  });
  size_t count = 0, end = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[order_[i]];
    const size_t size = Arena::round_up(block.size);
    size_t offset = 0;
    for (size_t k = 0; k < count; ++k) {
      const Block& other = blocks[placed_[k]];
      if (!alive_together(block, other)) continue;
      if (offset + size <= other.offset) break;
      offset = std::max(offset, other.offset + Arena::round_up(other.size));
    }
    block.offset = offset;
    end = std::max(end, offset + size);
    uint32_t* at = std::upper_bound(placed_.begin(), placed_.begin() + count, offset,
                                    [&](size_t o, uint32_t b) { return o < blocks[b].offset; });
    std::move_backward(at, placed_.begin() + count, placed_.begin() + count + 1);
    *at = order_[i];
    ++count;
  }
  return end;
}

size_t least_size(const Array<Block>& blocks, Array<int64_t>& changes) {
  std::fill(changes.begin(), changes.end(), 0);
  for (const Block& block : blocks) {
    if (block.last < block.first) continue;
    const int64_t size = static_cast<int64_t>(Arena::round_up(block.size));
    changes[static_cast<size_t>(block.first)] += size;
    changes[static_cast<size_t>(block.last) + 1] -= size;
  }
  int64_t alive = 0, most = 0;
  for (int64_t change : changes) most = std::max(most, alive += change);
  return static_cast<size_t>(most);
}

}  // namespace lite
