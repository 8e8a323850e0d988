// One graph of a model: finds kernels for its nodes, binds frames. Blocks of memory are in routine_blocks.cc, what
// depends on sizes in routine_fit.cc.

#include "exec/routine.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "kernels/layer_inputs.h"

namespace lite {
namespace {

Action action_of(const OpInfo& op) {
  switch (op.code) {
    case code::cond:
      return Action::cond;
    case code::while_loop:
      return Action::loop;
    case code::call:
      return Action::call;
    case code::empty_tape:
      return Action::empty_tape;
    case code::push:
      return Action::push;
    case code::pop:
      return Action::pop;
    case code::bind_sizes:
      return Action::bind;
  }
  return op.view ? Action::view : Action::kernel;
}

// The kernel that `backend` has, or one of those behind it.
const Kernel* kernel_of(int code, DType dtype, const char* backend) {
  if (backend == nullptr) return find_kernel(code, dtype);
  const Kernel* kernel = nullptr;
  bool reached = false;
  for (const char* isa : kIsas) {
    reached = reached || std::strcmp(isa, backend) == 0;
    if (reached && kernel == nullptr) kernel = find_kernel(code, dtype, isa);
  }
  return kernel;
}

}  // namespace

Status Routine::load(const Model& model, uint32_t number, Role role, Tensor* weights, const char* backend,
                     Prepared* prepared, Error& error) {
  model_ = &model;
  prepared_ = prepared;
  rows_ = &model.entry(number);
  weights_ = weights;
  number_ = number;
  role_ = role;
  const uint32_t values = length(rows_->values());
  if (!values_.allocate(values) || !block_of_.allocate(values) || !shown_.allocate(values) ||
      !last_read_.allocate(values)) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for %u values", entry_name(), values);
  }
  for (uint32_t i = 0; i < values; ++i) {
    const format::Value& value = *rows_->values()->Get(i);
    values_[i].dtype = static_cast<DType>(value.dtype());
    values_[i].shape.size = value.rank();
  }
  for (uint32_t i = 0; i < outputs(); ++i) gives_tape_ = gives_tape_ || output(i).dtype == DType::tape;
  LITE_TRY(load_steps(backend, error));
  keep_halves();
  LITE_TRY(make_stages(error));
  return make_blocks(error);
}

// A stage begins behind each bind that no other one follows at once. Their blocks are found later.
Status Routine::make_stages(Error& error) {
  const auto ends_one = [&](size_t i) {
    return steps_[i].action == Action::bind && (i + 1 == steps_.size() || steps_[i + 1].action != Action::bind);
  };
  uint32_t count = 1;
  for (size_t i = 0; i < steps_.size(); ++i) count += ends_one(i);
  if (!stages_.allocate(count + 1)) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for %u stages", entry_name(), count);
  }
  uint32_t stage = 0, value = inputs();
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    value += static_cast<uint32_t>(steps_[i].results - steps_[i].op->updates);
    if (!ends_one(i)) continue;
    steps_[i].stage = ++stage;
    stages_[stage].step = i + 1;
    stages_[stage].value = value;
  }
  stages_[count].step = static_cast<uint32_t>(steps_.size());
  stages_[count].value = values();
  return Status::kOk;
}

