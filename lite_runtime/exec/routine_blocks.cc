// Which results of a graph share memory, how long each block of memory is wanted, and where outputs lie. None of this
// depends on sizes, but that routine_examples.cc makes lives longer.

#include <algorithm>

#include "exec/routine.h"
#include "kernels/fused.h"

namespace lite {
namespace {

constexpr int32_t kForEver = INT32_MAX;

// Whether element i of the result of an operator depends on no element of input `k` but number i, where both have one
// shape, and is written after that was read; so the result may take the input's place.
bool takes_place(const Step& step, int32_t input, int32_t result) {
  switch (step.op->code) {
    case code::fused_elementwise: {
      FusedProgram program;
      return program.read(step.attr_words + 1, step.attr_words[0], step.given) && result < program.results &&
             program.may_overwrite(input, result);
    }
    case code::logical_not:
    case code::logical_and:
    case code::logical_or:
      return true;
    case code::where:
      return input > 0;
    case code::put_row:
      return input == 0;
  }
  return is_elementwise(step.op->code);
}

}  // namespace

// The value or weight whose bytes an id shows.
int32_t Routine::root_of(int32_t id) const {
  const int32_t value = value_of(id);
  return value >= 0 && shown_[value] >= 0 ? shown_[value] : id;
}

// A block for every result that is no view and no weight, and for the scratch of every kernel that wants some.
Status Routine::make_blocks(Error& error) {
  size_t most = 0;
  for (int32_t& block : block_of_) block = -1;
  for (int32_t& id : shown_) id = -1;
  for (const Step& step : steps_) {
    most += static_cast<size_t>(step.results) + 1;
    if (step.action == Action::view) shown_[value_of(step.ids[step.given])] = root_of(step.ids[0]);
  }
  most += outputs();  // staged ones
  if (!blocks_.allocate(most) || !planner_.allocate(most) || !changes_.allocate(steps_.size() + 2) ||
      !home_.allocate(most) || !whole_.allocate(most) || !copies_.allocate(outputs())) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for a plan of %zu blocks", entry_name(), most);
  }
  find_last_reads();
  assign_blocks();
  find_lives();
  place_outputs();
  return Status::kOk;
}

void Routine::find_last_reads() {
  for (int32_t& step : last_read_) step = -1;
  const auto read = [&](int32_t id, int32_t step) {
    const int32_t value = id < 0 ? -1 : value_of(root_of(id));
    if (value >= 0) last_read_[value] = std::max(last_read_[value], step);
  };
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].action == Action::view) continue;
    for (int32_t k = 0; k < steps_[i].given; ++k) read(steps_[i].ids[k], static_cast<int32_t>(i));
  }
  for (uint32_t i = 0; i < outputs(); ++i) read(static_cast<int32_t>(output_id(i)), kForEver);
}

void Routine::assign_blocks() {
  int32_t count = 0;
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (i > 0 && steps_[i - 1].stage > 0) stages_[steps_[i - 1].stage].block = static_cast<uint32_t>(count);
    if (step.action == Action::view) continue;
    for (int32_t k = 0; k < step.results; ++k) {
      const int32_t value = value_of(step.ids[step.given + k]);
      if (value < 0) continue;
      const int32_t reused = reused_block(i, k);
      block_of_[value] = reused >= 0 ? reused : count++;
    }
    if (step.action == Action::kernel && step.kernel != nullptr && step.kernel->scratch != nullptr)
      step.scratch = count++;
  }
  if (steps_.size() > 0 && steps_[steps_.size() - 1].stage > 0) {
    stages_[steps_[steps_.size() - 1].stage].block = static_cast<uint32_t>(count);
  }
  stages_[stages_.size() - 1].block = static_cast<uint32_t>(blocks_.size());  // with staged ones at the end
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].action != Action::view) continue;
    const int32_t value = value_of(steps_[i].ids[steps_[i].given]), root = value_of(shown_[value]);
    block_of_[value] = root < 0 ? -1 : block_of_[root];
  }
}

bool Routine::same_words(int32_t a, int32_t b) const {
  const Tensor &x = tensor(static_cast<uint32_t>(a)), &y = tensor(static_cast<uint32_t>(b));
  const int32_t *p = shape_words(static_cast<uint32_t>(a)), *q = shape_words(static_cast<uint32_t>(b));
  return x.rank() == y.rank() && std::equal(p, p + x.rank(), q) && size_of(x.dtype) == size_of(y.dtype);
}

