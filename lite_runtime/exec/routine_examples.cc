// Which steps run for one example of a batch after the other, so that what they hand on stays in the caches.

#include <algorithm>

#include "exec/routine.h"
#include "kernels/gemm/prepared.h"
#include "kernels/layer_inputs.h"

namespace lite {
namespace {

constexpr size_t kLarge = size_t{4} << 20;   // bytes that a step reads and writes: more than caches near a core hold
constexpr size_t kLeast = size_t{64} << 10;  // bytes of one example: work for all threads
constexpr size_t kMostWeights = size_t{1} << 20;  // bytes of a weight that is read for each example, from the cache

// Operators whose result has an example for each of its inputs before the weights, which depends on no other.
bool is_layer(int code) {
  return code == code::conv2d || code == code::conv2d_add || code == code::depthwise_conv2d ||
         code == code::quantized_conv2d || code == code::quantized_depthwise_conv2d || code == code::max_pool2d ||
         code == code::avg_pool2d;
}

}  // namespace

// How many examples a step may run for one by one; 0: it may not.
int32_t Routine::examples_of(const Step& step) const {
  const bool elementwise = is_elementwise(step.op->code) || step.op->code == code::quantized_add;
  if (step.kernel == nullptr || (!elementwise && !is_layer(step.op->code))) return 0;
  const Tensor& y = tensor(static_cast<uint32_t>(step.ids[step.given]));
  if (y.rank() != 4 || y.dim(0) < 2 || y.size_bytes() / static_cast<size_t>(y.dim(0)) < kLeast) return 0;
  for (int32_t k = 0; k < step.given; ++k) {
    const bool computed = step.ids[k] >= 0 && value_of(step.ids[k]) >= 0,
               wanted = k < first_weight(step.op->code) || elementwise;
    if (computed != wanted) return 0;
    if (!wanted) continue;
    const Tensor& x = tensor(static_cast<uint32_t>(step.ids[k]));
    if (elementwise ? x.shape != y.shape : x.rank() != 4 || x.dim(0) != y.dim(0)) return 0;
  }
  return elementwise || suits_examples(step) ? y.dim(0) : 0;
}

// Whether a layer loses nothing where each example has a call of its own: no weight is packed or fetched from memory in
// all of them, and one image has squares enough for 3x3 windows to go Winograd's way.
bool Routine::suits_examples(const Step& step) const {
  for (int32_t k = first_weight(step.op->code); k < step.given; ++k) {
    if (step.ids[k] < 0) continue;
    const uint32_t id = static_cast<uint32_t>(step.ids[k]);
    const Tensor &w = tensor(id), &y = tensor(static_cast<uint32_t>(step.ids[step.given]));
    if (w.size_bytes() > kMostWeights || (step.kernel->prepare != nullptr && model_->is_writable(id))) return false;
    if ((step.op->code != code::conv2d && step.op->code != code::conv2d_add) || w.rank() != 4 || w.dim(1) != 3 ||
        w.dim(2) != 3)
      continue;
    if ((int64_t{y.dim(1)} + 1) / 2 * ((int64_t{y.dim(2)} + 1) / 2) < kLeastSquares) return false;
  }
  return true;
}

bool Routine::is_large(const Step& step) const {
  const Tensor &x = tensor(static_cast<uint32_t>(step.ids[0])),
               &y = tensor(static_cast<uint32_t>(step.ids[step.given]));
  return x.size_bytes() + y.size_bytes() >= kLarge;
}

// Finds neighbours among the steps of a stage that may run so, from a large one to a large one.
void Routine::find_examples(const Stage& stage, const Stage& next) {
  for (uint32_t i = stage.step; i < next.step; ++i) steps_[i].examples = 0, steps_[i].back = 0;
  // Lives are found for a whole graph: where a loop's state waits, and other stages' examples, would be forgotten.
  if (role_ != Role::entry || stages_.size() > 2) return;
  find_lives();
  std::fill(whole_.begin(), whole_.end(), 0);
  for (size_t i = 0; i < values_.size(); ++i) {
    if (block_of_[i] >= 0 && shown_[i] < 0) ++whole_[block_of_[i]];
  }
  for (uint32_t i = stage.step, end; i < next.step; i = std::max(end, i + 1)) {
    const int32_t examples = examples_of(steps_[i]);
    uint32_t first = next.step, last = 0;
    for (end = i; examples > 0 && end < next.step && examples_of(steps_[end]) == examples; ++end) {
      if (!is_large(steps_[end])) continue;
      first = std::min(first, end);
      last = end;
    }
    if (first < last) run_by_example(first, last, examples);
  }
}

// What these steps alone see needs memory for one example. All else that they see stays as long as any of them runs.
void Routine::run_by_example(uint32_t first, uint32_t last, int32_t examples) {
  steps_[last].back = last - first;
  for (uint32_t i = first; i <= last; ++i) {
    const int32_t value = value_of(steps_[i].ids[steps_[i].given]);
    steps_[i].examples = examples;
    if (last_read_[value] <= static_cast<int32_t>(last)) --whole_[block_of_[value]];
  }
  for (uint32_t i = first; i <= last; ++i) {
    const Step& step = steps_[i];
    for (int32_t k = 0; k < step.given + step.results; ++k) {
      if (!is_whole(step.ids[k])) continue;
      lives_at(step.ids[k], static_cast<int32_t>(first));
      lives_at(step.ids[k], static_cast<int32_t>(last));
    }
  }
}

// Whether an operand is a value that has memory for all examples.
bool Routine::is_whole(int32_t id) const {
  const int32_t value = id < 0 ? -1 : value_of(id);
  return value >= 0 && (block_of_[value] < 0 || whole_[block_of_[value]] > 0);
}

// A tensor as a step sees it that runs for one example at a time, or for all.
Tensor Routine::seen(const Step& step, int32_t id) const {
  Tensor seen = tensor(static_cast<uint32_t>(id));
  if (step.examples > 0 && value_of(id) >= 0) seen.shape.data[0] = 1;
  return seen;
}

bool Routine::next_example(const Step& last, Frame* frame) const {
  const bool more = ++frame->example < last.examples;
  const int64_t by = more ? 1 : 1 - int64_t{last.examples};
  if (!more) frame->example = 0;
  for (const Step* step = &last - last.back; step <= &last; ++step) {
    const auto move = [&](int32_t operand, int32_t id) {
      Tensor& tensor = frame->tensors[step->tensors + static_cast<uint32_t>(operand)];
      if (is_whole(id)) tensor.data = tensor.as<char>() + by * static_cast<int64_t>(tensor.size_bytes());
    };
    for (int32_t k = 0; k < step->given; ++k) move(k, step->ids[k]);
    move(step->inputs, step->ids[step->given]);
  }
  return more;
}

}  // namespace lite
