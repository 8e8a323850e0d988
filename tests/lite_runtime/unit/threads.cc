// Tests of the pool of threads.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/thread_pool.h"
#include "kernels/vector/share.h"
#include "testing.h"

namespace {

// Whether all parts of a layer with `positions` positions of 64 weights each run on the thread that asked.
bool runs_alone(lite::ThreadPool* pool, int64_t positions) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int64_t> seen{0}, elsewhere{0};
  std::atomic<int> patience{200000};  // the caller leaves parts to the others for that long
  lite::parallel_for(pool, positions, lite::share(positions, 2 * 64), [&](int64_t begin, int64_t end) {
    seen += end - begin;
    if (std::this_thread::get_id() != caller) ++elsewhere;
    while (elsewhere == 0 && --patience > 0) std::this_thread::yield();
  });
  expect(seen == positions, "every position is seen once");
  return elsewhere == 0;
}

void test_threads_wake_for_large_layers_alone() {
  lite::ThreadPool* pool = lite::ThreadPool::create(2);
  expect(runs_alone(pool, 64), "a small layer runs on one thread");
  expect(runs_alone(pool, 256), "a layer of 2^15 operations runs on one thread");
  expect(!runs_alone(pool, 1 << 16), "a layer of 2^23 operations runs on two threads");
  lite::ThreadPool::destroy(pool);
}

void keep_busy(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void test_a_job_ends_when_its_last_part_does() {
  lite::ThreadPool* pool = lite::ThreadPool::create(2);
  const std::thread::id caller = std::this_thread::get_id();
  for (int job = 0; job < 20; ++job) {
    std::atomic<int> started{0}, ended{0}, patience{200000};  // the caller leaves a part to the other for that long
    lite::parallel_for(pool, 4, 1, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() == caller) {
        while (started == 0 && --patience > 0) std::this_thread::yield();
        return;
      }
      ++started;
      keep_busy(std::chrono::microseconds(job < 10 ? 20 : 2000));  // the caller spins, or sleeps
      ++ended;
    });
    expect(started == ended, "a job ends when its last part does");
  }
  lite::ThreadPool::destroy(pool);
}

void test_threads_take_every_part_once_awake_or_asleep() {
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  for (const int threads : {2, processors, processors + 3}) {
    lite::ThreadPool* pool = lite::ThreadPool::create(threads);
    std::vector<int> seen(1000);
    for (int job = 0; job < 3000; ++job) {
      if (job % 500 == 0) keep_busy(std::chrono::microseconds(1000));  // so long that the others sleep
      const int64_t n = job % 1000 + 1, grain = job % 7 + 1;
      lite::parallel_for(pool, n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (int64_t i = 0; i < n; ++i) {
        expect(seen[static_cast<size_t>(i)] == 1, "every item of a job is seen once before the job ends");
        seen[static_cast<size_t>(i)] = 0;
      }
    }
    lite::ThreadPool::destroy(pool);
  }
}

}  // namespace

void test_threads() {
  test_threads_wake_for_large_layers_alone();
  test_threads_take_every_part_once_awake_or_asleep();
  test_a_job_ends_when_its_last_part_does();
}
