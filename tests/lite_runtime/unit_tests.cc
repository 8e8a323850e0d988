// Tests of parts that cannot be reached from outside: lite_unit_tests [MODEL]. Prints a line for each failure; exits
// with their number. MODEL has an entry `train`, whose free dimensions may be 1 and 4 and whose integers may be 0.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include "core/sha256.h"
#include "core/utf8.h"
#include "exec/session.h"
#include "format/expression.h"
#include "kernels/vector/share.h"
#include "lite/lite.h"

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

int failures = 0;

void expect(bool good, const char* sentence) {
  if (good) return;
  std::printf("FAIL %s\n", sentence);
  ++failures;
}

// A small generator (xorshift), the same everywhere.
struct Random {
  uint32_t state = 2463534242u;
  uint32_t below(uint32_t n) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state % n;
  }
};

bool hash_is(const char* text, size_t repeats, const char* hex) {
  lite::Sha256 sha;
  for (size_t i = 0; i < repeats; ++i) sha.update(text, std::strlen(text));
  uint8_t hash[lite::Sha256::kSize];
  sha.finish(hash);
  char found[65];
  for (int i = 0; i < 32; ++i) std::snprintf(found + 2 * i, 3, "%02x", hash[i]);
  return std::strcmp(found, hex) == 0;
}

void test_sha256() {
  expect(hash_is("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "sha256 of abc");
  expect(hash_is("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), "sha256 of nothing");
  expect(hash_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
         "sha256 of two blocks");
  expect(hash_is("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
         "sha256 of a million letters in pieces");
#if defined(__x86_64__)
  if (lite::sha256_has_instructions()) {
    uint8_t bytes[4 * 64];
    Random random;
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random.below(256));
    uint32_t plain[8] = {1, 2, 3, 4, 5, 6, 7, 8}, fast[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    lite::sha256_blocks(plain, bytes, 4);
    lite::sha256_blocks_x86(fast, bytes, 4);
    expect(std::memcmp(plain, fast, sizeof plain) == 0, "sha256 is the same with the processor's instructions");
  }
#endif
}

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
  expect(runs_alone(pool, 1024), "a layer of some 2^17 operations runs on one thread");
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

constexpr int32_t kBase = INT32_MIN, kAdd = kBase, kMul = kBase + 1, kDiv = kBase + 2, kMin = kBase + 3,
                  kMax = kBase + 4, kX = kBase + 16, kY = kBase + 17;

template <size_t n>
lite::Tokens tokens(const int32_t (&words)[n]) {
  return {words, n};
}

const char* symbol_name(const void*, uint32_t symbol) { return symbol == 0 ? "x" : "y"; }

template <size_t n>
void expect_expression(const int32_t (&words)[n], int64_t value, const char* text) {
  const int32_t symbols[] = {7, 2};
  int64_t found = 0;
  char written[64];
  expect(lite::check_expression(tokens(words), 2) == nullptr, text);
  expect(lite::evaluate(tokens(words), symbols, &found) && found == value, text);
  lite::expression_text(tokens(words), symbol_name, nullptr, written, sizeof written);
  expect(std::strcmp(written, text) == 0, text);
}

void test_expressions() {
  expect_expression({kX}, 7, "x");
  expect_expression({kX, kY, kAdd}, 9, "x + y");
  expect_expression({kX, 3, kAdd, kY, kMul}, 20, "(x + 3)*y");
  expect_expression({kX, kY, 2, kMul, kDiv}, 1, "x//(y*2)");
  expect_expression({-1, kX, kMul, kY, kDiv}, -4, "-1*x//y");  // rounds down
  expect_expression({kX, kY, kDiv, 2, kMul}, 6, "(x//y)*2");
  expect_expression({kX, kY, kMin, kX, kMax, 1, kAdd}, 8, "max(min(x, y), x) + 1");

  const int32_t symbols[] = {7, 2};
  int64_t value;
  const int32_t by_zero[] = {kX, kY, -2, kAdd, kDiv};
  expect(!lite::evaluate(tokens(by_zero), symbols, &value), "a division by zero has no value");
  int32_t huge[40];
  for (int i = 0; i < 40; ++i) huge[i] = i == 0 || i % 2 == 1 ? INT32_MAX : kMul;
  huge[39] = kMul;
  expect(lite::check_expression({huge, 3}, 2) == nullptr && lite::evaluate({huge, 3}, symbols, &value), "2^62 fits");
  expect(!lite::evaluate({huge, 7}, symbols, &value), "a product beyond 64 bits has no value");

  const int32_t lacks[] = {kX, kAdd}, two[] = {kX, kY}, unknown[] = {kX, kY, kBase + 5}, third[] = {kBase + 18};
  expect(lite::check_expression(tokens(lacks), 2) != nullptr, "an operation needs two operands");
  expect(lite::check_expression(tokens(two), 2) != nullptr, "one value is left");
  expect(lite::check_expression(tokens(unknown), 2) != nullptr, "operations are known");
  expect(lite::check_expression(tokens(third), 2) != nullptr, "symbols are in range");
  expect(lite::check_expression({lacks, 0}, 2) != nullptr, "an expression is not empty");
  char text[4];
  lite::expression_text({huge, 3}, symbol_name, nullptr, text, sizeof text);
  expect(std::strcmp(text, "214") == 0, "a text is cut where it is too long");
}

bool is_text(const char* text) { return lite::is_text(reinterpret_cast<const uint8_t*>(text), std::strlen(text)); }

void test_texts() {
  expect(is_text("conv1/größe \xF0\x9F\x98\x80"), "UTF-8 is text");
  expect(!is_text("a\nb") && !is_text("\x1b[2J") && !is_text("\x7f"), "control characters are no names");
  expect(!is_text("\xC3") && !is_text("\xC0\xAF") && !is_text("\xED\xA0\x80") && !is_text("\xF4\x90\x80\x80"),
         "cut, overlong and impossible sequences are no text");
}

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
  for (int32_t i = 0; i < lite_input_count(session, *entry); ++i) {
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

int main([[maybe_unused]] int argc, [[maybe_unused]] char** argv) {
#if defined(LITE_COUNTS_ALLOCATIONS)
  if (argc > 1) test_runs_do_not_allocate(argv[1]);
  if (argc > 1) test_a_run_takes_what_was_planned(argv[1]);
  if (argc > 1) test_training_does_not_allocate(argv[1]);
  if (argc > 1) test_every_allocation_may_fail(argv[1], false);
  if (argc > 1) test_every_allocation_may_fail(argv[1], true);
#endif
  if (argc > 1) test_sessions_of_one_file_run_side_by_side(argv[1]);
  test_sha256();
  test_planner();
  test_planner_of_many_blocks();
  test_planner_is_quick_where_everything_is_alive();
  test_expressions();
  test_texts();
  test_threads_wake_for_large_layers_alone();
  test_threads_take_every_part_once_awake_or_asleep();
  test_a_job_ends_when_its_last_part_does();
  return failures > 100 ? 100 : failures;
}
