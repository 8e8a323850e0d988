#pragma once

#include "exec/plan.h"
#include "exec/prepared.h"
#include "exec/region.h"
#include "exec/scalar.h"
#include "exec/sizes.h"
#include "kernels/kernels.h"

namespace lite {

class Routine;

// How a step is done.
enum class Action : uint8_t { view, kernel, scalar, push, pop, empty_tape, bind, cond, loop, call };

// One node, ready to run.
struct Step {
  Action action = Action::kernel;
  const OpInfo* op = nullptr;
  const Kernel* kernel = nullptr;
  Scalar scalar = nullptr;
  const int32_t* ids = nullptr;  // of inputs, then of results, in the model's pool
  int32_t given = 0;             // how many inputs the file gives
  int32_t inputs = 0;            // how many the kernel sees: optional ones at the end may be left out of the file
  int32_t results = 0;
  const int32_t* attr_words = nullptr;
  size_t attrs = 0;                // where its attributes start in the routine's
  const void* prepared = nullptr;  // what its kernel made of weights, or null
  int32_t scratch = -1;            // its block, or -1
  size_t scratch_at = 0;           // where that lies in a frame
  uint32_t first = 0;              // its first operand: inputs, then results
  uint32_t tensors = 0;            // the same among the tensors of a frame, for kernels
  uint32_t stage = 0;              // that begins behind it, or 0
  int32_t examples = 0;            // that it runs for one by one; 0: for whatever there is at once
  uint32_t back = 0;               // the last of those that do so together: how far before it the first is
  bool halves = false;             // its weight is read in float16, as it is stored
  int32_t cost = 1;                // about how long it takes, in scalar nodes
  Routine* inner[2] = {};          // then and otherwise; condition and body; body
  const Tensor* pushed = nullptr;  // what a step of a tape pushes or pops
  int64_t nanoseconds = 0;         // spent in it, and in what it runs, while profiling
  int64_t runs = 0;                // how often it ran while profiling
};

// 32-bit words of an operator's attribute struct: an `Ints` holds its count and kMaxRank numbers.
inline size_t struct_words(const OpInfo& op) {
  size_t words = 0;
  for (const char* kind = op.attrs; *kind != 0; ++kind) {
    words += *kind == 'I' ? 1 + kMaxRank : *kind == 'W' ? sizeof(WordList) / sizeof(int32_t) : 1;
  }
  return words;
}

// Operators whose result's elements each depend on those with the same number alone, where shapes are equal.
inline bool is_elementwise(int code) { return code >= code::add && code <= code::sign; }

// What a graph is run as, which decides where its outputs lie.
enum class Role : uint8_t {
  entry,      // outputs stay in its frame
  condition,  // the same
  branch,     // outputs are results of the step that runs it
  body,       // outputs replace its inputs, the state of a loop
};
constexpr int kRoles = 4;

// Where a step finds an operand in any frame.
struct Operand {
  enum Base : uint8_t { nothing, fixed, frame, input, output };
  Base base = nothing;
  uintptr_t value = 0;  // the address, the offset in the frame, or the number of the input or output
};

// The memory of one run of a routine.
struct Frame {
  // Memory of stages behind the first lies before it or behind it, at an offset around 2^64.
  unsigned char* from(uint64_t offset) const {
    return reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(bytes) + static_cast<uintptr_t>(offset));
  }

  Routine* routine;
  Frame* caller;    // null: the entry's own
  Frame* other;     // of a loop: condition's and body's
  Step* next;       // the step that is at work, or comes next
  int32_t example;  // of the batch, where steps run for one at a time
  void** at;        // addresses of all operands
  Tensor* tensors;  // operands of kernels
  unsigned char* bytes;
  void* const* inputs;        // addresses
  void* const* outputs;       // of a branch
  size_t staged;              // bytes of stages behind the first, of those that it is charged with
  Region::Mark stages;        // what to give back of those
  size_t counted;             // bytes of memory that it is charged with
  int64_t start;              // of a profile, in nanoseconds
  Region::Mark mark;          // what to give the region back
  Region::Mark tapes_before;  // what lay on tapes when it was made: a place, and its bytes
  size_t taped_before;
};

// Steps between two places where a run finds sizes: they are fitted when all sizes that they speak of are known, and
// have memory of their own.
struct Stage {
  uint32_t step = 0, value = 0, block = 0;  // its first ones
  bool is_fit = false, was_fit = false;
  uint64_t changes = 0;  // how often sizes had changed when it was fitted
  size_t planned_size = 0, least_size = 0;
  uint64_t offset = 0;  // of its memory, behind that of the frame, around 2^64
};

