#pragma once

#include "exec/plan.h"
#include "exec/sizes.h"
#include "kernels/kernels.h"

namespace lite {

// One node, ready to run.
struct Step {
  const OpInfo* op = nullptr;
  const Kernel* kernel = nullptr;
  const int32_t* ids = nullptr;  // of inputs, then of results, in the model's pool
  int32_t given = 0;             // how many inputs the file gives
  int32_t inputs = 0;            // how many the kernel sees: optional ones at the end may be left out of the file
  const int32_t* attr_words = nullptr;
  size_t attrs = 0;         // where its attributes start in `attrs_`
  int32_t scratch = -1;     // its block, or -1
  int64_t nanoseconds = 0;  // spent in it while profiling
};

// What a run needs besides the entry itself.
struct RunOptions {
  unsigned char* arena = nullptr;
  ThreadPool* pool = nullptr;
  bool profile = false;
  bool check_finite = false;  // stop at the first input or result that holds a NaN or an infinity
};

// An entry point of a model: its nodes with their kernels, the sizes of its free dimensions, and a plan of its memory.
// After `load`, nothing here allocates.
class Entry {
 public:
  // `weights` are the tensors of ids below model.weights(); they outlive the entry. `backend` is an instruction set,
  // or null for the best that there is.
  Status load(const Model& model, uint32_t number, Tensor* weights, const char* backend, Error& error);

  const char* name() const { return model_->name(rows_->name()); }
  uint32_t inputs() const { return length(rows_->inputs()); }
  uint32_t outputs() const { return length(rows_->outputs()); }
  const char* input_name(uint32_t i) const { return value_name(model_->weights() + i); }
  const char* output_name(uint32_t i) const { return model_->name(rows_->output_names()->Get(i)); }
  uint32_t output_id(uint32_t i) const { return rows_->outputs()->Get(i); }

  uint32_t values() const { return static_cast<uint32_t>(values_.size()); }
  // The tensor with this id at the present sizes: a weight, an input or a result. Bytes of results are there after a
  // run, but only those of outputs are still whole.
  const Tensor& tensor(uint32_t id) const {
    return id < model_->weights() ? weights_[id] : values_[id - model_->weights()];
  }
  const char* value_name(uint32_t id) const;
  // Where the words of its shape stand in the pool.
  const int32_t* shape_words(uint32_t id) const;

  const Array<Step>& steps() const { return steps_; }
  const char* source(uint32_t step) const;
  void forget_times();

  // Sizes of free dimensions: changes take effect, or all fail, in `resize`. Before the first one, results have no
  // shapes and there is no plan.
  Sizes& sizes() { return sizes_; }
  const Sizes& sizes() const { return sizes_; }
  Status resize(Error& error);
  bool ready() const { return ready_; }

  // Bytes of the arena that a run wants, and the fewest that any plan could do with.
  size_t planned_size() const { return planned_size_; }
  size_t least_size() const { return least_size_; }

  // The tensor that the next run reads as input i; its bytes must stay until then.
  Status set_input(uint32_t i, const Tensor& tensor, Error& error);
  // Takes the sizes of free dimensions from the inputs that are set; all must be.
  Status fit_inputs(Error& error);
  // The next run needs other inputs: the bytes of these are the caller's again.
  void forget_inputs();
  // Runs every node. The inputs have been fitted.
  Status run(const RunOptions& options, Error& error);
  // Whether a run writes weights.
  bool updates() const;

 private:
  struct Place {
    char text[160];
  };
  Place place(uint32_t step) const;  // for error messages

  // The place of an id in `values_`; negative: a weight, or an input that is left out.
  int32_t value_of(int32_t id) const { return id < 0 ? -1 : id - static_cast<int32_t>(model_->weights()); }

  // entry.cc
  Status load_steps(const char* backend, Error& error);
  void gather(const Step& step);
  void bind(unsigned char* arena);
  Status check_inputs(Error& error) const;
  Status run_step(uint32_t number, const RunOptions& options);

  // entry_resize.cc
  Status make_blocks(Error& error);
  void find_lives();
  void lives_at(int32_t id, int32_t step);
  Status apply_sizes(Error& error);
  Status evaluate_shape(uint32_t value, Error& error);
  Status evaluate_attrs(uint32_t step, Error& error);
  Status check_step(uint32_t step, Error& error);
  Status measure(uint32_t step, Error& error);

  const Model* model_ = nullptr;
  const format::Entry* rows_ = nullptr;
  Tensor* weights_ = nullptr;

  Array<Tensor> values_;
  Array<int32_t> block_of_;  // value -> its block; -1: bytes of an input or a weight
  Array<int32_t> shown_;     // value -> the id whose bytes it shows under another shape; -1: no view
  Array<Tensor> given_;      // inputs of the next run; type none: not set
  Array<Step> steps_;
  Array<int32_t> attrs_;    // attribute structs, one behind the other
  Array<Tensor> in_, out_;  // of the step that is at work

  Sizes sizes_;
  bool ready_ = false;
  Array<Block> blocks_;
  Array<int64_t> changes_;
  Planner planner_;
  size_t planned_size_ = 0, least_size_ = 0;
};

}  // namespace lite