// Whether a step may write a result over one of its inputs: each element is read before it is written.
bool Routine::may_overwrite(uint32_t number, int32_t input, int32_t result) const {
  const Step& step = steps_[number];
  const int32_t own = step.ids[step.given + result], id = step.ids[input];
  if (id < 0 || !same_words(id, own)) return false;
  if (step.action == Action::loop) return input == result;  // the state starts where it lies
  if (step.action != Action::kernel || !takes_place(step, input, result)) return false;
  for (int32_t k = 0; k < step.given; ++k) {
    if (step.ids[k] >= 0 && root_of(step.ids[k]) == root_of(id) && !same_words(step.ids[k], own)) return false;
  }
  return true;
}

// The block of an input that nothing reads after this step, for one of its results; or -1.
int32_t Routine::reused_block(uint32_t number, int32_t result) const {
  const Step& step = steps_[number];
  const bool loop = step.action == Action::loop;  // its state may lie nowhere but where it starts
  for (int32_t k = loop ? result : 0; k < (loop ? std::min(result + 1, step.given) : step.given); ++k) {
    const int32_t value = step.ids[k] < 0 ? -1 : value_of(root_of(step.ids[k]));
    if (value < 0 || is_input(value) || last_read_[value] != static_cast<int32_t>(number)) continue;
    if (!may_overwrite(number, k, result)) continue;
    bool taken = false;
    for (int32_t r = 0; r < result; ++r) {
      const int32_t other = value_of(step.ids[step.given + r]);
      taken = taken || (other >= 0 && block_of_[other] == block_of_[value]);
    }
    if (!taken) return block_of_[value];
  }
  return -1;
}

// The steps at which each block is alive.
void Routine::find_lives() {
  const int32_t end = static_cast<int32_t>(steps_.size());
  for (Block& block : blocks_) block.first = end, block.last = -1;
  for (int32_t i = 0; i < end; ++i) {
    const Step& step = steps_[i];
    for (int32_t k = 0; k < step.given + step.results; ++k) lives_at(step.ids[k], i);
    if (step.scratch >= 0) blocks_[step.scratch].first = blocks_[step.scratch].last = i;
  }
  for (uint32_t i = 0; i < outputs(); ++i) lives_at(static_cast<int32_t>(output_id(i)), std::max(end - 1, 0));
}

void Routine::lives_at(int32_t id, int32_t step) {
  const int32_t value = id < 0 ? -1 : value_of(id), block = value < 0 ? -1 : block_of_[value];
  if (block < 0) return;
  blocks_[block].first = std::min(blocks_[block].first, step);
  blocks_[block].last = std::max(blocks_[block].last, step);
}

// Outputs of a branch are computed where its caller wants them, new state over the old where nothing reads that any
// more; what is left is copied at the end.
void Routine::place_outputs() {
  if (role_ != Role::branch && role_ != Role::body) return;
  int32_t staged = static_cast<int32_t>(blocks_.size()) - static_cast<int32_t>(outputs());
  for (uint32_t i = 0; i < outputs(); ++i) {
    const int32_t id = root_of(static_cast<int32_t>(output_id(i))), value = value_of(id);
    const bool computed = value >= 0 && !is_input(value);
    Operand* home = computed ? &home_[block_of_[value]] : nullptr;
    if (home != nullptr && home->base == Operand::nothing) {
      if (role_ == Role::branch) *home = {Operand::output, i};
      if (role_ == Role::body && replaces_state(i, block_of_[value])) *home = {Operand::input, i};
      if (home->base != Operand::nothing) continue;
    }
    if (role_ == Role::body && is_input(value) && value == static_cast<int32_t>(i)) continue;  // stays as it is
    Copy& copy = copies_[copy_count_++];
    copy.output = i;
    if (role_ != Role::body || !is_input(value)) continue;
    copy.staged = staged++;
    blocks_[copy.staged].first = blocks_[copy.staged].last = std::max(static_cast<int32_t>(steps_.size()) - 1, 0);
  }
}

// Whether the block of an output may lie where the state lies that it replaces: the old one is read before the new one
// is written, or by the very step, element by element.
bool Routine::replaces_state(uint32_t output, int32_t block) const {
  const int32_t last = last_read_[output], first = blocks_[block].first;
  if (!same_words(static_cast<int32_t>(model_->weights() + output), static_cast<int32_t>(output_id(output)))) {
    return false;
  }
  if (last != first) return last < first;
  const Step& step = steps_[static_cast<uint32_t>(first)];
  bool good = true;
  for (int32_t r = 0; r < step.results; ++r) {
    const int32_t value = value_of(step.ids[step.given + r]);
    if (value < 0 || block_of_[value] != block) continue;
    for (int32_t k = 0; k < step.given; ++k) {
      const int32_t read = step.ids[k] < 0 ? -1 : value_of(root_of(step.ids[k]));
      if (read == static_cast<int32_t>(output)) good = good && may_overwrite(static_cast<uint32_t>(first), k, r);
    }
  }
  return good;
}

}  // namespace lite