// One graph of a model in one role: its nodes with their kernels, and at the present sizes shapes, checks and a plan of
// a frame. After `load`, nothing here allocates, but that the first `fit` makes what kernels prepare.
class Routine {
 public:
  // `weights` are the tensors of ids below model.weights(); they and `prepared` outlive the routine. `backend` is an
  // instruction set, or null for the best that there is.
  Status load(const Model& model, uint32_t number, Role role, Tensor* weights, const char* backend, Prepared* prepared,
              Error& error);
  // Says where this graph stands, for error messages, and from which step it was first reached.
  void set_place(const Routine* outer, uint32_t step, const char* part);

  uint32_t number() const { return number_; }  // of its graph in the model
  uint32_t index() const { return index_; }    // among the entry's routines
  void set_index(uint32_t index) { index_ = index; }
  Role role() const { return role_; }
  // Whether a result is a tape, so that what was pushed while it ran may be read later.
  bool gives_tape() const { return gives_tape_; }
  const format::Entry& rows() const { return *rows_; }
  uint32_t inputs() const { return length(rows_->inputs()); }
  uint32_t outputs() const { return length(rows_->outputs()); }
  uint32_t output_id(uint32_t i) const { return rows_->outputs()->Get(i); }
  const int32_t* output_ids() const {
    return outputs() > 0 ? reinterpret_cast<const int32_t*>(rows_->outputs()->data()) : nullptr;
  }
  uint32_t values() const { return static_cast<uint32_t>(values_.size()); }
  // The tensor with this id at the present sizes: a weight, an input or a result.
  const Tensor& tensor(uint32_t id) const {
    return id < model_->weights() ? weights_[id] : values_[id - model_->weights()];
  }
  const Tensor& input(uint32_t i) const { return values_[i]; }
  const Tensor& output(uint32_t i) const { return tensor(output_id(i)); }
  const char* value_name(uint32_t id) const;
  // Where the words of its shape stand in the pool.
  const int32_t* shape_words(uint32_t id) const;

  Array<Step>& steps() { return steps_; }
  const Array<Step>& steps() const { return steps_; }
  Step* end() { return steps_.end(); }
  const Step* end() const { return steps_.end(); }
  int64_t step_count() const { return static_cast<int64_t>(steps_.size()); }
  const void* attrs(const Step& step) const { return attrs_.data() + step.attrs; }
  const char* name() const { return model_->name(rows_->name()); }  // "": a sub-graph
  const char* source(uint32_t step) const;
  const char* part() const { return part_; }

  // In this order, when sizes change: shapes of all inputs and outputs, then a stage. On an error it may not be run.
  Status evaluate_face(const Sizes& sizes, Error& error);
  Status fit(uint32_t stage, const Sizes& sizes, Error& error);
  bool is_fit(uint32_t stage, const Sizes& sizes) const {
    return stages_[stage].is_fit && stages_[stage].changes == sizes.changes();
  }
  void forget_fit() {
    for (Stage& stage : stages_) stage.is_fit = false;
  }

  // Bytes of results and scratch, the fewest that any plan could do with; of stages that are fitted.
  size_t planned_size() const;
  size_t least_size() const;
  size_t planned_size(uint32_t stage) const { return stages_[stage].planned_size; }
  // Bytes of a frame with its first stage, and of the memory that another stage wants.
  size_t frame_size() const { return frame_size_; }
  size_t stage_size(uint32_t stage) const { return Region::round_up(planned_size(stage) + Arena::kAlignment); }
  size_t scratch_size(const Step& step) const {
    return step.scratch < 0 ? 0 : blocks_[static_cast<size_t>(step.scratch)].size;
  }
  int64_t cost() const { return cost_; }

  // Makes a frame of `frame_size()` bytes of memory. `inputs` and `outputs` are addresses.
  Frame* bind(unsigned char* memory, void* const* inputs, void* const* outputs);
  // Lays another stage into `stage_size` bytes of memory.
  void bind_stage(uint32_t stage, unsigned char* memory, Frame* frame);
  // Moves outputs that do not lie there yet to where they belong.
  void deliver(const Frame& frame, void* const* to) const;
  // Moves the steps that end with this one to their next example; false: to the first again.
  bool next_example(const Step& last, Frame* frame) const;
  void* const* output_addresses(const Frame& frame) const { return frame.at + first_output_; }
  // Sets the addresses of all values, for those who look at them by their ids.
  void show(const Frame& frame, void* const* inputs);

