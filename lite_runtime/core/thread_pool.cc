#include "core/thread_pool.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "core/array.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/mutex.h"

namespace lite {
namespace {

// How long a thread looks for work, or for the end of work, before it sleeps: longer than most operators take, so that
// threads stay awake from one to the next, and too short to be in anyone's way after a run.
constexpr int64_t kSpinNs = 100000;

// Lets the other thread of a core have it for a moment.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `ready()` comes true within kSpinNs; with `patient` false it is asked once.
template <typename Ready>
bool spin_until(bool patient, Ready ready) {
  if (ready()) return true;
  if (!patient) return false;
  const auto end = now_ns() + kSpinNs;
  do {
    for (int i = 0; i < 16; ++i) {
      pause();
      if (ready()) return true;
    }
  } while (now_ns() < end);
  return false;
}

// Between numbers that different threads write, so that they never share a line of a cache.
using LineApart = char[64];

// The parts of a job that a thread takes first, from the front on; those who are done with theirs take from the back.
// A thread so has the same share of one operator after the other, and finds in its cache what it wrote.
struct Share {
  std::atomic<int64_t> left{0}, front{0}, back{0};
  LineApart apart;
};

}  // namespace

// A job is open from when its number is odd until it is even again. A worker that finds it open counts itself in and
// looks again: what it then sees open cannot end before the worker has counted itself out. Whoever comes too late, or
// sleeps, is not waited for.
struct ThreadPool::State {
  int threads = 1;
  bool patient = false;  // there is a processor for every thread: spinning takes it from none of ours
  Array<pthread_t> workers;
  Array<Share> shares;          // the caller's, then the workers'
  std::atomic<int> started{0};  // workers

  LineApart before_job;
  std::atomic<uint64_t> job{0};
  Range range = nullptr;
  void* context = nullptr;
  int64_t n = 0, grain = 1;

  LineApart before_inside;
  std::atomic<int> inside{0};  // workers that count themselves in

  LineApart before_mutex;
  Mutex mutex;  // of those who sleep
  Condition wake, done;
  std::atomic<int> asleep{0};
  std::atomic<bool> caller_asleep{false}, stop{false};

  void share_parts() {
    const int64_t parts = (n - 1) / grain + 1;
    for (int i = 0; i < threads; ++i) {
      Share& share = shares[static_cast<size_t>(i)];
      const int64_t front = parts / threads * i + std::min<int64_t>(i, parts % threads);
      const int64_t count = parts / threads + (i < parts % threads ? 1 : 0);
      share.front.store(front, std::memory_order_relaxed);  // seen with the number of the job
      share.back.store(front + count, std::memory_order_relaxed);
      share.left.store(count, std::memory_order_relaxed);
    }
  }

  void take_parts(int self) {
    for (int i = 0; i < threads; ++i) {
      Share& share = shares[static_cast<size_t>((self + i) % threads)];
      while (share.left.load() > 0 && share.left.fetch_sub(1) > 0) {
        const int64_t begin = (i == 0 ? share.front.fetch_add(1) : share.back.fetch_sub(1) - 1) * grain;
        range(context, begin, begin + grain < n ? begin + grain : n);
      }
    }
  }

  static void* start(void* state) {
    State* s = static_cast<State*>(state);
    s->work(s->started.fetch_add(1) + 1);
    return nullptr;
  }

  void work(int self) {
    uint64_t seen = 0;
    const auto news = [&] {
      const uint64_t now = job.load();
      return stop.load() || (now % 2 == 1 && now != seen);
    };
    for (;;) {
      if (!spin_until(patient, news)) sleep_until(news);
      if (stop.load()) return;
      inside.fetch_add(1);
      const uint64_t now = job.load();
      if (now % 2 == 1 && now != seen) {
        seen = now;
        take_parts(self);
      }
      if (inside.fetch_sub(1) == 1 && caller_asleep.load()) {
        const Lock lock(mutex);
        done.notify_one();
      }
    }
  }

  template <typename News>
  void sleep_until(News news) {
    const Lock lock(mutex);
    asleep.fetch_add(1);
    wake.wait(mutex, news);
    asleep.fetch_sub(1);
  }

  void wake_workers() {
    if (asleep.load() == 0) return;
    const Lock lock(mutex);
    wake.notify_all();
  }

  void wait_for_workers() {
    const auto left = [&] { return inside.load() == 0; };
    if (spin_until(patient, left)) return;
    const Lock lock(mutex);
    caller_asleep.exchange(true);  // in one order with `inside`: qemu lets a load of ARM's pass a mere store
    done.wait(mutex, left);
    caller_asleep.store(false);
  }
};

ThreadPool* ThreadPool::create(int threads) {
  State* state = lite::create<State>();
  ThreadPool* pool = lite::create<ThreadPool>();
  const size_t count = threads > 1 ? static_cast<size_t>(threads) : 1;
  if (state == nullptr || pool == nullptr || !state->workers.allocate(count) || !state->shares.allocate(count)) {
    lite::destroy(state);
    lite::destroy(pool);
    return nullptr;
  }
  state->threads = threads < 1 ? 1 : threads;
  state->patient = state->threads <= sysconf(_SC_NPROCESSORS_ONLN);
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
  state->stop.exchange(true);  // in one order with `asleep`, for qemu as where the caller sleeps
  state->wake_workers();
  for (int i = 0; i + 1 < state->threads; ++i) pthread_join(state->workers[static_cast<size_t>(i)], nullptr);
  lite::destroy(state);
  lite::destroy(pool);
}

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(int64_t n, int64_t grain, Range range, void* context) {
  State& s = *state_;
  s.range = range;
  s.context = context;
  s.n = n;
  s.grain = grain;
  s.share_parts();
  s.job.fetch_add(1);
  s.wake_workers();
  s.take_parts(0);
  s.job.fetch_add(1);
  s.wait_for_workers();
}

}  // namespace lite
