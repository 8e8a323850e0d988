#pragma once

#include <cstdint>

namespace lite {

// A few threads that live as long as a session and wait for work. No allocation after `create`.
class ThreadPool {
 public:
  using Range = void (*)(void* context, int64_t begin, int64_t end);

  // A pool of `threads` in all, the caller's own among them; null when there is no memory.
  static ThreadPool* create(int threads);
  static void destroy(ThreadPool* pool);

  int threads() const;

  // Calls `range` on disjoint parts of [0, n), each of `grain` items but the last; returns when all
  // are done. Which thread takes which part varies, the parts do not: results stay the same.
  void run(int64_t n, int64_t grain, Range range, void* context);

 private:
  struct State;
  State* state_ = nullptr;
};

// body(begin, end) over [0, n) in parts of `grain`, on the pool or, without one, right here.
template <typename Body>
void parallel_for(ThreadPool* pool, int64_t n, int64_t grain, const Body& body) {
  if (grain < 1) grain = 1;
  if (pool == nullptr || pool->threads() == 1 || n <= grain) {
    for (int64_t i = 0; i < n; i += grain) body(i, i + grain < n ? i + grain : n);
    return;
  }
  pool->run(
      n, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); },
      const_cast<Body*>(&body));
}

}  // namespace lite
