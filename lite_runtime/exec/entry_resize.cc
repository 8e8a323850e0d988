// What depends on the sizes of an entry's free dimensions: shapes, attributes, checks, and the plan of its memory.

#include <algorithm>
#include <cstring>

#include "exec/entry.h"

namespace lite {
namespace {

constexpr size_t kMostScratch = size_t{1} << 40;  // of one kernel: sums of them cannot overflow

}  // namespace

Status Entry::resize(Error& error) {
  sizes_.update();
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
  for (uint32_t i = 0; i < values_.size(); ++i) LITE_TRY(evaluate_shape(i, error));
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    LITE_TRY(evaluate_attrs(i, error));
    LITE_TRY(check_step(i, error));
    LITE_TRY(measure(i, error));
  }
  planned_size_ = planner_.plan(blocks_);
  least_size_ = lite::least_size(blocks_, changes_);
  return Status::kOk;
}

Status Entry::evaluate_shape(uint32_t value, Error& error) {
  const int32_t* words = shape_words(model_->weights() + value);
  Ints& shape = values_[value].shape;
  int64_t elements = 1;  // as if no size were 0, so that a part of the sizes cannot overflow either
  for (int i = 0; i < shape.size; ++i) {
    int32_t size = -1;
    const bool good = sizes_.word(words[i], &size) && size >= 0;
    if (good && (elements *= std::max(size, 1)) <= kMaxElements) {
      shape.data[i] = size;
      continue;
    }
    return error.set(Status::kBadArgument,
                     "entry %.60s, value %u of shape %s: size %d is %d; want less than 2^31 elements", name(), value,
                     ShapeText(*model_, words, shape.size).text, i, size);
  }
  return Status::kOk;
}

// Fills the operator's attribute struct, word by word (core/attrs.h).
Status Entry::evaluate_attrs(uint32_t number, Error& error) {
  const Step& step = steps_[number];
  const int32_t* from = step.attr_words;
  int32_t* to = attrs_.data() + step.attrs;
  bool good = true;
  for (const char* kind = step.op->attrs; *kind != 0; ++kind) {
    if (*kind == 'i') {
      good = good && sizes_.word(*from++, to++);
    } else if (*kind == 'I') {
      Ints ints;
      ints.size = *from++;
      for (int k = 0; k < ints.size; ++k) good = good && sizes_.word(from[k], &ints.data[k]);
      from += ints.size;
      std::memcpy(to, &ints, sizeof ints);
      to += sizeof ints / sizeof *to;
    } else {
      *to++ = *from++;
    }
  }
  if (good) return Status::kOk;
  return error.set(Status::kBadArgument, "%s: an attribute has no value at these sizes", place(number).text);
}

Status Entry::check_step(uint32_t number, Error& error) {
  const Step& step = steps_[number];
  gather(step);
  if (step.kernel == nullptr) {
    return error.set(Status::kNoKernel, "%s: no kernel for its first input's element type %s", place(number).text,
                     name_of(step.inputs > 0 ? in_[0].dtype : DType::none));
  }
  bool good = check_call(step.op->code, in_.data(), step.inputs, out_.data(), attrs_.data() + step.attrs);
  if (step.op->view) good = good && in_[0].size_bytes() == out_[0].size_bytes();
  if (good) return Status::kOk;
  char shapes[160] = "";
  const auto append = [&](const char* text) { std::strncat(shapes, text, sizeof shapes - std::strlen(shapes) - 1); };
  for (int32_t k = 0; k < step.inputs; ++k) {
    if (in_[k].present()) append(ShapeText(in_[k].shape).text);
    if (!in_[k].present()) append("-");
  }
  append(" -> ");
  append(ShapeText(out_[0].shape).text);
  return error.set(Status::kBadFile, "%s: shapes, types or attributes do not fit: %s", place(number).text, shapes);
}

// How long its results and its scratch are.
Status Entry::measure(uint32_t number, Error& error) {
  const Step& step = steps_[number];  // check_step has gathered its tensors
  for (int32_t k = 0; k < step.op->results; ++k) {
    const int32_t value = value_of(step.ids[step.given + k]);
    if (value >= 0 && shown_[value] < 0) blocks_[block_of_[value]].size = values_[value].size_bytes();
  }
  if (step.scratch < 0) return Status::kOk;
  const size_t size = step.kernel->scratch(in_.data(), step.inputs, out_.data(), attrs_.data() + step.attrs);
  if (size > kMostScratch) {
    return error.set(Status::kOutOfMemory, "%s: no memory for scratch of %zu bytes", place(number).text, size);
  }
  blocks_[step.scratch].size = size;
  return Status::kOk;
}

// A block for every result that is no view and no weight, and for the scratch of every kernel that wants some.
Status Entry::make_blocks(Error& error) {
  int32_t count = 0;
  for (int32_t& block : block_of_) block = -1;
  for (int32_t& id : shown_) id = -1;
  for (Step& step : steps_) {
    for (int32_t k = 0; k < step.op->results; ++k) {
      const int32_t value = value_of(step.ids[step.given + k]);
      if (value < 0) continue;
      if (step.op->view) {
        const int32_t source = value_of(step.ids[0]);
        shown_[value] = step.ids[0];
        block_of_[value] = source < 0 ? -1 : block_of_[source];
      } else {
        block_of_[value] = count++;
      }
    }
    if (step.kernel != nullptr && step.kernel->scratch != nullptr && !step.op->view) step.scratch = count++;
  }
  if (!blocks_.allocate(count) || !planner_.allocate(count) || !changes_.allocate(steps_.size() + 1)) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for a plan of %d blocks", name(), count);
  }
  find_lives();
  return Status::kOk;
}

// The steps at which each block is alive, which do not depend on sizes.
void Entry::find_lives() {
  const int32_t end = static_cast<int32_t>(steps_.size());
  for (Block& block : blocks_) block.first = end;
  for (int32_t i = 0; i < end; ++i) {
    const Step& step = steps_[i];
    for (int32_t k = 0; k < step.given + step.op->results; ++k) lives_at(step.ids[k], i);
    if (step.scratch >= 0) blocks_[step.scratch].first = blocks_[step.scratch].last = i;
  }
  for (uint32_t i = 0; i < outputs(); ++i) lives_at(static_cast<int32_t>(output_id(i)), end - 1);
}

void Entry::lives_at(int32_t id, int32_t step) {
  const int32_t value = value_of(id), block = value < 0 ? -1 : block_of_[value];
  if (block < 0) return;
  blocks_[block].first = std::min(blocks_[block].first, step);
  blocks_[block].last = std::max(blocks_[block].last, step);
}

}  // namespace lite
