// An entry: finds the graphs that it runs, takes inputs and sizes, runs.

#include "exec/entry.h"

#include <algorithm>

#include "core/memory.h"
#include "core/probe.h"

namespace lite {
namespace {

constexpr uint32_t kUnseen = UINT32_MAX, kOpen = UINT32_MAX - 1;

struct Part {
  Role role;
  const char* name;
};

// What a step of control flow runs, in the order of its attributes.
int parts_of(const Step& step, Part parts[2]) {
  switch (step.action) {
    case Action::cond:
      parts[0] = {Role::branch, "then"};
      parts[1] = {Role::branch, "otherwise"};
      return 2;
    case Action::loop:
      parts[0] = {Role::condition, "condition"};
      parts[1] = {Role::body, "body"};
      return 2;
    case Action::call:
      parts[0] = {Role::branch, "body"};
      return 1;
    default:
      return 0;
  }
}

}  // namespace

Entry::~Entry() {
  for (uint32_t i = 0; i < count_; ++i) destroy(routines_[i]);
}

Status Entry::load(const Model& model, uint32_t number, Tensor* weights, const char* backend, Prepared* prepared,
                   Error& error) {
  model_ = &model;
  weights_ = weights;
  prepared_ = prepared;
  const size_t most = size_t{kRoles} * model.entries();
  if (!routines_.allocate(most) || !by_number_.allocate(most)) {
    return error.set(Status::kOutOfMemory, "no memory for an entry");
  }
  LITE_TRY(reach(backend, number, Role::entry, &main_, error));
  LITE_TRY(sizes_.load(model, error));
  for (uint32_t i = 0; i < count_; ++i) LITE_TRY(link(*routines_[i], backend, error));
  if (!given_.allocate(inputs()) || !addresses_.allocate(inputs()) || !needs_.allocate(count_) ||
      !least_.allocate(count_) || !path_.allocate(count_) || !order_.allocate(count_) || !rank_.allocate(count_)) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for its inputs", name());
  }
  order_graphs();
  find_bound();
  return Status::kOk;
}

// Which free dimensions get their sizes from a run. Graphs inside are then fitted when they are entered.
void Entry::find_bound() {
  for (uint32_t i = 0; i < count_; ++i) {
    for (const Step& step : routines_[i]->steps()) {
      for (int32_t k = 1; step.action == Action::bind && k <= step.attr_words[0]; ++k) {
        sizes_.add_bound(static_cast<uint32_t>(lone_symbol(model_->expression(expression_of(step.attr_words[k])))));
      }
    }
  }
  sizes_.forget_bound();
}

Status Entry::reach(const char* backend, uint32_t number, Role role, Routine** routine, Error& error) {
  Routine*& known = by_number_[size_t{kRoles} * number + static_cast<size_t>(role)];
  if (known == nullptr) {
    known = create<Routine>();
    if (known == nullptr) return error.set(Status::kOutOfMemory, "no memory for a graph");
    routines_[count_] = known;
    known->set_index(count_++);
    LITE_TRY(known->load(*model_, number, role, weights_, backend, prepared_, error));
  }
  *routine = known;
  return Status::kOk;
}

// Finds the graphs that a routine's steps run.
Status Entry::link(Routine& routine, const char* backend, Error& error) {
  for (Step& step : routine.steps()) {
    Part parts[2];
    const int count = parts_of(step, parts);
    for (int k = 0; k < count; ++k) {
      const uint32_t before = count_;
      LITE_TRY(reach(backend, static_cast<uint32_t>(step.attr_words[k]), parts[k].role, &step.inner[k], error));
      if (count_ > before) {
        step.inner[k]->set_place(&routine, static_cast<uint32_t>(&step - routine.steps().begin()), parts[k].name);
      }
    }
  }
  return Status::kOk;
}

void Entry::forget_times() {
  for (uint32_t i = 0; i < count_; ++i) {
    for (Step& step : routines_[i]->steps()) step.nanoseconds = step.runs = 0;
  }
}

Status Entry::resize(Error& error) {
  const Status status = apply_sizes(error);
  if (status == Status::kOk) {
    sizes_.keep();
    ready_ = true;
    return status;
  }
  sizes_.restore();
  Error none;  // the sizes that were good before are good again
  if (ready_) ready_ = apply_sizes(none) == Status::kOk;
  return status;
}

Status Entry::apply_sizes(Error& error) {
  sizes_.forget_bound();
  for (uint32_t i = 0; i < count_; ++i) routines_[i]->forget_fit();
  const uint32_t fitted = sizes_.any_bound() ? 1 : count_;
  for (uint32_t i = 0; i < fitted; ++i) LITE_TRY(routines_[i]->fit(0, sizes_, error));
  find_needs();
  LITE_PROBE3("plan", name(), uint64_t{planned_size_}, uint64_t{least_size_});
  return Status::kOk;
}

