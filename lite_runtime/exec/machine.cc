// The loop that runs steps, and what control flow does in it.

#include "exec/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/clock.h"
#include "core/probe.h"

namespace lite {

// A tape is the address of its last cell, or null; the elements stand behind the cell. Where a run finds sizes, the
// tensor of a step has others later on: then a copy of it stands before the elements.
struct Machine::Cell {
  const Cell* below;
  const Tensor* what;  // its type and shape

  static constexpr size_t kHead = 16, kCopy = Region::round_up(sizeof(Tensor));
  const unsigned char* bytes() const {
    const unsigned char* behind = reinterpret_cast<const unsigned char*>(this) + kHead;
    return static_cast<const void*>(what) == behind ? behind + kCopy : behind;
  }
};

namespace {

constexpr int64_t kFuel = 1 << 14;  // scalar nodes between two looks at the clock: some tens of microseconds

template <typename T>
bool all_finite(const Tensor& tensor) {
  const T* x = tensor.as<T>();
  const int64_t n = tensor.elements();
  return std::all_of(x, x + n, [](T v) { return std::isfinite(v); });
}

const char* reason_of(Status status) {
  switch (status) {
    case Status::kBadIndex:
      return "an index or a label is out of range";
    case Status::kNotFinite:
      return "a result is NaN or infinite";
    case Status::kBadArgument:
      return "its inputs do not fit";
    case Status::kCancelled:
      return "cancelled";
    default:
      return "it failed";
  }
}

// Most tensors of a loop are single numbers.
void copy(void* to, const void* from, size_t size) {
  if (size == 4) {
    std::memcpy(to, from, 4);
  } else if (to != from && size > 0) {
    std::memcpy(to, from, size);
  }
}

// The step that comes next.
Step* behind(Step* step, Frame* frame) {
  return step->back > 0 && frame->routine->next_example(*step, frame) ? step - step->back : step + 1;
}

}  // namespace

bool is_finite(const Tensor& tensor) {
  if (tensor.dtype == DType::f32) return all_finite<float>(tensor);
  return tensor.dtype != DType::f64 || all_finite<double>(tensor);
}

Machine::Machine(const RunOptions& options, Sizes& sizes) : options_(options), sizes_(sizes) {
  static_assert(sizeof(Cell) <= Cell::kHead, "elements stand behind it");
  constexpr double kLongest = 1e9;  // seconds: longer ones do not fit the clock
  const double timeout_s = std::min(options.limits.timeout_s, kLongest);
  if (timeout_s > 0) deadline_ = now_ns() + static_cast<int64_t>(timeout_s * 1e9);
}

Status Machine::run(Routine& routine, void* const* inputs, Error& error) {
  options_.frames->clear();
  options_.tapes->clear();
  const size_t planned = routine.planned_size(0);
  Status status = afford(planned) ? Status::kOk : Status::kOutOfMemory;
  unsigned char* memory = status == Status::kOk ? options_.frames->take(routine.frame_size()) : nullptr;
  if (memory == nullptr) {
    return error.set(Status::kOutOfMemory, "entry %.60s: no memory for its plan of %zu bytes", routine.name(), planned);
  }
  top_ = at_ = routine.bind(memory, inputs, nullptr);
  status = turn(routine);
  const bool watched = options_.profile || options_.check_finite || options_.trace.events != nullptr;
  if (status == Status::kOk) status = watched ? go<true>(top_) : go<false>(top_);
  routine.show(*top_, inputs);
  if (status == Status::kOk) return status;
  const Routine& inner = *at_->routine;
  if (at_->next == inner.end()) return error.set(status, "entry %.60s: %s", routine.name(), reason_);
  const uint32_t step = static_cast<uint32_t>(at_->next - inner.steps().begin());
  return error.set(status, "%s: %s", inner.place(step, top_->next).text, *reason_ ? reason_ : reason_of(status));
}

bool Machine::afford(size_t bytes) {
  bytes_ += bytes;
  peak_ = std::max(peak_, bytes_);
  return options_.limits.most_memory == 0 || bytes_ <= options_.limits.most_memory;
}

Status Machine::stop(Status status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::vsnprintf(reason_, sizeof reason_, format, values);
  va_end(values);
  return status;
}

// Asked before a graph runs: whether there is time left for its steps.
inline Status Machine::turn(const Routine& routine) {
  fuel_ -= routine.cost();
  steps_ += routine.step_count();
  if (fuel_ < 0 || options_.cancelled->load(std::memory_order_relaxed)) return look_around();
  return Status::kOk;
}

Status Machine::look_around() {
  const Limits& limits = options_.limits;
  fuel_ = kFuel;
  if (options_.cancelled->exchange(false)) return Status::kCancelled;
  if (limits.most_steps > 0) {
    if (steps_ > limits.most_steps) {
      return stop(Status::kCancelled, "stopped, the run wants more than %lld nodes",
                  static_cast<long long>(limits.most_steps));
    }
    fuel_ = std::min(fuel_, limits.most_steps - steps_);  // no step costs less than 1
  }
  if (limits.timeout_s > 0 && now_ns() > deadline_) {
    return stop(Status::kCancelled, "stopped after %g s", limits.timeout_s);
  }
  return Status::kOk;
}

// One step that is no view and no scalar. Where it runs a graph, `inner` is a frame for that.
Status Machine::do_step(Step& step, Frame* frame, Frame** inner) {
  void* const* at = frame->at + step.first;
  switch (step.action) {
    case Action::kernel: {
      fuel_ -= step.cost;
      if (fuel_ < 0 || options_.cancelled->load(std::memory_order_relaxed)) LITE_TRY(look_around());
      Context context;
      context.pool = options_.pool;
      context.scratch = frame->from(step.scratch_at);
      context.prepared = step.prepared;
      Tensor* tensors = frame->tensors + step.tensors;
      [[maybe_unused]] const uint64_t number = static_cast<uint64_t>(&step - frame->routine->steps().begin());
      LITE_PROBE3("op_begin", step.op->name, number, step.kernel->isa);
      const Status status =
          step.kernel->run(tensors, step.inputs, tensors + step.inputs, frame->routine->attrs(step), context);
      LITE_PROBE3("op_end", step.op->name, number, static_cast<uint64_t>(status));
      return status;
    }
    case Action::push:
      return push(step, at);
    case Action::pop:
      return pop(step, at);
    case Action::bind:
      return bind(step, frame);
    case Action::cond: {
      Routine& chosen = *step.inner[*static_cast<const uint8_t*>(at[0]) != 0 ? 0 : 1];
      return enter(chosen, frame, at + 1, at + step.given, inner);
    }
    case Action::call:
      return enter(*step.inner[0], frame, at, at + step.given, inner);
    case Action::loop:
      return enter_loop(step, frame, inner);
    default:
      std::memset(at[0], 0, sizeof(Cell*));  // an empty tape
      return Status::kOk;
  }
}

template <bool watched>
Status Machine::go(Frame* frame) {
  for (;;) {
    Step* step = frame->next;
    Step* const end = frame->routine->end();
    for (; step != end; step = behind(step, frame)) {
      if (step->action == Action::view) continue;  // its result shares the bytes of its input
      const int64_t start = watched && (options_.profile || options_.trace.events != nullptr) ? now_ns() : 0;
      Status status = Status::kOk;
      Frame* inner = nullptr;
      if (step->action == Action::scalar) {
        step->scalar(frame->at + step->first);
      } else {
        frame->next = step;
        status = do_step(*step, frame, &inner);
        if (inner != nullptr && status == Status::kOk) status = turn(*inner->routine);
      }
      if (inner != nullptr && status == Status::kOk) {
        if (watched) inner->start = start;
        frame = at_ = inner;
        break;
      }
      if (watched && status == Status::kOk) status = watch(*step, *frame, start);
      if (status != Status::kOk) {
        frame->next = step;
        return status;
      }
    }
    if (step != end) continue;  // a graph inside
    frame->next = end;
    bool done = false;
    LITE_TRY(finish<watched>(&frame, &done));
    if (done) return Status::kOk;
  }
}

// The graph of a frame has run: what comes next?
template <bool watched>
Status Machine::finish(Frame** at, bool* done) {
  Frame* frame = *at;
  Routine& routine = *frame->routine;
  Frame* caller = frame->caller;
  if (caller == nullptr) {
    *done = true;
    return Status::kOk;
  }
  Step& step = *caller->next;
  void* const* operands = caller->at + step.first;
  Frame* next = nullptr;
  if (routine.role() == Role::condition) {
    if (*static_cast<const uint8_t*>(routine.output_addresses(*frame)[0]) != 0) next = frame->other;
    end_stages(frame);
  } else if (routine.role() == Role::body) {
    routine.deliver(*frame, operands + step.given);
    drop_tapes(*frame);
    end_stages(frame);
    next = frame->other;
  } else {
    routine.deliver(*frame, operands + step.given);
    drop_tapes(*frame);
  }
  if (next != nullptr) {  // the loop goes on
    next->next = next->routine->steps().begin();
    if (watched) next->start = frame->start;
    at_ = caller;
    LITE_TRY(turn(*next->routine));
    *at = at_ = next;
    return Status::kOk;
  }
  const int64_t start = frame->start;
  leave(frame);
  at_ = caller;
  if (watched) LITE_TRY(watch(step, *caller, start));
  ++caller->next;
  *at = caller;
  return Status::kOk;
}

// What the runtime's own checks find wrong at these sizes is the reason why the run stops.
Status Machine::fit(Routine& routine, uint32_t stage) {
  if (routine.is_fit(stage, sizes_)) return Status::kOk;
  Error error;
  const Status status = routine.fit(stage, sizes_, error);
  return status == Status::kOk ? status : stop(status, "%s", error.text);
}

// From here on the sizes are known that steps behind this one speak of.
Status Machine::bind(const Step& step, Frame* frame) {
  void* const* at = frame->at + step.first;
  const int32_t count = step.attr_words[0];
  copy(at[1], at[0], static_cast<size_t>(count) * sizeof(int32_t));
  Error error;
  const Status status = sizes_.bind(step.attr_words + 1, count, static_cast<const int32_t*>(at[0]), error);
  if (status != Status::kOk) return stop(status, "%s", error.text);
  return step.stage > 0 ? begin_stage(step.stage, frame) : Status::kOk;
}

Status Machine::begin_stage(uint32_t stage, Frame* frame) {
  Routine& routine = *frame->routine;
  LITE_TRY(fit(routine, stage));
  const Region::Mark mark = options_.frames->mark();
  const size_t size = routine.stage_size(stage);
  unsigned char* memory = afford(size) ? options_.frames->take(size) : nullptr;
  if (memory == nullptr) {
    return stop(Status::kOutOfMemory, "no memory for %zu bytes at the sizes that it found", size);
  }
  if (frame->staged == 0) frame->stages = mark;
  frame->staged += size;
  frame->counted += size;
  routine.bind_stage(stage, memory, frame);
  return Status::kOk;
}

// A turn of a loop is over: the next one finds sizes of its own.
void Machine::end_stages(Frame* frame) {
  if (frame->staged == 0) return;
  options_.frames->release(frame->stages);
  frame->counted -= frame->staged;
  bytes_ -= frame->staged;
  frame->staged = 0;
}

Status Machine::enter(Routine& routine, Frame* caller, void* const* inputs, void* const* outputs, Frame** frame) {
  if (options_.limits.most_depth > 0 && depth_ >= options_.limits.most_depth) {
    return stop(Status::kCancelled, "stopped, more than %d graphs run inside of each other",
                options_.limits.most_depth);
  }
  if (sizes_.any_bound()) LITE_TRY(fit(routine, 0));
  const Region::Mark mark = options_.frames->mark();
  const size_t size = routine.frame_size();
  unsigned char* memory = afford(size) ? options_.frames->take(size) : nullptr;
  if (memory == nullptr) {
    return stop(Status::kOutOfMemory, "no memory for a frame of %zu bytes, %d graphs deep", size, depth_);
  }
  ++depth_;
  Frame* made = routine.bind(memory, inputs, outputs);
  made->caller = caller;
  made->counted = size;
  made->mark = mark;
  made->tapes_before = options_.tapes->mark();
  made->taped_before = taped_;
  *frame = made;
  return Status::kOk;
}

// Gives a frame back and, where it is a loop's, the other one.
void Machine::leave(Frame* frame) {
  const bool loop = frame->other != nullptr;
  const Region::Mark mark = loop && frame->routine->role() == Role::body ? frame->other->mark : frame->mark;
  bytes_ -= frame->counted + (loop ? frame->other->counted : 0);
  depth_ -= loop ? 2 : 1;
  options_.frames->release(mark);
}

// Gives back what was pushed while the graph of the frame ran, or, of a loop's body, in its last turn: nobody can read
// it any more where no tape is among the results.
void Machine::drop_tapes(const Frame& frame) {
  if (taped_ == frame.taped_before || frame.routine->gives_tape()) return;
  options_.tapes->release(frame.tapes_before);
  bytes_ -= taped_ - frame.taped_before;
  taped_ = frame.taped_before;
}

// The state lies in the results of the step, where the condition and the body read it.
Status Machine::enter_loop(const Step& step, Frame* frame, Frame** condition) {
  void* const* from = frame->at + step.first;
  void* const* state = from + step.given;
  const Routine& starting = *step.inner[1];
  for (uint32_t k = 0; k < starting.inputs(); ++k) copy(state[k], from[k], starting.input(k).size_bytes());
  Frame* body = nullptr;
  LITE_TRY(enter(*step.inner[0], frame, state, state, condition));
  LITE_TRY(enter(*step.inner[1], frame, state, state, &body));
  (*condition)->other = body;
  body->other = *condition;
  return Status::kOk;
}

Status Machine::push(const Step& step, void* const* at) {
  const size_t head = Cell::kHead + (sizes_.any_bound() ? Cell::kCopy : 0);
  const size_t elements = step.pushed->size_bytes(), size = head + Region::round_up(elements);
  unsigned char* memory = afford(size) ? options_.tapes->take(size) : nullptr;
  if (memory == nullptr) return stop(Status::kOutOfMemory, "no memory to push %zu bytes on a tape", elements);
  const Tensor* what = sizes_.any_bound() ? new (memory + Cell::kHead) Tensor(*step.pushed) : step.pushed;
  const Cell* cell = new (memory) Cell{*static_cast<const Cell* const*>(at[0]), what};
  taped_ += size;
  copy(memory + head, at[1], elements);
  std::memcpy(at[2], &cell, sizeof cell);
  return Status::kOk;
}

Status Machine::pop(const Step& step, void* const* at) {
  const Tensor& want = *step.pushed;
  const Cell* cell = *static_cast<const Cell* const*>(at[0]);
  if (cell == nullptr) {  // below an empty tape there are zeros without end
    std::memset(at[1], 0, sizeof cell);
    std::memset(at[2], 0, want.size_bytes());
    return Status::kOk;
  }
  if (cell->what->dtype != want.dtype || cell->what->shape != want.shape) {
    return stop(Status::kBadArgument, "the tape holds %s%s, not %s%s", name_of(cell->what->dtype),
                ShapeText(cell->what->shape).text, name_of(want.dtype), ShapeText(want.shape).text);
  }
  std::memcpy(at[1], &cell->below, sizeof cell);
  copy(at[2], cell->bytes(), want.size_bytes());
  return Status::kOk;
}

void Machine::record(const Step& step, const Routine& routine, int64_t start, int64_t end) {
  const Trace& trace = options_.trace;
  const int64_t number = (*trace.count)++;
  if (number >= trace.capacity) return;
  const int32_t node = static_cast<int32_t>(&step - routine.steps().begin());
  const int32_t entry = static_cast<int32_t>(top_->routine->number());
  trace.events[number] = {start, end, entry, static_cast<int32_t>(routine.index()), node, depth_};
}

Status Machine::watch(Step& step, const Frame& frame, int64_t start) {
  if (options_.profile || options_.trace.events != nullptr) {
    const int64_t end = now_ns();
    if (options_.profile) step.nanoseconds += end - start, ++step.runs;
    if (options_.trace.events != nullptr) record(step, *frame.routine, start, end);
  }
  if (!options_.check_finite) return Status::kOk;
  for (int32_t k = 0; k < step.results; ++k) {
    const uint32_t number = static_cast<uint32_t>(step.inputs + k);
    Tensor result = frame.routine->tensor(static_cast<uint32_t>(step.ids[step.given + k]));
    result.data = frame.at[step.first + number];
    if (step.action == Action::kernel) result = frame.tensors[step.tensors + number];  // of one example, maybe
    if (!is_finite(result)) return Status::kNotFinite;
  }
  return Status::kOk;
}

}  // namespace lite
