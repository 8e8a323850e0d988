// A libFuzzer target: opens a file, runs all its entries, trains, saves, within bounds. Built with -DLITE_FUZZ=ON.
// Random bytes end at the first hash, so a mutator of our own changes the index or weights and makes hashes right
// again.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "format/container.h"
#include "lite/lite.h"

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size, uint8_t* out,
                                 size_t max_size, unsigned seed);
}

namespace {

constexpr size_t kTrailer = sizeof(lite::Trailer);
constexpr size_t kMostInput = size_t{1} << 12;  // bytes of one input of an entry

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz_model: %s\n", what);
  std::abort();
}

// Sets all inputs of an entry to small numbers. False: one is too large to try.
bool set_inputs(lite_session* session, int32_t entry, std::vector<std::vector<uint8_t>>& memory) {
  lite_entry info;
  if (lite_entry_info(session, entry, &info) != LITE_OK) return false;
  memory.assign(static_cast<size_t>(info.input_count), {});
  for (int32_t i = 0; i < info.input_count; ++i) {
    lite_tensor tensor;
    if (lite_input(session, entry, i, &tensor) != LITE_OK) return false;
    size_t elements = 1;
    for (int32_t k = 0; k < tensor.rank; ++k) {
      if (tensor.shape[k] < 0) tensor.shape[k] = 1;
      elements *= static_cast<size_t>(tensor.shape[k]);
      if (elements > kMostInput) return false;
    }
    const bool narrow = tensor.dtype == LITE_I8 || tensor.dtype == LITE_U8 || tensor.dtype == LITE_BOOL;
    const bool wide = tensor.dtype == LITE_I64 || tensor.dtype == LITE_F64;
    const size_t width = narrow ? 1 : tensor.dtype == LITE_F16 || tensor.dtype == LITE_I16 ? 2 : wide ? 8 : 4;
    std::vector<uint8_t>& bytes = memory[static_cast<size_t>(i)];
    bytes.assign(elements * width + 1, 0);
    for (size_t k = 0; k < elements; k += 2) bytes[k * width] = 1;  // 0, 1, or of floats the least there is
    tensor.data = bytes.data();
    tensor.size_bytes = elements * width;
    if (lite_set_input(session, entry, i, &tensor) != LITE_OK) return false;
  }
  return true;
}

void use(lite_session* session) {
  std::vector<std::vector<uint8_t>> memory;
  for (int32_t entry = 0; entry < lite_model_info(session).entry_count; ++entry) {
    if (*lite_entry_name(session, entry) == 0) continue;
    for (int turn = 0; turn < 2; ++turn) {
      if (!set_inputs(session, entry, memory) || lite_run(session, entry) != LITE_OK) break;
      uint64_t sum = 0;
      lite_entry info;
      check(lite_entry_info(session, entry, &info) == LITE_OK, "an entry that ran can be described");
      for (int32_t i = 0; i < info.output_count; ++i) {
        lite_tensor y;
        check(lite_output(session, entry, i, &y) == LITE_OK, "an output of a run is there");
        for (size_t k = 0; k < y.size_bytes; ++k) sum += static_cast<const uint8_t*>(y.data)[k];
      }
      volatile uint64_t read = sum;
      static_cast<void>(read);
    }
  }
  void* bytes = nullptr;
  size_t size = 0;
  lite_session* again = nullptr;
  char error[256] = "";
  check(lite_save_memory(session, &bytes, &size) == LITE_OK, "a model that opened can be saved");
  const bool opens = lite_open_memory(bytes, size, nullptr, &again, error, sizeof error) == LITE_OK;
  lite_close(again);
  lite_free(bytes);
  check(opens, error);
}

// Where the hash of each segment stands in the index of a sound file, and what it is of.
struct Hashed {
  size_t at, offset, size;
};

size_t index_size_of(const uint8_t* file, size_t size) {
  lite::Error error;
  size_t index_size = 0;
  return lite::check_trailer(file, size, &index_size, error) == lite::Status::kOk ? index_size : 0;
}

