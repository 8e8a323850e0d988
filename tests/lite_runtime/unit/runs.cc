// Tests of runs: what memory they take, that any allocation may fail, and sessions side by side.

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "exec/session.h"
#include "lite/lite.h"
#include "testing.h"

// Counts the program's allocations and what is not given back, and lets one of them fail: glibc lets a program that is
// not static bring its own malloc.
#if defined(__GLIBC__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define LITE_COUNTS_ALLOCATIONS
static int64_t allocations = 0, failing = 0;  // the one with this number fails
static int64_t held = 0;                      // allocations that were not given back
constexpr unsigned char kUntouched = 0xc5;    // fills memory on a boundary when it is taken
static unsigned char* taken = nullptr;        // the last such
static size_t taken_size = 0;

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
void* malloc(size_t size) {
  if (++allocations == failing) return nullptr;
  ++held;
  return __libc_malloc(size);
}
void* __libc_calloc(size_t count, size_t size);
void* calloc(size_t count, size_t size) {  // compilers make it of malloc and zeros
  if (++allocations == failing) return nullptr;
  ++held;
  return __libc_calloc(count, size);
}
void free(void* memory) {
  held -= memory != nullptr;
  __libc_free(memory);
}
void* aligned_alloc(size_t alignment, size_t size) {
  if (++allocations == failing) return nullptr;
  ++held;
  taken = static_cast<unsigned char*>(__libc_memalign(alignment, size));
  taken_size = size;
  if (taken != nullptr) std::memset(taken, kUntouched, size);
  return taken;
}
}
#endif