// The graphs in an order in which each stands behind those that it runs, but for those that run inside of themselves.
// Depth first, without recursion on this thread: a file says how deep graphs stand in each other.
void Entry::order_graphs() {
  uint32_t depth = 1, next = 0;
  for (uint32_t& rank : rank_) rank = kUnseen;
  path_[0] = {0, 0};
  rank_[0] = kOpen;
  while (depth > 0) {
    auto& [number, at] = path_[depth - 1];
    const Array<Step>& steps = routines_[number]->steps();
    const Routine* unseen = nullptr;
    for (; at < steps.size() && unseen == nullptr; at += unseen == nullptr) {
      for (const Routine* inner : steps[at].inner) {
        if (inner != nullptr && rank_[inner->index()] == kUnseen) unseen = inner;
      }
    }
    if (unseen != nullptr) {
      rank_[unseen->index()] = kOpen;
      path_[depth++] = {unseen->index(), 0};
    } else {
      order_[next] = number;
      rank_[number] = next++;
      --depth;
    }
  }
}

// What a run of each graph wants, with those that it runs. One that runs inside of itself counts once.
void Entry::find_needs() {
  for (uint32_t i : order_) {
    Routine& routine = *routines_[i];
    uint64_t most = 0;
    size_t most_least = 0;
    for (const Step& step : routine.steps()) {
      uint64_t own = 0;
      for (const Routine* inner : step.inner) {
        if (inner == nullptr || rank_[inner->index()] >= rank_[i]) continue;
        const uint64_t size = inner->frame_size() - inner->planned_size(0) + needs_[inner->index()];
        own = step.action == Action::loop ? own + size : std::max(own, size);
        most_least = std::max(most_least, least_[inner->index()]);
      }
      most = std::max(most, own);
    }
    needs_[i] = routine.planned_size() + most;
    least_[i] = std::max(routine.least_size(), most_least);
  }
  planned_size_ = static_cast<size_t>(std::min<uint64_t>(needs_[0], SIZE_MAX));
  least_size_ = least_[0];
}

Status Entry::set_input(uint32_t i, const Tensor& tensor, Error& error) {
  const Tensor& wanted = main_->input(i);
  if (tensor.dtype != wanted.dtype) {
    return error.set(Status::kBadArgument, "input %.60s: element type %s, want %s", input_name(i),
                     name_of(tensor.dtype), name_of(wanted.dtype));
  }
  const int32_t* words = shape_words(model_->weights() + i);
  if (tensor.rank() != wanted.rank()) {
    return error.set(Status::kBadArgument, "input %.60s: shape %s, want %s", input_name(i),
                     ShapeText(tensor.shape).text, ShapeText(*model_, words, wanted.rank()).text);
  }
  if (reinterpret_cast<uintptr_t>(tensor.data) % size_of(tensor.dtype) != 0) {
    return error.set(Status::kBadArgument, "input %.60s: its address is not a multiple of the element size %zu",
                     input_name(i), size_of(tensor.dtype));
  }
  if (!are_bools(tensor)) return error.set(Status::kBadArgument, "input %.60s: want bytes of 0 or 1", input_name(i));
  given_[i] = tensor;
  return Status::kOk;
}

Status Entry::fit_inputs(Error& error) {
  for (uint32_t i = 0; i < inputs(); ++i) {
    if (!given_[i].present()) {
      return error.set(Status::kBadArgument, "entry %.60s: input %.60s is not set", name(), input_name(i));
    }
    const Status status = sizes_.unify(shape_words(model_->weights() + i), given_[i].shape, input_name(i), error);
    if (status != Status::kOk) {
      sizes_.restore();
      return status;
    }
  }
  if (!ready_ || sizes_.changed()) LITE_TRY(resize(error));
  for (uint32_t i = 0; i < inputs(); ++i) {
    const Tensor& input = main_->input(i);
    if (given_[i].shape == input.shape) continue;
    const ShapeText named(*model_, shape_words(model_->weights() + i), input.rank());
    return error.set(Status::kBadArgument, "input %.60s: shape %s, want %s (%s)", input_name(i),
                     ShapeText(given_[i].shape).text, ShapeText(input.shape).text, named.text);
  }
  return Status::kOk;
}

void Entry::forget_inputs() {
  for (Tensor& input : given_) input = Tensor();
}

Status Entry::run(const RunOptions& options, Error& error) {
  if (options.check_finite) LITE_TRY(check_inputs(error));
  for (uint32_t i = 0; i < inputs(); ++i) addresses_[i] = given_[i].data;
  Machine machine(options, sizes_);
  const Status status = machine.run(*main_, addresses_.data(), error);
  peak_size_ = machine.peak_size();
  if (sizes_.any_bound()) find_needs();
  return status;
}

Status Entry::check_inputs(Error& error) const {
  for (uint32_t i = 0; i < inputs(); ++i) {
    if (is_finite(given_[i])) continue;
    return error.set(Status::kNotFinite, "input %.60s: NaN or infinite; want finite numbers", input_name(i));
  }
  return Status::kOk;
}

bool Entry::updates() const {
  const Array<Step>& steps = main_->steps();
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.op->updates > 0; });
}

}  // namespace lite