  struct Place {
    char text[200];
  };
  // `outer`: the step of the entry that is at work, where that is known.
  Place place(uint32_t step, const Step* outer = nullptr) const;

 private:
  // The place of an id in `values_`; negative: a weight, or an input that is left out.
  int32_t value_of(int32_t id) const { return id < 0 ? -1 : id - static_cast<int32_t>(model_->weights()); }
  bool is_input(int32_t value) const { return value >= 0 && value < static_cast<int32_t>(inputs()); }
  const char* entry_name() const;

  // routine.cc
  Status load_steps(const char* backend, Error& error);
  void keep_halves();
  Status make_stages(Error& error);
  void gather(const Step& step);
  Operand operand(int32_t id) const;
  void find_operands(uint32_t stage);
  void find_addresses(uint32_t stage, Frame* frame);
  bool is_last(uint32_t stage) const { return stage + 2 == stages_.size(); }

  // routine_blocks.cc: what does not depend on sizes, but for lives that the next file makes longer
  Status make_blocks(Error& error);
  void find_last_reads();
  void assign_blocks();
  int32_t reused_block(uint32_t step, int32_t result) const;
  bool may_overwrite(uint32_t step, int32_t input, int32_t result) const;
  bool same_words(int32_t a, int32_t b) const;
  int32_t root_of(int32_t id) const;
  void find_lives();
  void lives_at(int32_t id, int32_t step);
  void place_outputs();
  bool replaces_state(uint32_t output, int32_t block) const;

  // routine_examples.cc: steps that run for one example at a time
  void find_examples(const Stage& stage, const Stage& next);
  int32_t examples_of(const Step& step) const;
  bool suits_examples(const Step& step) const;
  bool is_large(const Step& step) const;
  void run_by_example(uint32_t first, uint32_t last, int32_t examples);
  bool is_whole(int32_t id) const;
  Tensor seen(const Step& step, int32_t id) const;

  // routine_fit.cc: what else depends on sizes
  Status evaluate_shape(const Sizes& sizes, uint32_t value, Error& error);
  Status evaluate_attrs(const Sizes& sizes, uint32_t step, Error& error);
  Status check_step(uint32_t step, Error& error);
  bool check_operator(const Step& step);
  void prepare(uint32_t step, bool may_make);
  bool check_control(const Step& step) const;
  bool runs_on(const Routine& inner, const Step& step, int32_t skipped, bool gives_all) const;
  Status measure(uint32_t step, Error& error);
  Status lay_out(uint32_t stage, Error& error);

  const Model* model_ = nullptr;
  const format::Entry* rows_ = nullptr;
  Tensor* weights_ = nullptr;
  uint32_t number_ = 0, index_ = 0;
  Role role_ = Role::entry;
  bool gives_tape_ = false;
  const Routine* outer_ = nullptr;
  uint32_t outer_step_ = 0;
  const char* part_ = "";

  Array<Tensor> values_;
  Array<int32_t> shown_;      // value -> the id whose bytes it shows under another shape; -1: no view
  Array<int32_t> last_read_;  // value -> the last step that reads it or a view of it
  Array<int32_t> block_of_;   // value -> its block; -1: bytes of an input or a weight
  Array<int32_t> whole_;      // block -> how many of its values have memory for all examples
  Array<Step> steps_;
  Array<int32_t> attrs_;    // attribute structs, one behind the other
  Array<Tensor> in_, out_;  // of the step that is looked at
  Array<Operand> operands_;
  uint32_t first_output_ = 0;  // the operands of outputs stand behind all others
  uint32_t tensor_count_ = 0;

  struct Copy {
    uint32_t output = 0;
    int32_t staged = -1;  // the block that it waits in while other state is replaced; -1: none
  };
  Array<Copy> copies_;  // outputs that are not computed where they belong
  uint32_t copy_count_ = 0;
  Array<Operand> home_;  // block -> where it lies, if not in the frame

  Array<Block> blocks_;
  Array<int64_t> changes_;
  Planner planner_;
  Prepared* prepared_ = nullptr;
  Array<Stage> stages_;  // and one behind the last
  size_t frame_size_ = 0;
  int64_t cost_ = 0;
};

}  // namespace lite