namespace {

struct Feeding {
  std::vector<unsigned char>* zeros;
  int64_t first = 0, last = 0;  // allocations before the first and the last step
};

// All inputs zero, of sizes 4, for the entry of a training.
lite_status feed_zeros(void* context, lite_session* session, [[maybe_unused]] int64_t step, int32_t* entry) {
  Feeding& feeding = *static_cast<Feeding*>(context);
#if defined(LITE_COUNTS_ALLOCATIONS)
  (step == 1 ? feeding.first : feeding.last) = allocations;
#endif
  lite_entry info;
  if (lite_entry_info(session, *entry, &info) != LITE_OK) return LITE_BAD_ARGUMENT;
  for (int32_t i = 0; i < info.input_count; ++i) {
    lite_tensor input;
    if (lite_input(session, *entry, i, &input) != LITE_OK) return LITE_BAD_ARGUMENT;
    input.data = feeding.zeros->data();
    if (lite_set_input(session, *entry, i, &input) != LITE_OK) return LITE_BAD_ARGUMENT;
  }
  return LITE_OK;
}

#if defined(LITE_COUNTS_ALLOCATIONS)
// Runs `entry` on zeros with all free dimensions at `size`.
lite::Status run_once(lite::Session& session, lite::Entry& entry, int32_t size, std::vector<unsigned char>& zeros,
                      lite::Error& error) {
  for (uint32_t i = 0; i < entry.inputs(); ++i) {
    lite::Tensor input = entry.tensor(session.model().weights() + i);
    const int32_t* words = entry.shape_words(session.model().weights() + i);
    for (int k = 0; k < input.rank(); ++k) input.shape.data[k] = lite::is_number(words[k]) ? words[k] : size;
    input.data = zeros.data();
    LITE_TRY(entry.set_input(i, input, error));
  }
  return session.run(entry, error);
}

// Opens the model; its entry `train`, or null.
lite::Entry* open_train(lite::Session& session, const char* path) {
  lite::SessionOptions options;
  lite::Error error;
  expect(session.open(path, options, error) == lite::Status::kOk, "the model opens");
  return session.entry(static_cast<uint32_t>(session.model().find_entry("train")), error);
}

void test_runs_do_not_allocate(const char* path) {
  lite::Session session;
  lite::Error error;
  lite::Entry* train = open_train(session, path);
  std::vector<unsigned char> zeros(1 << 20);
  const int64_t before = allocations;
  expect(run_once(session, *train, 4, zeros, error) == lite::Status::kOk, "the entry runs");
  const int64_t first = allocations - before;
  expect(first > 0, "the first run takes memory");
  for (int i = 0; i < 3; ++i) {
    const int32_t size = i % 2 == 0 ? 1 : 4;
    expect(run_once(session, *train, size, zeros, error) == lite::Status::kOk, "the entry runs again");
  }
  expect(allocations - before == first, "further runs take none, at sizes that are not larger");
}

// What a run writes ends where the plan does, but for what alignment leaves free.
void test_a_run_takes_what_was_planned(const char* path) {
  lite::Session session;
  lite::Error error;
  lite::Entry* train = open_train(session, path);
  if (train->graphs() > 1) return;  // others may run side by side: their frames need not end there
  std::vector<unsigned char> zeros(1 << 20);
  taken = nullptr;
  expect(run_once(session, *train, 4, zeros, error) == lite::Status::kOk, "the entry runs");
  expect(taken != nullptr, "the first run takes memory");
  size_t end = taken_size;
  while (end > 0 && taken[end - 1] == kUntouched) --end;
  constexpr size_t kAlignment = lite::Arena::kAlignment;
  const size_t most = kAlignment + train->graph(0).frame_size();  // a chunk has a head
  expect(train->planned_size() == train->peak_size(), "a run without control flow is charged its plan");
  expect(end <= most && end + 2 * kAlignment > most, "a run writes to the end of its plan and no further");
}

void test_training_does_not_allocate(const char* path) {
  std::vector<unsigned char> zeros(1 << 20);
  Feeding feeding{&zeros};
  lite_session* session = nullptr;
  int64_t done = 0;
  expect(lite_open(path, nullptr, &session, nullptr, 0) == LITE_OK, "the model opens");
  const int32_t train = lite_find_entry(session, "train");
  expect(lite_train_run(session, train, 8, feed_zeros, &feeding, nullptr, &done) == LITE_OK, "the model trains");
  expect(done == 8, "all steps run");
  expect(feeding.first > 0 && feeding.last == feeding.first, "steps behind the first take no memory");
  lite_close(session);
}

// Opens a model, from a file or its bytes, runs every entry, which trains, and saves.
lite::Status open_run_and_save(const char* path, bool from_memory, std::vector<unsigned char>& zeros,
                               lite::Error& error) {
  lite::Session session;
  lite::SessionOptions options;
  options.threads = 1;
  options.check_finite = true;
  lite::MappedFile file;
  LITE_TRY(file.open(path, error));
  LITE_TRY(from_memory ? session.open_memory(file.data(), file.size(), options, error)
                       : session.open(path, options, error));
  for (uint32_t i = 0; i < session.model().entries(); ++i) {
    if (*session.model().name(session.model().entry(i).name()) == 0) continue;
    lite::Entry* entry = session.entry(i, error);
    if (entry == nullptr) return error.status;
    LITE_TRY(run_once(session, *entry, 4, zeros, error));
  }
  lite::Arena saved;
  return session.save_memory(&saved, error);
}

void test_every_allocation_may_fail(const char* path, bool from_memory) {
  std::vector<unsigned char> zeros(1 << 20);
  lite::Status status = lite::Status::kOutOfMemory;
  int64_t number = 0;
  while (status != lite::Status::kOk && number < 5000) {
    lite::Error error;
    const int64_t before = held;
    failing = allocations + ++number;
    status = open_run_and_save(path, from_memory, zeros, error);
    failing = 0;
    expect(held == before, "what was allocated is given back, whichever allocation failed");
    expect(status == lite::Status::kOk || status == lite::Status::kOutOfMemory, "a lack of memory is said to be one");
    expect(status == lite::Status::kOk || std::strstr(error.text, "no memory") != nullptr, "an error says so in words");
  }
  expect(number > 20 && number < 5000, "many allocations failed, then none");
}
#endif

// Trains a model on zeros in a session of two threads.
void train_on_zeros(const char* path) {
  std::vector<unsigned char> zeros(1 << 20);
  Feeding feeding{&zeros};
  lite_session* session = nullptr;
  int64_t done = 0;
  if (lite_open(path, nullptr, &session, nullptr, 0) != LITE_OK) return expect(false, "the model opens");
  const int32_t train = lite_find_entry(session, "train");
  std::thread canceller([session] { lite_cancel(session); });
  const lite_status first = lite_train_run(session, train, 20, feed_zeros, &feeding, nullptr, &done);
  canceller.join();
  expect(first == LITE_OK || first == LITE_CANCELLED, "a training ends well or is cancelled");
  lite_status second = lite_train_run(session, train, 20, feed_zeros, &feeding, nullptr, &done);
  if (second == LITE_CANCELLED) second = lite_train_run(session, train, 20, feed_zeros, &feeding, nullptr, &done);
  expect(second == LITE_OK && done == 20, "the session goes on after it was cancelled");
  lite_close(session);
}

void test_sessions_of_one_file_run_side_by_side(const char* path) {
  std::thread other(train_on_zeros, path);
  train_on_zeros(path);
  other.join();
}

}  // namespace

void test_runs(const char* model) {
#if defined(LITE_COUNTS_ALLOCATIONS)
  test_runs_do_not_allocate(model);
  test_a_run_takes_what_was_planned(model);
  test_training_does_not_allocate(model);
  test_every_allocation_may_fail(model, false);
  test_every_allocation_may_fail(model, true);
#endif
  test_sessions_of_one_file_run_side_by_side(model);
}
