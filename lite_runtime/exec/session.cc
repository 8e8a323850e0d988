// A session: opens a model, owns the weights that change, lends its arena and threads to entries, saves.

#include "exec/session.h"

#include <algorithm>
#include <cstring>

#include "core/memory.h"
#include "core/probe.h"
#include "format/container.h"

namespace lite {
namespace {

constexpr int kMostThreads = 256;

}  // namespace

Session::~Session() {
  for (Entry* entry : entries_) destroy(entry);
  ThreadPool::destroy(pool_);
}

Status Session::open(const char* path, const SessionOptions& options, Error& error) {
  LITE_TRY(start_threads(options, error));
  LITE_TRY(model_.open(path, pool_, error));
  return start(options, error);
}

Status Session::open_memory(const void* bytes, size_t size, const SessionOptions& options, Error& error) {
  LITE_TRY(start_threads(options, error));
  LITE_TRY(model_.open_memory(bytes, size, pool_, error));
  return start(options, error);
}

Status Session::start_threads(const SessionOptions& options, Error& error) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    return error.set(Status::kBadArgument, "threads = %d: want 1 to %d", options.threads, kMostThreads);
  }
  pool_ = ThreadPool::create(options.threads);
  if (pool_ != nullptr) return Status::kOk;
  return error.set(Status::kOutOfMemory, "no memory for a session of %d threads", options.threads);
}

Status Session::start(const SessionOptions& options, Error& error) {
  const char* wanted = options.backend != nullptr ? options.backend : "auto";
  backend_ = find_isa(wanted);
  if (backend_ == nullptr && std::strcmp(wanted, "auto") != 0) {
    char known[80] = "";
    for (int i = sizeof kIsas / sizeof *kIsas - 1; i >= 0; --i) {
      const char* isa = find_isa(kIsas[i]);
      if (isa == nullptr) continue;
      std::strncat(known, ", ", sizeof known - std::strlen(known) - 1);
      std::strncat(known, isa, sizeof known - std::strlen(known) - 1);
    }
    return error.set(Status::kBadArgument, "backend %.40s: want auto%s", wanted, known);
  }
  check_finite_ = options.check_finite;
  limits_ = options.limits;
  LITE_TRY(load_weights(error));
  LITE_PROBE3("load", this, uint64_t{model_.size()}, uint64_t{model_.entries()});
  if (entries_.allocate(model_.entries()) && sizes_.allocate(model_.symbols()) &&
      prepared_.allocate(model_.weights(), model_.size())) {
    return Status::kOk;
  }
  return error.set(Status::kOutOfMemory, "no memory for a session of %u entries", model_.entries());
}

// All weights stay where they lie in the file. Those that an entry may overwrite lie side by side there, on pages that
// are copied when they are first written.
Status Session::load_weights(Error& error) {
  if (!weights_.allocate(model_.weights())) return error.set(Status::kOutOfMemory, "no memory for the list of weights");
  size_t begin = model_.size(), end = 0;
  for (uint32_t id = 0; id < weights_.size(); ++id) {
    weights_[id] = model_.weight_tensor(id);
    if (!model_.is_writable(id)) continue;
    begin = std::min(begin, model_.weight_offset(id));
    end = std::max(end, model_.weight_offset(id) + weights_[id].size_bytes());
  }
  if (begin >= end) return Status::kOk;
  uint8_t* bytes = nullptr;
  LITE_TRY(model_.allow_writing(begin, end, &bytes, error));
  writable_ = bytes + begin;
  writable_size_ = end - begin;
  return Status::kOk;
}

Entry* Session::entry(uint32_t number, Error& error) {
  if (entries_[number] != nullptr) return entries_[number];
  Entry* entry = create<Entry>();
  if (entry == nullptr) {
    error.set(Status::kOutOfMemory, "no memory for an entry");
    return nullptr;
  }
  if (entry->load(model_, number, weights_.data(), backend_, &prepared_, error) != Status::kOk) {
    destroy(entry);
    return nullptr;
  }
  Error own;  // it may not run at sizes that `resize` was told for others; its inputs will say
  set_sizes(*entry, own);
  return entries_[number] = entry;
}

Status Session::plan(Entry& entry, Error& error) { return entry.ready() ? Status::kOk : entry.resize(error); }

