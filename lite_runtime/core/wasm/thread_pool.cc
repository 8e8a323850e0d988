// The pool of a module of WebAssembly, which has one thread, its caller's.

#include "core/thread_pool.h"

#include "core/memory.h"

namespace lite {

ThreadPool* ThreadPool::create(int) { return lite::create<ThreadPool>(); }

void ThreadPool::destroy(ThreadPool* pool) { lite::destroy(pool); }

int ThreadPool::threads() const { return 1; }

void ThreadPool::run(int64_t n, int64_t grain, Range range, void* context) {
  for (int64_t begin = 0; begin < n; begin += grain) range(context, begin, begin + grain < n ? begin + grain : n);
}

}  // namespace lite