Status Routine::load_steps(const char* backend, Error& error) {
  const uint32_t count = length(rows_->nodes());
  size_t attr_words = 0, most_inputs = 0, most_results = 0, operands = 0;
  bool good = steps_.allocate(count);
  for (uint32_t i = 0; good && i < count; ++i) {
    const format::Node& node = *rows_->nodes()->Get(i);
    Step& step = steps_[i];
    step.op = find_op(node.op());
    step.action = action_of(*step.op);
    step.ids = model_->pool(node.ids());
    step.given = node.inputs();
    step.inputs = std::max<int32_t>(step.given, step.op->most_inputs);
    step.results = node.outputs();
    step.attr_words = model_->pool(node.attrs());
    step.attrs = attr_words;
    step.first = static_cast<uint32_t>(operands);
    attr_words += struct_words(*step.op);
    operands += static_cast<size_t>(step.inputs + step.results);
    most_inputs = std::max(most_inputs, static_cast<size_t>(step.inputs));
    most_results = std::max(most_results, static_cast<size_t>(step.results));
    if (step.action != Action::kernel && step.action != Action::view) continue;
    const bool first_given = step.given > 0 && step.ids[0] >= 0;
    const DType dtype = first_given ? tensor(static_cast<uint32_t>(step.ids[0])).dtype : DType::none;
    step.kernel = kernel_of(step.op->code, dtype, backend);
    if (step.action == Action::view) continue;
    step.tensors = tensor_count_;
    tensor_count_ += static_cast<uint32_t>(step.inputs + step.results);
  }
  first_output_ = static_cast<uint32_t>(operands);
  good = good && attrs_.allocate(attr_words) && in_.allocate(most_inputs) && out_.allocate(most_results) &&
         operands_.allocate(operands + outputs());
  return good ? Status::kOk : error.set(Status::kOutOfMemory, "entry %.60s: no memory for its nodes", entry_name());
}

// Weights in float16 that are read back for layers alone, whose kernels take them so, stay as they are stored: the
// steps that would read them back are views.
void Routine::keep_halves() {
  const auto takes_halves = [&](const Step& step, int32_t input) {
    return step.action == Action::kernel && step.kernel != nullptr && step.kernel->halves &&
           input == first_weight(step.op->code);
  };
  Array<int32_t>& wanted = last_read_;  // in float32; free until blocks are made
  for (int32_t& value : wanted) value = 0;
  for (uint32_t i = 0; i < outputs(); ++i) {
    const int32_t value = value_of(static_cast<int32_t>(output_id(i)));
    if (value >= 0) wanted[value] = 1;
  }
  for (const Step& step : steps_) {
    for (int32_t k = 0; k < step.given; ++k) {
      const int32_t value = value_of(step.ids[k]);
      if (value >= 0 && !takes_halves(step, k)) wanted[value] = 1;
    }
  }
  for (Step& step : steps_) {
    if (step.op->code == code::decompress && step.given > 0 && step.ids[0] >= 0 && value_of(step.ids[0]) < 0) {
      const uint32_t weight = static_cast<uint32_t>(step.ids[0]);
      Tensor& result = values_[value_of(step.ids[step.given])];
      if (weights_[weight].dtype != DType::f16 || model_->is_writable(weight) || result.dtype != DType::f32 ||
          wanted[value_of(step.ids[step.given])] != 0) {
        continue;
      }
      step.action = Action::view;
      result.dtype = DType::f16;
    } else if (step.kernel != nullptr && step.kernel->halves && first_weight(step.op->code) < step.given) {
      const int32_t id = step.ids[first_weight(step.op->code)], value = value_of(id);
      step.halves = value >= static_cast<int32_t>(inputs()) && values_[value].dtype == DType::f16;
    }
  }
}

void Routine::set_place(const Routine* outer, uint32_t step, const char* part) {
  outer_ = outer;
  outer_step_ = step;
  part_ = part;
}

const char* Routine::entry_name() const {
  const Routine* entry = this;
  while (entry->outer_ != nullptr) entry = entry->outer_;
  return model_->name(entry->rows_->name());
}

const char* Routine::value_name(uint32_t id) const {
  if (id < model_->weights()) return model_->name(model_->weight(id).name());
  const uint32_t i = id - model_->weights();
  return i < length(rows_->value_names()) ? model_->name(rows_->value_names()->Get(i)) : "";
}

const int32_t* Routine::shape_words(uint32_t id) const {
  if (id < model_->weights()) return model_->pool(model_->weight(id).shape());
  return model_->pool(rows_->values()->Get(id - model_->weights())->shape());
}

