#pragma once

#include <cstdint>

namespace lite {

constexpr int64_t kShared = 1 << 19;  // operations

// Whether `items` pieces of work, of `cost` operations each, are worth waking threads for.
inline bool pays(int64_t items, int64_t cost) { return items >= kShared / (cost + 1); }

// How many of `items` equal pieces of work, of `cost` operations each, a thread should take at a time. Threads that
// look for work (core/thread_pool.cc) have it within a microsecond, some 2^17 operations; those that sleep are woken
// and may come too late, but nobody waits for them.
inline int64_t share(int64_t items, int64_t cost) {
  constexpr int64_t kTask = 1 << 17;
  return pays(items, cost) ? kTask / (cost + 1) : items;
}

}  // namespace lite
