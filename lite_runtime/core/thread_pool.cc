#include "core/thread_pool.h"

#include <pthread.h>

#include <atomic>

#include "core/array.h"
#include "core/memory.h"
#include "core/mutex.h"

namespace lite {

struct ThreadPool::State {
  int threads = 1;
  Array<pthread_t> workers;

  Mutex mutex;
  Condition wake, done;
  uint64_t job = 0;  // counts jobs: a worker takes each job once
  int busy = 0;      // workers that have not finished the current job
  bool stop = false;

  Range range = nullptr;
  void* context = nullptr;
  int64_t n = 0, grain = 1;
  std::atomic<int64_t> next{0};

  void take_parts() {
    for (int64_t begin = next.fetch_add(grain); begin < n; begin = next.fetch_add(grain)) {
      range(context, begin, begin + grain < n ? begin + grain : n);
    }
  }

  static void* start(void* state) {
    static_cast<State*>(state)->work();
    return nullptr;
  }

  void work() {
    uint64_t seen = 0;
    const Lock lock(mutex);
    for (;;) {
      wake.wait(mutex, [&] { return stop || job != seen; });
      if (stop) return;
      seen = job;
      mutex.unlock();
      take_parts();
      mutex.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool* ThreadPool::create(int threads) {
  State* state = lite::create<State>();
  ThreadPool* pool = lite::create<ThreadPool>();
  if (state == nullptr || pool == nullptr || !state->workers.allocate(threads > 1 ? static_cast<size_t>(threads) : 1)) {
    lite::destroy(state);
    lite::destroy(pool);
    return nullptr;
  }
  state->threads = threads < 1 ? 1 : threads;
  pool->state_ = state;
  // std::thread can only throw where the system has no more threads. We do with those that start: results are the same.
  State& s = *pool->state_;
  for (int i = 0; i + 1 < s.threads; ++i) {
    if (pthread_create(&s.workers[static_cast<size_t>(i)], nullptr, State::start, &s) != 0) s.threads = i + 1;
  }
  return pool;
}

void ThreadPool::destroy(ThreadPool* pool) {
  if (pool == nullptr) return;
  State* state = pool->state_;
  {
    const Lock lock(state->mutex);
    state->stop = true;
  }
  state->wake.notify_all();
  for (int i = 0; i + 1 < state->threads; ++i) pthread_join(state->workers[static_cast<size_t>(i)], nullptr);
  lite::destroy(state);
  lite::destroy(pool);
}

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(int64_t n, int64_t grain, Range range, void* context) {
  State& s = *state_;
  {
    const Lock lock(s.mutex);
    s.range = range;
    s.context = context;
    s.n = n;
    s.grain = grain;
    s.next.store(0);
    s.busy = s.threads - 1;
    ++s.job;
  }
  s.wake.notify_all();
  s.take_parts();
  const Lock lock(s.mutex);
  s.done.wait(s.mutex, [&] { return s.busy == 0; });
}

}  // namespace lite
