#pragma once

#include <cstdint>

namespace lite {

constexpr int64_t kShared = 1 << 16;  // operations, a microsecond or two
// Of a product of numbers that one thread has just written: they would have to come from its cache.
constexpr int64_t kSharedProduct = 1 << 19;

// Whether `items` pieces of work, of `cost` operations each, are worth waking threads for.
inline bool pays(int64_t items, int64_t cost) { return items >= kShared / (cost + 1); }

// How many of `items` equal pieces of work, of `cost` operations each, a thread should take at a time: small parts, so
// that threads are done together; each costs some 20 ns (core/thread_pool.cc). Threads that look for work have it
// within a quarter of a microsecond; those that sleep are woken and may come too late, but nobody waits for them.
inline int64_t share(int64_t items, int64_t cost) {
  constexpr int64_t kTask = 1 << 14;
  return pays(items, cost) ? kTask / (cost + 1) : items;
}

}  // namespace lite