Status Session::resize(const Array<int32_t>& sizes, Error& error) {
  ran_ = nullptr;
  Status first = Status::kOk;
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) sizes_[i] = sizes[i];
  }
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    const bool callable = *model_.name(model_.entry(i).name()) != 0;  // others are sub-graphs
    if (!callable && entries_[i] == nullptr) continue;
    Error own;
    Entry* at = entry(i, own);
    if ((at != nullptr && set_sizes(*at, own) == Status::kOk) || first != Status::kOk) continue;
    error = own;
    first = own.status;
  }
  return first;
}

// Brings an entry to the sizes that `resize` was told.
Status Session::set_sizes(Entry& entry, Error& error) {
  for (uint32_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] > 0) LITE_TRY(entry.sizes().set_symbol(i, sizes_[i], error));
  }
  return entry.sizes().changed() ? entry.resize(error) : Status::kOk;
}

Status Session::run(Entry& entry, Error& error) {
  ran_ = nullptr;
  const Status status = check_finite_ && entry.updates() ? run_or_restore(entry, error) : run_on_inputs(entry, error);
  if (status == Status::kOk) ran_ = &entry;
  entry.forget_inputs();
  return status;
}

// A run that fails leaves the weights as they were: one node may have updated a weight before another fails.
Status Session::run_or_restore(Entry& entry, Error& error) {
  if (!before_.reserve(writable_size_)) {
    return error.set(Status::kOutOfMemory, "no memory to keep %zu bytes of weights", writable_size_);
  }
  if (writable_size_ > 0) std::memcpy(before_.data(), writable_, writable_size_);
  const Status status = run_on_inputs(entry, error);
  if (status != Status::kOk && writable_size_ > 0) std::memcpy(writable_, before_.data(), writable_size_);
  return status;
}

Status Session::run_on_inputs(Entry& entry, Error& error) {
  LITE_TRY(entry.fit_inputs(error));
  RunOptions options;
  options.frames = &frames_;
  options.tapes = &tapes_;
  options.pool = pool_;
  options.profile = profile_;
  options.trace = trace_;
  options.check_finite = check_finite_;
  options.limits = limits_;
  options.cancelled = &cancelled_;
  return entry.run(options, error);
}

Status Session::set_weight(uint32_t id, const void* bytes, size_t size, Error& error) {
  const char* name = model_.name(model_.weight(id).name());
  if (!model_.is_writable(id)) {
    return error.set(Status::kBadArgument, "weight %.60s: frozen; want a trainable one or state", name);
  }
  Tensor given = weights_[id];
  given.data = const_cast<void*>(bytes);
  if (size != given.size_bytes()) {
    return error.set(Status::kBadArgument, "weight %.60s: %zu bytes, want %zu", name, size, given.size_bytes());
  }
  if (!are_bools(given)) return error.set(Status::kBadArgument, "weight %.60s: want bytes of 0 or 1", name);
  if (size > 0) std::memcpy(weights_[id].data, bytes, size);
  return Status::kOk;
}

void Session::set_profile(bool on) {
  profile_ = on;
  for (Entry* entry : entries_) {
    if (entry != nullptr) entry->forget_times();
  }
}

Status Session::save(const char* path, Error& error) const {
  Arena file;
  LITE_TRY(save_memory(&file, error));
  return write_file(path, file.data(), model_.size(), error);
}

// Segments keep their places and sizes, so the index changes in nothing but their hashes.
Status Session::save_memory(Arena* file, Error& error) const {
  if (!file->reserve(model_.size())) {
    return error.set(Status::kOutOfMemory, "no memory for a file of %zu bytes", model_.size());
  }
  uint8_t* bytes = file->data();
  std::memcpy(bytes, model_.bytes(), model_.size());  // weights that changed lie there
  const format::Index& index = *format::GetIndex(bytes);
  for (uint32_t i = 0; i < length(index.segments()); ++i) {
    const format::Segment& segment = *index.segments()->Get(i);
    uint8_t* hash = const_cast<uint8_t*>(segment.sha256()->data());  // in `bytes`, which is ours
    Sha256::of(bytes + segment.offset(), segment.size(), hash);
  }
  write_trailer(bytes, model_.size(), model_.index_size());
  return Status::kOk;
}

}  // namespace lite