std::vector<Hashed> segments_of(const uint8_t* file, size_t index_size) {
  std::vector<Hashed> found;
  flatbuffers::Verifier verifier(file, index_size);
  if (!lite::format::VerifyIndexBuffer(verifier)) return found;
  const auto* segments = lite::format::GetIndex(file)->segments();
  if (segments == nullptr || reinterpret_cast<uintptr_t>(segments->data()) % alignof(lite::format::Segment) != 0) {
    return found;
  }
  for (uint32_t i = 0; i < segments->size(); ++i) {
    const auto* row = segments->Get(i);
    const size_t at = static_cast<size_t>(row->sha256()->data() - file);
    found.push_back({at, static_cast<size_t>(row->offset()), static_cast<size_t>(row->size())});
  }
  return found;
}

void make_hashes_right(uint8_t* file, size_t size, size_t index_size, const std::vector<Hashed>& segments) {
  for (const Hashed& s : segments) {
    if (s.offset <= size && s.size <= size - s.offset) lite::Sha256::of(file + s.offset, s.size, file + s.at);
  }
  lite::write_trailer(file, size, index_size);
}

// A word of the index becomes one that a file may hold elsewhere, or a limit of something.
void change_word(uint8_t* file, size_t index_size, uint32_t random) {
  const uint32_t special[] = {0, 1, 2, 7, 8, 9, 63, 64, 255, 1u << 16, 1u << 30, 0x7fffffff, 1u << 31, 0x80000010, ~0u};
  const size_t words = index_size / 4, at = random % words * 4, from = random / 7 % words * 4;
  uint32_t word = 0, other = 0;
  std::memcpy(&word, file + at, sizeof word);
  std::memcpy(&other, file + from, sizeof other);
  const uint32_t choices[] = {word + 1,
                              word - 1,
                              other,
                              word ^ 1u << random % 32,
                              word * 2,
                              random % 300,
                              special[random / 11 % (sizeof special / sizeof *special)]};
  word = choices[random / 13 % (sizeof choices / sizeof *choices)];
  std::memcpy(file + at, &word, sizeof word);
}

uint32_t next(uint32_t& state) {
  state ^= state << 13, state ^= state >> 17, state ^= state << 5;
  return state;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lite_options options = lite_default_options();
  options.threads = 1;
  options.most_memory = 1 << 18;
  options.most_steps = 2000;
  options.most_depth = 100;
  options.timeout_s = 1;
  options.backend = size > 0 && data[size - 1] % 2 != 0 ? "ref" : "auto";
  options.check_finite = size > 1 && data[size - 2] % 4 == 0;
  lite_session* session = nullptr;
  char error[256] = "";
  const lite_status status = lite_open_memory(data, size, &options, &session, error, sizeof error);
  check((status == LITE_OK) == (session != nullptr) && (status == LITE_OK) == (*error == 0), "an error has words");
  if (session == nullptr) return 0;
  use(session);
  lite_close(session);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  uint32_t random = seed * 2654435761u + 1;
  const size_t index_size = index_size_of(data, size);
  if (index_size < 8 || next(random) % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::vector<Hashed> segments = segments_of(data, index_size);
  const size_t weights = size - kTrailer - index_size;
  switch (next(random) % 4) {
    case 0:
      LLVMFuzzerMutate(data, index_size, index_size);
      break;
    case 1:
      if (weights > 0) LLVMFuzzerMutate(data + index_size, weights, weights);
      break;
    default:
      for (uint32_t n = 1 + next(random) % 4; n > 0; --n) change_word(data, index_size, next(random));
  }
  make_hashes_right(data, size, index_size, segments);
  return size;
}

// A piece of another file's index in the place of one of this.
size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size, uint8_t* out,
                                 size_t max_size, unsigned seed) {
  const size_t index_size = index_size_of(a, a_size), other_size = index_size_of(b, b_size);
  if (a_size > max_size || index_size < 8 || other_size < 8) return 0;
  uint32_t random = seed * 2654435761u + 1;
  const std::vector<Hashed> segments = segments_of(a, index_size);
  std::memcpy(out, a, a_size);
  const size_t from = next(random) % (other_size / 4) * 4, to = next(random) % (index_size / 4) * 4;
  const size_t most = std::min(other_size - from, index_size - to);
  std::memcpy(out + to, b + from, std::min<size_t>(most, 4 * (1 + next(random) % 64)));
  make_hashes_right(out, a_size, index_size, segments);
  return a_size;
}
