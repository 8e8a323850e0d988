#pragma once

#include "exec/entry.h"

namespace lite {

struct SessionOptions {
  int threads = 2;
  const char* backend = nullptr;  // an instruction set (kIsas); null: the best there is
  bool check_finite = false;      // stop at the first input or result that holds a NaN or an infinity; keep weights
  Limits limits;
};

// An open model: its file, the weights that can change, memory that all entries use in turn, and threads. Not safe to
// call from two threads at once; two sessions share nothing.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Open one model, once.
  Status open(const char* path, const SessionOptions& options, Error& error);
  Status open_memory(const void* bytes, size_t size, const SessionOptions& options, Error& error);

  const Model& model() const { return model_; }
  // The entry with this number, made ready the first time that it is asked for; null where that fails.
  Entry* entry(uint32_t number, Error& error);

  // Plans an entry at its present sizes, if that has not happened yet.
  Status plan(Entry& entry, Error& error);
  // Gives free dimensions of all entries other sizes. `sizes` has a number for each symbol; 0 leaves it. An entry that
  // cannot run at these sizes keeps its own; the first such is the error.
  Status resize(const Array<int32_t>& sizes, Error& error);

  // Runs an entry on the inputs that are set, and forgets them. Its outputs stay until the next run or resize.
  Status run(Entry& entry, Error& error);
  // Stops the run that is in progress or, where there is none, the next one. Any thread may call it at any time.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool holds_outputs_of(const Entry& entry) const { return ran_ == &entry; }

  Tensor weight(uint32_t id) const { return weights_[id]; }
  // Bytes that kernels made of weights, in the entries that have been planned.
  size_t prepared_size() const { return prepared_.size(); }
  // Only trainable weights and state can be set.
  Status set_weight(uint32_t id, const void* bytes, size_t size, Error& error);

  // Turns measuring of nodes on or off, and forgets the times so far.
  void set_profile(bool on);
  // Where runs write when their nodes ran; no events: nowhere.
  void set_trace(const Trace& trace) { trace_ = trace; }

  // The model's file with the weights of today, without the signature.
  Status save(const char* path, Error& error) const;
  Status save_memory(Arena* file, Error& error) const;

 private:
  Status start_threads(const SessionOptions& options, Error& error);
  Status start(const SessionOptions& options, Error& error);
  Status load_weights(Error& error);
  Status set_sizes(Entry& entry, Error& error);
  Status run_or_restore(Entry& entry, Error& error);
  Status run_on_inputs(Entry& entry, Error& error);

  Model model_;
  Array<Tensor> weights_;        // all, where they lie in the file
  uint8_t* writable_ = nullptr;  // the part of the file that holds those that can change
  size_t writable_size_ = 0;
  Arena before_;           // with check_finite_: `writable_` as it was before the run
  Prepared prepared_;      // what kernels made of weights
  Array<Entry*> entries_;  // null: not asked for yet
  Array<int32_t> sizes_;   // of free dimensions, as `resize` was told; 0: not at all
  Region frames_, tapes_;
  std::atomic<bool> cancelled_{false};
  const Entry* ran_ = nullptr;  // whose outputs are in `frames_`
  ThreadPool* pool_ = nullptr;
  const char* backend_ = nullptr;
  bool check_finite_ = false;
  bool profile_ = false;
  Trace trace_;
  Limits limits_;
};

}  // namespace lite
