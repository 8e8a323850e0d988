#include "core/thread_pool.h"

#include <pthread.h>
#include <unistd.h>

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

}  // namespace

// A job is open from when its number is odd until it is even again. A worker that finds it open counts itself in and
// looks again: what it then sees open cannot end before the worker has counted itself out. Whoever comes too late, or
// sleeps, is not waited for.
struct ThreadPool::State {
  int threads = 1;
  bool patient = false;  // there is a processor for every thread: spinning takes it from none of ours
  Array<pthread_t> workers;

  std::atomic<uint64_t> job{0};
  std::atomic<int> inside{0};  // workers that count themselves in
  std::atomic<int64_t> next{0};
  Range range = nullptr;
  void* context = nullptr;
  int64_t n = 0, grain = 1;

  Mutex mutex;  // of those who sleep
  Condition wake, done;
  std::atomic<int> asleep{0};
  std::atomic<bool> caller_asleep{false}, stop{false};

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
        take_parts();
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
  if (state == nullptr || pool == nullptr || !state->workers.allocate(threads > 1 ? static_cast<size_t>(threads) : 1)) {
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
  state->stop.store(true);
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
  s.next.store(0);
  s.job.fetch_add(1);
  s.wake_workers();
  s.take_parts();
  s.job.fetch_add(1);
  s.wait_for_workers();
}

}  // namespace lite
