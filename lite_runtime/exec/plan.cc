// Where each block of memory lies in the arena.

#include "exec/plan.h"

#include <algorithm>

namespace lite {
namespace {

bool alive_together(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

// Lists hold regions of 2^k to 2^(k+1) - 1 bytes.
int Timeline::list_of(uint64_t size) { return 63 - __builtin_clzll(size); }

void Timeline::clear() {
  std::fill(lists_, lists_ + kLists, kNone);
  used_ = 0;
  spare_ = last_ = kNone;
  end_ = 0;
}

// A free region that is large enough: one of the first of its own list, or any of a list of larger ones.
uint32_t Timeline::find(uint64_t size) const {
  constexpr int kLooks = 32;
  int list = list_of(size);
  uint32_t found = lists_[list];
  for (int i = 0; i < kLooks && found != kNone && regions_[found].size < size; ++i) found = regions_[found].list_next;
  if (found != kNone && regions_[found].size >= size) return found;
  while (++list < kLists) {
    if (lists_[list] != kNone) return lists_[list];
  }
  return last_ != kNone && regions_[last_].free && regions_[last_].size >= size ? last_ : kNone;
}

uint32_t Timeline::take(uint64_t size) {
  const uint32_t found = find(size);
  if (found == kNone) {
    uint32_t last = last_;
    if (last != kNone && regions_[last].free) {  // grows
      unlink(last);
      end_ = regions_[last].offset + size;
      regions_[last].size = size;
      regions_[last].free = false;
      return last;
    }
    last = add(end_, size, last);
    end_ += size;
    return last;
  }
  unlink(found);
  regions_[found].free = false;
  if (regions_[found].size > size) {
    const uint32_t rest = add(regions_[found].offset + size, regions_[found].size - size, found);
    regions_[found].size = size;
    link(rest);
  }
  return found;
}

void Timeline::give_back(uint32_t region) {
  const uint32_t before = regions_[region].before, after = regions_[region].after;
  if (after != kNone && regions_[after].free) {
    unlink(after);
    regions_[region].size += regions_[after].size;
    remove(after);
  }
  if (before != kNone && regions_[before].free) {
    unlink(before);
    regions_[before].size += regions_[region].size;
    remove(region);
    region = before;
  }
  link(region);
}

// A region in use, behind `before` in the arena.
uint32_t Timeline::add(uint64_t offset, uint64_t size, uint32_t before) {
  const uint32_t region = spare_ != kNone ? spare_ : used_++;
  if (region == spare_) spare_ = regions_[region].after;
  const uint32_t after = before != kNone ? regions_[before].after : kNone;
  regions_[region] = {offset, size, before, after, kNone, kNone, false};
  if (before != kNone) regions_[before].after = region;
  (after != kNone ? regions_[after].before : last_) = region;
  return region;
}

void Timeline::remove(uint32_t region) {
  const uint32_t before = regions_[region].before, after = regions_[region].after;
  if (before != kNone) regions_[before].after = after;
  (after != kNone ? regions_[after].before : last_) = before;
  regions_[region].after = spare_;
  spare_ = region;
}

void Timeline::link(uint32_t region) {
  uint32_t& head = lists_[list_of(regions_[region].size)];
  regions_[region].free = true;
  regions_[region].list_before = kNone;
  regions_[region].list_next = head;
  if (head != kNone) regions_[head].list_before = region;
  head = region;
}

void Timeline::unlink(uint32_t region) {
  const uint32_t before = regions_[region].list_before, next = regions_[region].list_next;
  (before != kNone ? regions_[before].list_next : lists_[list_of(regions_[region].size)]) = next;
  if (next != kNone) regions_[next].list_before = before;
}

// Three orders in which blocks may be placed; the one that takes the least memory.
uint64_t Planner::plan(Array<Block>& blocks, size_t begin, size_t end, uint64_t enough) {
  const auto life = [](const Block& b) { return b.last - b.first; };
  const auto larger = [](const Block& a, const Block& b) { return a.size > b.size; };
  const auto longer = [&](const Block& a, const Block& b) {
    return life(a) != life(b) ? life(a) > life(b) : a.size > b.size;
  };
  const auto earlier = [](const Block& a, const Block& b) {
    return a.first != b.first ? a.first < b.first : a.size > b.size;
  };
  count_ = 0;
  for (size_t i = begin; i < end; ++i) {
    blocks[i].offset = 0;
    if (blocks[i].size > 0 && blocks[i].first <= blocks[i].last) order_[count_++] = static_cast<uint32_t>(i);
  }
  if (count_ > kMostGreedy) return place_by_step(blocks);
  const uint64_t by_size = place(blocks, larger);
  if (by_size <= enough) return by_size;
  const uint64_t by_life = place(blocks, longer);
  if (by_life <= enough) return by_life;
  const uint64_t by_time = place(blocks, earlier);
  if (by_time <= by_size && by_time <= by_life) return by_time;
  return by_life < by_size ? place(blocks, longer) : place(blocks, larger);
}

template <typename Before>
uint64_t Planner::place(Array<Block>& blocks, Before before) {
  std::sort(order_.begin(), order_.begin() + count_, [&](uint32_t a, uint32_t b) {
    if (before(blocks[a], blocks[b])) return true;
    return !before(blocks[b], blocks[a]) && a < b;
  });
  size_t count = 0;
  uint64_t end = 0;
  for (size_t i = 0; i < count_; ++i) {
    Block& block = blocks[order_[i]];
    const uint64_t size = Arena::round_up(block.size);
    uint64_t offset = 0;
    for (size_t k = 0; k < count; ++k) {
      const Block& other = blocks[placed_[k]];
      if (!alive_together(block, other)) continue;
      if (offset + size <= other.offset) break;
      offset = std::max(offset, other.offset + Arena::round_up(other.size));
    }
    block.offset = offset;
    end = std::max(end, offset + size);
    uint32_t* at = std::upper_bound(placed_.begin(), placed_.begin() + count, offset,
                                    [&](uint64_t o, uint32_t b) { return o < blocks[b].offset; });
    std::move_backward(at, placed_.begin() + count, placed_.begin() + count + 1);
    *at = order_[i];
    ++count;
  }
  return end;
}

// Memory of blocks that have ended goes to those that start, the largest first.
uint64_t Planner::place_by_step(Array<Block>& blocks) {
  std::copy(order_.begin(), order_.begin() + count_, placed_.begin());
  std::sort(order_.begin(), order_.begin() + count_, [&](uint32_t a, uint32_t b) {
    if (blocks[a].first != blocks[b].first) return blocks[a].first < blocks[b].first;
    return blocks[a].size != blocks[b].size ? blocks[a].size > blocks[b].size : a < b;
  });
  std::sort(placed_.begin(), placed_.begin() + count_, [&](uint32_t a, uint32_t b) {
    return blocks[a].last != blocks[b].last ? blocks[a].last < blocks[b].last : a < b;
  });
  timeline_.clear();
  size_t ended = 0;
  for (size_t i = 0; i < count_; ++i) {
    Block& block = blocks[order_[i]];
    // Whatever has ended before this block starts has started before it too.
    for (; blocks[placed_[ended]].last < block.first; ++ended) timeline_.give_back(region_of_[placed_[ended]]);
    region_of_[order_[i]] = timeline_.take(Arena::round_up(block.size));
    block.offset = timeline_.offset(region_of_[order_[i]]);
  }
  return timeline_.end();
}

uint64_t least_size(const Array<Block>& blocks, size_t begin, size_t end, Array<int64_t>& changes) {
  std::fill(changes.begin(), changes.end(), 0);
  for (size_t i = begin; i < end; ++i) {
    const Block& block = blocks[i];
    if (block.last < block.first) continue;
    const int64_t size = static_cast<int64_t>(Arena::round_up(block.size));
    changes[static_cast<size_t>(block.first)] += size;
    changes[static_cast<size_t>(block.last) + 1] -= size;
  }
  int64_t alive = 0, most = 0;
  for (int64_t change : changes) most = std::max(most, alive += change);
  return static_cast<uint64_t>(most);
}

}  // namespace lite
