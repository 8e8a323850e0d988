// An entry: finds kernels for its nodes, takes inputs, runs. What depends on sizes is in entry_resize.cc.

#include "exec/entry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace lite {
namespace {

// Words of an operator's attribute struct: an `Ints` holds its count and kMaxRank numbers.
size_t struct_words(const OpInfo& op) {
  size_t words = 0;
  for (const char* kind = op.attrs; *kind != 0; ++kind) words += *kind == 'I' ? 1 + kMaxRank : 1;
  return words;
}

template <typename T>
bool all_finite(const Tensor& tensor) {
  const T* x = tensor.as<T>();
  const int64_t n = tensor.elements();
  return std::all_of(x, x + n, [](T v) { return std::isfinite(v); });
}

bool is_finite(const Tensor& tensor) {
  if (tensor.dtype == DType::f32) return all_finite<float>(tensor);
  return tensor.dtype != DType::f64 || all_finite<double>(tensor);
}

const char* reason_of(Status status) {
  switch (status) {
    case Status::kBadIndex:
      return "an index or a label is out of range";
    case Status::kNotFinite:
      return "a result is NaN or infinite";
    case Status::kBadArgument:
      return "its inputs do not fit";
    default:
      return "it failed";
  }
}

}  // namespace

Status Entry::load(const Model& model, uint32_t number, Tensor* weights, const char* backend, Error& error) {
  model_ = &model;
  rows_ = &model.entry(number);
  weights_ = weights;
  const uint32_t values = length(rows_->values());
  if (!values_.allocate(values) || !block_of_.allocate(values) || !shown_.allocate(values) ||
      !given_.allocate(inputs())) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for %u values", name(), values);
  }
  for (uint32_t i = 0; i < values; ++i) {
    const format::Value& value = *rows_->values()->Get(i);
    values_[i].dtype = static_cast<DType>(value.dtype());
    values_[i].shape.size = value.rank();
  }
  LITE_TRY(sizes_.load(model, error));
  LITE_TRY(load_steps(backend, error));
  return make_blocks(error);
}

Status Entry::load_steps(const char* backend, Error& error) {
  const uint32_t count = length(rows_->nodes());
  if (!steps_.allocate(count)) return error.set(Status::kOutOfMemory, "entry %.60s: no memory for its nodes", name());
  size_t attr_words = 0, most_inputs = 0, most_results = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const format::Node& node = *rows_->nodes()->Get(i);
    Step& step = steps_[i];
    step.op = find_op(node.op());
    step.ids = model_->pool(node.ids());
    step.given = node.inputs();
    step.inputs = std::max<int32_t>(step.given, step.op->most_inputs);
    step.attr_words = model_->pool(node.attrs());
    step.attrs = attr_words;
    attr_words += struct_words(*step.op);
    most_inputs = std::max(most_inputs, static_cast<size_t>(step.inputs));
    most_results = std::max(most_results, static_cast<size_t>(node.outputs()));

    const bool first_given = step.given > 0 && step.ids[0] >= 0;
    const DType dtype = first_given ? tensor(step.ids[0]).dtype : DType::none;
    step.kernel = find_kernel(step.op->code, dtype, backend);
    if (step.kernel == nullptr) step.kernel = find_kernel(step.op->code, dtype, "ref");
  }
  if (!attrs_.allocate(attr_words) || !in_.allocate(most_inputs) || !out_.allocate(most_results)) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for its nodes", name());
  }
  return Status::kOk;
}

const char* Entry::value_name(uint32_t id) const {
  if (id < model_->weights()) return model_->name(model_->weight(id).name());
  const uint32_t i = id - model_->weights();
  return i < length(rows_->value_names()) ? model_->name(rows_->value_names()->Get(i)) : "";
}

const int32_t* Entry::shape_words(uint32_t id) const {
  if (id < model_->weights()) return model_->pool(model_->weight(id).shape());
  return model_->pool(rows_->values()->Get(id - model_->weights())->shape());
}

const char* Entry::source(uint32_t step) const {
  return length(rows_->sources()) > 0 ? model_->name(rows_->sources()->Get(step)) : "";
}

Entry::Place Entry::place(uint32_t step) const {
  Place place;
  const char* from = source(step);
  std::snprintf(place.text, sizeof place.text, "entry %.40s, node %u (%s%s%.60s)", name(), step, steps_[step].op->name,
                *from != 0 ? " at " : "", from);
  return place;
}

void Entry::forget_times() {
  for (Step& step : steps_) step.nanoseconds = 0;
}

Status Entry::set_input(uint32_t i, const Tensor& tensor, Error& error) {
  const Tensor& wanted = values_[i];
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
    if (given_[i].shape == values_[i].shape) continue;
    const ShapeText named(*model_, shape_words(model_->weights() + i), values_[i].rank());
    return error.set(Status::kBadArgument, "input %.60s: shape %s, want %s (%s)", input_name(i),
                     ShapeText(given_[i].shape).text, ShapeText(values_[i].shape).text, named.text);
  }
  return Status::kOk;
}

void Entry::forget_inputs() {
  for (Tensor& input : given_) input = Tensor();
}

// Gives every value its bytes: those of an input, of the value that it is a view of, or its part of the arena.
void Entry::bind(unsigned char* arena) {
  for (uint32_t i = 0; i < values_.size(); ++i) {
    if (i < inputs()) {
      values_[i].data = given_[i].data;
    } else if (shown_[i] >= 0) {
      values_[i].data = tensor(shown_[i]).data;
    } else {
      values_[i].data = arena + blocks_[block_of_[i]].offset;
    }
  }
}

void Entry::gather(const Step& step) {
  for (int32_t k = 0; k < step.inputs; ++k) {
    const bool left_out = k >= step.given || step.ids[k] < 0;
    in_[k] = left_out ? Tensor() : tensor(step.ids[k]);
  }
  for (int32_t k = 0; k < step.op->results; ++k) {
    out_[k] = tensor(step.ids[step.given + k]);
  }
}

Status Entry::run(const RunOptions& options, Error& error) {
  bind(options.arena);
  if (options.check_finite) LITE_TRY(check_inputs(error));
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const Status status = run_step(i, options);
    if (status != Status::kOk) return error.set(status, "%s: %s", place(i).text, reason_of(status));
  }
  return Status::kOk;
}

Status Entry::check_inputs(Error& error) const {
  for (uint32_t i = 0; i < inputs(); ++i) {
    if (is_finite(given_[i])) continue;
    return error.set(Status::kNotFinite, "input %.60s: NaN or infinite; want finite numbers", input_name(i));
  }
  return Status::kOk;
}

bool Entry::updates() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.op->updates > 0; });
}

Status Entry::run_step(uint32_t number, const RunOptions& options) {
  Step& step = steps_[number];
  if (step.op->view) return Status::kOk;  // its result shares the bytes of its input
  gather(step);
  Context context;
  context.pool = options.pool;
  if (step.scratch >= 0) context.scratch = options.arena + blocks_[step.scratch].offset;

  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = options.profile ? Clock::now() : Clock::time_point();
  LITE_TRY(step.kernel->run(in_.data(), step.inputs, out_.data(), attrs_.data() + step.attrs, context));
  if (options.profile) {
    step.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }
  if (!options.check_finite) return Status::kOk;
  const bool finite = std::all_of(out_.begin(), out_.begin() + step.op->results, is_finite);
  return finite ? Status::kOk : Status::kNotFinite;
}

}  // namespace lite