const char* Routine::source(uint32_t step) const {
  return length(rows_->sources()) > 0 ? model_->name(rows_->sources()->Get(step)) : "";
}

Routine::Place Routine::place(uint32_t step, const Step* outer) const {
  Place place;
  const Routine* entry = this;
  uint32_t number = step;
  for (; entry->outer_ != nullptr; entry = entry->outer_) number = entry->outer_step_;
  if (outer != nullptr) number = static_cast<uint32_t>(outer - entry->steps_.begin());
  const auto at = [](const char* from) { return *from != 0 ? " at " : ""; };
  const char* from = entry->source(number);
  int size = std::snprintf(place.text, sizeof place.text, "entry %.40s, node %u (%s%s%.50s)", entry_name(), number,
                           entry->steps_[number].op->name, at(from), from);
  if (entry != this && size > 0 && size < static_cast<int>(sizeof place.text)) {
    from = source(step);
    std::snprintf(place.text + size, sizeof place.text - static_cast<size_t>(size), ", %s node %u (%s%s%.50s)", part_,
                  step, steps_[step].op->name, at(from), from);
  }
  return place;
}

void Routine::gather(const Step& step) {
  for (int32_t k = 0; k < step.inputs; ++k) {
    const bool left_out = k >= step.given || step.ids[k] < 0;
    in_[k] = left_out ? Tensor() : seen(step, step.ids[k]);
  }
  for (int32_t k = 0; k < step.results; ++k) out_[k] = seen(step, step.ids[step.given + k]);
}

// Where the bytes of an id lie. Offsets in the frame are known when it has been laid out.
Operand Routine::operand(int32_t id) const {
  if (id < 0) return {};
  int32_t value = value_of(id);
  if (value >= 0 && shown_[value] >= 0) value = value_of(id = shown_[value]);
  if (value < 0) return {Operand::fixed, reinterpret_cast<uintptr_t>(weights_[id].data)};
  if (is_input(value)) return {Operand::input, static_cast<uintptr_t>(value)};
  const int32_t block = block_of_[value];
  if (home_[block].base != Operand::nothing) return home_[block];
  return {Operand::frame, static_cast<uintptr_t>(blocks_[block].offset)};
}

void Routine::find_operands(uint32_t stage) {
  for (uint32_t i = stages_[stage].step; i < stages_[stage + 1].step; ++i) {
    const Step& step = steps_[i];
    Operand* to = operands_.begin() + step.first;
    for (int32_t k = 0; k < step.inputs; ++k) *to++ = operand(k < step.given ? step.ids[k] : -1);
    for (int32_t k = 0; k < step.results; ++k) *to++ = operand(step.ids[step.given + k]);
  }
  for (uint32_t i = 0; is_last(stage) && i < outputs(); ++i) {
    operands_[first_output_ + i] = operand(static_cast<int32_t>(output_id(i)));
  }
}

namespace {

void* address(const Operand& operand, const Frame& frame) {
  switch (operand.base) {
    case Operand::fixed:
      return reinterpret_cast<void*>(operand.value);
    case Operand::frame:
      return frame.from(operand.value);
    case Operand::input:
      return frame.inputs[operand.value];
    case Operand::output:
      return frame.outputs[operand.value];
    case Operand::nothing:
      break;
  }
  return nullptr;
}

unsigned char* aligned(unsigned char* at) {
  return reinterpret_cast<unsigned char*>(Arena::round_up(reinterpret_cast<uintptr_t>(at)));
}

}  // namespace

