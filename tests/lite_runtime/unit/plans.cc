// Tests of the planner of memory.

#include <algorithm>
#include <ctime>

#include "exec/plan.h"
#include "testing.h"

namespace {

bool overlap(const lite::Block& a, const lite::Block& b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  return in_time && a.size > 0 && b.size > 0 && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

void test_planner() {
  Random random;
  for (int round = 0; round < 200; ++round) {
    const uint32_t steps = 1 + random.below(20);
    lite::Array<lite::Block> blocks;
    lite::Array<int64_t> changes;
    lite::Planner planner;
    const size_t count = random.below(40);
    expect(blocks.allocate(count) && changes.allocate(steps + 1) && planner.allocate(count), "there is memory");
    for (lite::Block& block : blocks) {
      block.size = random.below(5) == 0 ? 0 : random.below(1000);
      block.first = static_cast<int32_t>(random.below(steps));
      block.last = block.first + static_cast<int32_t>(random.below(steps - static_cast<uint32_t>(block.first)));
    }
    const size_t least = lite::least_size(blocks, 0, blocks.size(), changes);
    const size_t planned = planner.plan(blocks, 0, blocks.size(), least);
    size_t sum = 0;
    for (const lite::Block& a : blocks) {
      sum += lite::Arena::round_up(a.size);
      expect(a.offset % lite::Arena::kAlignment == 0 && a.offset + a.size <= planned, "blocks are inside the arena");
      for (const lite::Block& b : blocks)
        expect(&a == &b || !overlap(a, b), "blocks that live together do not overlap");
    }
    expect(least <= planned && planned <= sum, "a plan is between the bound and the sum of all blocks");
  }
}

// Plans `blocks`, whose lives fit `steps`, and says how much memory they took over the least that there can be.
double plan_many(lite::Array<lite::Block>& blocks, size_t steps, size_t* planned) {
  lite::Array<int64_t> changes;
  lite::Planner planner;
  expect(changes.allocate(steps + 1) && planner.allocate(blocks.size()), "there is memory for many blocks");
  const size_t least = lite::least_size(blocks, 0, blocks.size(), changes);
  *planned = planner.plan(blocks, 0, blocks.size(), least);
  return static_cast<double>(*planned) / static_cast<double>(least);
}

void test_planner_of_many_blocks() {
  constexpr size_t kCount = lite::Planner::kMostGreedy + 2000, kSteps = 3000;
  Random random;
  lite::Array<lite::Block> blocks;
  size_t planned = 0;
  expect(blocks.allocate(kCount), "there is memory");
  for (lite::Block& block : blocks) {
    block.size = random.below(20) == 0 ? 0 : 1 + random.below(random.below(4) == 0 ? 100000 : 1000);
    block.first = static_cast<int32_t>(random.below(kSteps));
    block.last = std::min<int32_t>(kSteps - 1, block.first + static_cast<int32_t>(random.below(100)));
  }
  expect(plan_many(blocks, kSteps, &planned) < 1.5, "many blocks take little more than the least memory");
  for (size_t i = 0; i < kCount; ++i) {
    const lite::Block& a = blocks[i];
    expect(a.offset % lite::Arena::kAlignment == 0 && a.offset + a.size <= planned, "many blocks are in the arena");
    for (size_t k = 0; k < i; ++k) expect(!overlap(a, blocks[k]), "many blocks that live together do not overlap");
  }
}

// In quadratic time this would take minutes.
void test_planner_is_quick_where_everything_is_alive() {
  constexpr size_t kCount = 1 << 18;
  lite::Array<lite::Block> blocks;
  size_t planned = 0;
  expect(blocks.allocate(kCount), "there is memory");
  for (size_t i = 0; i < kCount; ++i) {
    blocks[i].size = 1 + i % 1000;
    blocks[i].first = static_cast<int32_t>(i);
    blocks[i].last = kCount - 1;
  }
  const std::clock_t start = std::clock();
  expect(plan_many(blocks, kCount, &planned) == 1.0, "blocks that all live at the end lie side by side");
  expect(std::clock() - start < 10 * CLOCKS_PER_SEC, "a plan of many blocks does not take quadratic time");
}

}  // namespace

void test_plans() {
  test_planner();
  test_planner_of_many_blocks();
  test_planner_is_quick_where_everything_is_alive();
}
