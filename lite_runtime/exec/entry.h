#pragma once

#include "exec/machine.h"

namespace lite {

// An entry point of a model: its graph and every graph that this one runs, the sizes of its free dimensions, and its
// inputs. After `load`, nothing here allocates.
class Entry {
 public:
  Entry() = default;
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry();

  // `weights` are the tensors of ids below model.weights(); they and `prepared` outlive the entry. `backend` is an
  // instruction set, or null for the best that there is.
  Status load(const Model& model, uint32_t number, Tensor* weights, const char* backend, Prepared* prepared,
              Error& error);

  const char* name() const { return main_->name(); }
  uint32_t inputs() const { return main_->inputs(); }
  uint32_t outputs() const { return main_->outputs(); }
  const char* input_name(uint32_t i) const { return main_->value_name(model_->weights() + i); }
  const char* output_name(uint32_t i) const { return model_->name(main_->rows().output_names()->Get(i)); }
  uint32_t output_id(uint32_t i) const { return main_->output_id(i); }
  const int32_t* output_ids() const { return main_->output_ids(); }

  // The graphs: the entry's own first, then those that it runs, one in each role that it has. Bytes of results are
  // there after a run, but only those of the entry's outputs are still whole.
  uint32_t graphs() const { return count_; }
  Routine& graph(uint32_t number) { return *routines_[number]; }
  const Routine& graph(uint32_t number) const { return *routines_[number]; }
  const Tensor& tensor(uint32_t id) const { return main_->tensor(id); }
  const int32_t* shape_words(uint32_t id) const { return main_->shape_words(id); }
  void forget_times();

  // Sizes of free dimensions: changes take effect, or all fail, in `resize`. Before the first one, results have no
  // shapes and there is no plan.
  Sizes& sizes() { return sizes_; }
  const Sizes& sizes() const { return sizes_; }
  Status resize(Error& error);
  bool ready() const { return ready_; }

  // Bytes that a run wants for results and scratch, where no graph runs inside of itself, and the fewest that any plan
  // could do with.
  size_t planned_size() const { return planned_size_; }
  size_t least_size() const { return least_size_; }
  // Bytes that the last run took at most, tapes and recursion included; 0 before the first one.
  size_t peak_size() const { return peak_size_; }

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
  Status reach(const char* backend, uint32_t number, Role role, Routine** routine, Error& error);
  Status link(Routine& routine, const char* backend, Error& error);
  Status check_inputs(Error& error) const;
  Status apply_sizes(Error& error);
  void find_bound();
  void order_graphs();
  void find_needs();

  const Model* model_ = nullptr;
  Tensor* weights_ = nullptr;
  Prepared* prepared_ = nullptr;
  Routine* main_ = nullptr;
  Array<Routine*> routines_;   // in the order in which they were reached
  Array<Routine*> by_number_;  // graph and role -> its routine, or null
  uint32_t count_ = 0;
  Array<uint64_t> needs_;  // of a routine with those that it runs
  Array<size_t> least_;
  Array<uint32_t> order_, rank_;  // routines behind those that they run, and where each stands there

  struct Visit {
    uint32_t routine, step;
  };
  Array<Visit> path_;  // on the way to the graph that is looked at

  Array<Tensor> given_;  // inputs of the next run; type none: not set
  Array<void*> addresses_;
  Sizes sizes_;
  bool ready_ = false;
  size_t planned_size_ = 0, least_size_ = 0, peak_size_ = 0;
};

}  // namespace lite
