// What depends on the sizes of free dimensions: shapes, attributes, checks, and the plan of a frame.

#include <algorithm>
#include <cstring>

#include "exec/routine.h"
#include "kernels/layer_inputs.h"

namespace lite {
namespace {

// Of one tensor, and of a frame: where addresses have 32 bits, sums of sizes must not go around.
constexpr uint64_t kMostBytes = SIZE_MAX / 2;
constexpr uint64_t kMostScratch = std::min(uint64_t{1} << 40, kMostBytes);  // of one kernel
constexpr int64_t kElementsPerCost = 64;  // what a kernel does in the time of a scalar node, roughly

bool same_type(const Tensor& a, const Tensor& b) { return a.dtype == b.dtype && a.shape == b.shape; }

bool is_truth(const Tensor& t) { return t.dtype == DType::boolean && t.rank() == 0; }

bool is_tape(const Tensor& t) { return t.dtype == DType::tape && t.rank() == 0; }

}  // namespace

Status Routine::evaluate_face(const Sizes& sizes, Error& error) {
  for (uint32_t i = 0; i < inputs(); ++i) LITE_TRY(evaluate_shape(sizes, i, error));
  for (uint32_t i = 0; i < outputs(); ++i) {
    const int32_t value = value_of(static_cast<int32_t>(output_id(i)));
    if (value >= 0) LITE_TRY(evaluate_shape(sizes, static_cast<uint32_t>(value), error));
  }
  return Status::kOk;
}

Status Routine::evaluate_shape(const Sizes& sizes, uint32_t value, Error& error) {
  const int32_t* words = shape_words(model_->weights() + value);
  Ints& shape = values_[value].shape;
  int64_t elements = 1;  // as if no size were 0, so that a part of the sizes cannot overflow either
  for (int i = 0; i < shape.size; ++i) {
    int32_t size = -1;
    const bool good = sizes.word(words[i], &size) && size >= 0;
    if (good && (elements *= std::max(size, 1)) <= kMaxElements) {
      shape.data[i] = size;
      continue;
    }
    return error.set(Status::kBadArgument,
                     "entry %.60s, value %u of shape %s: size %d is %d; want less than 2^31 elements", entry_name(),
                     value, ShapeText(*model_, words, shape.size).text, i, size);
  }
  if (static_cast<uint64_t>(elements) * size_of(values_[value].dtype) <= kMostBytes) return Status::kOk;
  return error.set(Status::kOutOfMemory,
                   "entry %.60s, value %u of shape %s: more than the %llu bytes of memory there can be", entry_name(),
                   value, ShapeText(shape).text, static_cast<unsigned long long>(kMostBytes));
}

Status Routine::fit(uint32_t number, const Sizes& sizes, Error& error) {
  Stage& stage = stages_[number];
  const Stage& next = stages_[number + 1];
  stage.is_fit = false;
  for (uint32_t i = number > 0 ? stage.value : 0; i < next.value; ++i) LITE_TRY(evaluate_shape(sizes, i, error));
  find_examples(stage, next);
  for (uint32_t i = stage.step; i < next.step; ++i) {
    for (Routine* inner : steps_[i].inner) {
      if (inner != nullptr) LITE_TRY(inner->evaluate_face(sizes, error));
    }
    if (steps_[i].action != Action::bind) LITE_TRY(evaluate_attrs(sizes, i, error));
    LITE_TRY(check_step(i, error));
    prepare(i, !stage.was_fit);
    LITE_TRY(measure(i, error));
  }
  LITE_TRY(lay_out(number, error));
  cost_ = 1;
  for (const Step& step : steps_) cost_ += step.cost;
  stage.is_fit = stage.was_fit = true;
  stage.changes = sizes.changes();
  return Status::kOk;
}

size_t Routine::planned_size() const {
  size_t sum = 0;
  for (const Stage& stage : stages_) sum += stage.planned_size;
  return sum;
}

size_t Routine::least_size() const {
  size_t sum = 0;
  for (const Stage& stage : stages_) sum += stage.least_size;
  return sum;
}

// Fills the operator's attribute struct, word by word (core/attrs.h).
Status Routine::evaluate_attrs(const Sizes& sizes, uint32_t number, Error& error) {
  const Step& step = steps_[number];
  const int32_t* from = step.attr_words;
  int32_t* to = attrs_.data() + step.attrs;
  bool good = true;
  for (const char* kind = step.op->attrs; *kind != 0; ++kind) {
    if (*kind == 'i') {
      good = good && sizes.word(*from++, to++);
    } else if (*kind == 'I') {
      Ints ints;
      ints.size = *from++;
      for (int k = 0; k < ints.size; ++k) good = good && sizes.word(from[k], &ints.data[k]);
      from += ints.size;
      std::memcpy(to, &ints, sizeof ints);
      to += sizeof ints / sizeof *to;
    } else if (*kind == 'W') {
      WordList words;
      words.set(from + 1, *from);
      from += 1 + words.size;
      std::memcpy(to, &words, sizeof words);
      to += sizeof words / sizeof *to;
    } else {
      *to++ = *from++;
    }
  }
  if (good) return Status::kOk;
  return error.set(Status::kBadArgument, "%s: an attribute has no value at these sizes", place(number).text);
}

Status Routine::check_step(uint32_t number, Error& error) {
  Step& step = steps_[number];
  gather(step);
  bool good = true;
  if (step.action == Action::kernel || step.action == Action::scalar) {
    if (step.kernel == nullptr) {
      return error.set(Status::kNoKernel, "%s: no kernel in this build for its first input's element type %s",
                       place(number).text, name_of(step.inputs > 0 ? in_[0].dtype : DType::none));
    }
    good = check_operator(step);
  } else if (step.action == Action::view) {
    good = check_operator(step) && in_[0].size_bytes() == out_[0].size_bytes();
  } else {
    good = check_control(step);
  }
  if (good) return Status::kOk;
  char shapes[160] = "";
  const auto append = [&](const char* text) { std::strncat(shapes, text, sizeof shapes - std::strlen(shapes) - 1); };
  for (int32_t k = 0; k < step.inputs; ++k) {
    if (in_[k].present()) append(ShapeText(in_[k].shape).text);
    if (!in_[k].present()) append("-");
  }
  append(" -> ");
  if (step.results > 0) append(ShapeText(out_[0].shape).text);
  return error.set(Status::kBadFile, "%s: shapes, types or attributes do not fit: %s", place(number).text, shapes);
}

// The operator's own check, which knows nothing of float32 that is kept in float16.
bool Routine::check_operator(const Step& step) {
  const bool kept = step.action == Action::view && step.op->code == code::decompress;
  Tensor* half = kept ? &out_[0] : step.halves ? &in_[first_weight(step.op->code)] : nullptr;
  if (half != nullptr) half->dtype = DType::f32;
  const bool good = check_call(step.op->code, in_.data(), step.inputs, out_.data(), attrs_.data() + step.attrs);
  if (half != nullptr) half->dtype = DType::f16;
  return good;
}

// Whether a graph takes the inputs of the step that is gathered, but for the first `skipped`, and gives its results.
bool Routine::runs_on(const Routine& inner, const Step& step, int32_t skipped, bool gives_all) const {
  if (static_cast<int32_t>(inner.inputs()) != step.given - skipped) return false;
  for (uint32_t i = 0; i < inner.inputs(); ++i) {
    if (!same_type(inner.input(i), in_[static_cast<size_t>(skipped) + i])) return false;
  }
  if (!gives_all) return inner.outputs() == 1 && is_truth(inner.output(0));
  if (static_cast<int32_t>(inner.outputs()) != step.results) return false;
  for (uint32_t i = 0; i < inner.outputs(); ++i) {
    if (!same_type(inner.output(i), out_[i])) return false;
  }
  return true;
}

bool Routine::check_control(const Step& step) const {
  for (int32_t k = 0; k < step.given; ++k) {
    if (!in_[k].present()) return false;
  }
  switch (step.action) {
    case Action::cond:
      return step.given > 0 && is_truth(in_[0]) && runs_on(*step.inner[0], step, 1, true) &&
             runs_on(*step.inner[1], step, 1, true);
    case Action::loop:
      if (step.given != step.results) return false;
      for (int32_t k = 0; k < step.given; ++k) {
        if (!same_type(in_[k], out_[k])) return false;
      }
      return runs_on(*step.inner[0], step, 0, false) && runs_on(*step.inner[1], step, 0, true);
    case Action::call:
      return runs_on(*step.inner[0], step, 0, true);
    case Action::empty_tape:
      return step.given == 0 && step.results == 1 && is_tape(out_[0]);
    case Action::bind:
      return step.given == 1 && step.results == 1 && in_[0].dtype == DType::i32 && in_[0].rank() == 1 &&
             in_[0].shape[0] == step.attr_words[0] && same_type(in_[0], out_[0]);
    case Action::push:
      return step.given == 2 && step.results == 1 && is_tape(in_[0]) && in_[1].dtype != DType::tape && is_tape(out_[0]);
    case Action::pop:
      return step.given == 1 && step.results == 2 && is_tape(in_[0]) && is_tape(out_[0]) &&
             out_[1].dtype != DType::tape;
    default:
      return false;
  }
}

// Finds what its kernel makes of weights, where all inputs from the first weight on never change or are left
// out, or of attributes. These may follow the sizes: only those of the first fit are prepared for.
void Routine::prepare(uint32_t number, bool may_make) {
  Step& step = steps_[number];  // check_step has gathered its tensors
  if (step.action != Action::kernel || step.kernel->prepare == nullptr) return;
  const void* attrs = attrs_.data() + step.attrs;
  const size_t attrs_size = struct_words(*step.op) * sizeof(int32_t);
  if (step.kernel->of_attrs) {
    step.prepared = prepared_->find_of_attrs(*step.kernel, in_.data(), out_.data(), attrs, attrs_size, may_make);
    return;
  }
  const int32_t first = first_weight(step.op->code);
  const auto stored = [&](const Step& of, int32_t k) {
    return of.halves && k == first ? root_of(of.ids[k]) : of.ids[k];
  };
  if (step.given <= first) return;
  for (int32_t k = first; k < step.given; ++k) {
    const int32_t id = stored(step, k);
    if (id >= 0 && (value_of(id) >= 0 || model_->is_writable(static_cast<uint32_t>(id)))) return;
  }
  const uint32_t weight = static_cast<uint32_t>(stored(step, first));
  if (step.halves) in_[first].data = weights_[weight].data;
  step.prepared =
      prepared_->find(*step.kernel, weight, first, in_.data(), step.inputs, out_.data(), attrs, attrs_size, may_make);
}

// How long its results and its scratch are, and whether they are single numbers.
Status Routine::measure(uint32_t number, Error& error) {
  Step& step = steps_[number];  // check_step has gathered its tensors
  int64_t elements = 0;
  for (int32_t k = 0; k < step.results; ++k) {
    const int32_t value = value_of(step.ids[step.given + k]);
    elements = std::max(elements, out_[k].elements());
    if (value < 0 || shown_[value] >= 0) continue;
    blocks_[block_of_[value]].size = (is_whole(step.ids[step.given + k]) ? values_[value] : out_[k]).size_bytes();
  }
  for (int32_t k = 0; k < step.inputs; ++k) elements = std::max(elements, in_[k].elements());
  step.cost = static_cast<int32_t>(1 + elements / kElementsPerCost);
  if (step.action == Action::push) step.pushed = &tensor(static_cast<uint32_t>(step.ids[1]));
  if (step.action == Action::pop) step.pushed = &tensor(static_cast<uint32_t>(step.ids[2]));
  if (step.action == Action::kernel || step.action == Action::scalar) {
    step.scalar = find_scalar(step.op->code, in_.data(), step.inputs, out_.data(), step.results);
    step.action = step.scalar != nullptr ? Action::scalar : Action::kernel;
  }
  if (step.scratch < 0) return Status::kOk;
  const uint64_t size =
      step.kernel->scratch(in_.data(), step.inputs, out_.data(), attrs_.data() + step.attrs, step.prepared);
  if (size > kMostScratch) {
    return error.set(Status::kOutOfMemory, "%s: no memory for scratch of %llu bytes", place(number).text,
                     static_cast<unsigned long long>(size));
  }
  blocks_[step.scratch].size = size;
  return Status::kOk;
}

Status Routine::lay_out(uint32_t number, Error& error) {
  Stage& stage = stages_[number];
  const size_t first = stage.block, end = stages_[number + 1].block;
  for (uint32_t i = 0; i < copy_count_; ++i) {
    if (copies_[i].staged >= 0) blocks_[copies_[i].staged].size = output(copies_[i].output).size_bytes();
  }
  for (size_t i = first; i < end; ++i) {
    if (home_[i].base != Operand::nothing) blocks_[i].size = 0;
  }
  const uint64_t least = lite::least_size(blocks_, first, end, changes_);
  const uint64_t planned = planner_.plan(blocks_, first, end, least);
  if (planned > kMostBytes) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for its plan of %llu bytes", entry_name(),
                     static_cast<unsigned long long>(planned));
  }
  stage.least_size = static_cast<size_t>(least);
  stage.planned_size = static_cast<size_t>(planned);
  stage.offset = 0;
  if (number > 0) return Status::kOk;  // the rest when its memory is there
  frame_size_ = Region::round_up(sizeof(Frame) + operands_.size() * sizeof(void*) + tensor_count_ * sizeof(Tensor) +
                                 Arena::kAlignment + stage.planned_size);
  for (uint32_t i = 0; i < stages_[1].step; ++i) {
    if (steps_[i].scratch >= 0) steps_[i].scratch_at = static_cast<size_t>(blocks_[steps_[i].scratch].offset);
  }
  find_operands(0);
  return Status::kOk;
}

}  // namespace lite