// A frame holds its own record, addresses, tensors, and from the next boundary on its bytes.
Frame* Routine::bind(unsigned char* memory, void* const* inputs, void* const* outputs) {
  Frame* frame = new (memory) Frame();
  frame->routine = this;
  frame->next = steps_.begin();
  frame->at = reinterpret_cast<void**>(memory + sizeof(Frame));
  frame->tensors = reinterpret_cast<Tensor*>(frame->at + operands_.size());
  frame->bytes = aligned(reinterpret_cast<unsigned char*>(frame->tensors + tensor_count_));
  frame->inputs = inputs;
  frame->outputs = outputs;
  if (!is_last(0)) std::memset(static_cast<void*>(frame->at), 0, operands_.size() * sizeof(void*));
  find_addresses(0, frame);
  return frame;
}

// Graphs that bind sizes never run inside of themselves: of a stage behind the first one there is one frame at a time,
// so that where its memory lies may stand in the routine.
void Routine::bind_stage(uint32_t stage, unsigned char* memory, Frame* frame) {
  const uint64_t at = reinterpret_cast<uintptr_t>(aligned(memory)) - reinterpret_cast<uintptr_t>(frame->bytes);
  Stage& own = stages_[stage];
  for (uint32_t i = own.block; i < stages_[stage + 1].block; ++i) blocks_[i].offset += at - own.offset;
  own.offset = at;
  for (uint32_t i = own.step; i < stages_[stage + 1].step; ++i) {
    if (steps_[i].scratch >= 0) steps_[i].scratch_at = static_cast<size_t>(blocks_[steps_[i].scratch].offset);
  }
  find_operands(stage);
  find_addresses(stage, frame);
}

void Routine::find_addresses(uint32_t stage, Frame* frame) {
  const Step *begin = steps_.begin() + stages_[stage].step, *end = steps_.begin() + stages_[stage + 1].step;
  const auto find = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) frame->at[i] = address(operands_[i], *frame);
  };
  if (begin != end) find(begin->first, end != steps_.end() ? end->first : first_output_);
  if (is_last(stage)) find(first_output_, operands_.size());
  if (tensor_count_ == 0) return;
  for (const Step* at = begin; at != end; ++at) {
    const Step& step = *at;
    if (step.action != Action::kernel) continue;
    Tensor* to = frame->tensors + step.tensors;
    for (int32_t k = 0; k < step.inputs + step.results; ++k) {
      const int32_t id = k >= step.inputs ? step.ids[step.given + k - step.inputs] : k < step.given ? step.ids[k] : -1;
      Tensor* tensor_at = new (to + k) Tensor(id < 0 ? Tensor() : seen(step, id));
      tensor_at->data = frame->at[step.first + static_cast<uint32_t>(k)];
    }
  }
}

namespace {

void move(void* to, const void* from, size_t size) {
  if (to == from) return;
  if (size == 4) {
    std::memcpy(to, from, 4);
  } else if (size > 0) {
    std::memcpy(to, from, size);
  }
}

}  // namespace

void Routine::deliver(const Frame& frame, void* const* to) const {
  void* const* from = output_addresses(frame);
  // State that moves to another place waits elsewhere until all places have been read.
  for (uint32_t i = 0; i < copy_count_; ++i) {
    const Copy& copy = copies_[i];
    if (copy.staged < 0) continue;
    move(frame.from(blocks_[copy.staged].offset), from[copy.output], output(copy.output).size_bytes());
  }
  for (uint32_t i = 0; i < copy_count_; ++i) {
    const Copy& copy = copies_[i];
    const void* at = copy.staged < 0 ? from[copy.output] : frame.from(blocks_[copy.staged].offset);
    move(to[copy.output], at, output(copy.output).size_bytes());
  }
}

void Routine::show(const Frame& frame, void* const* inputs) {
  for (uint32_t i = 0; i < this->inputs(); ++i) values_[i].data = inputs[i];
  for (const Step& step : steps_) {
    for (int32_t k = 0; k < step.results; ++k) {
      const int32_t value = value_of(step.ids[step.given + k]);
      if (value >= 0) values_[value].data = frame.at[step.first + static_cast<uint32_t>(step.inputs + k)];
    }
  }
}

}  // namespace lite
