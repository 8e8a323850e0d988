#pragma once

#include <atomic>

#include "exec/region.h"
#include "exec/routine.h"

namespace lite {

// Bounds of a run; 0: none. They are looked at between nodes, once a turn of a loop and once a call.
struct Limits {
  size_t most_memory = 0;  // bytes that results, frames and tapes of a run may want
  int64_t most_steps = 0;  // nodes that a run may execute
  double timeout_s = 0;
  int32_t most_depth = 0;  // graphs that run inside of each other
};

// When a node ran, on the clock of core/clock.h.
struct Event {
  int64_t start_ns, end_ns;
  int32_t entry, graph, node, depth;
};

// Where a run writes its events: into memory of someone else, until that is full. `count` goes on counting.
struct Trace {
  Event* events = nullptr;
  int64_t capacity = 0;
  int64_t* count = nullptr;
};

// What a run needs besides the entry itself.
struct RunOptions {
  Region* frames = nullptr;
  Region* tapes = nullptr;
  ThreadPool* pool = nullptr;
  bool profile = false;
  Trace trace;
  bool check_finite = false;  // stop at the first input or result that holds a NaN or an infinity
  Limits limits;
  std::atomic<bool>* cancelled = nullptr;  // set by others to stop the run
};

// Whether no element is a NaN or an infinity; types other than f32 and f64 always are.
bool is_finite(const Tensor& tensor);

// Runs the steps of routines. Graphs that run inside of others do so on frames of the region, never on the stack of
// this thread, so that a recursion is as deep as `most_depth` and memory allow. A loop has one frame for its condition
// and one for its body, however often it turns; a tape is a list whose cells share what is below them.
class Machine {
 public:
  // `sizes` are those of the routines that it runs.
  Machine(const RunOptions& options, Sizes& sizes);

  // Runs an entry's routine on inputs at these addresses. Its frame stays in the region until that is cleared.
  Status run(Routine& routine, void* const* inputs, Error& error);
  // The most bytes that results, scratch, frames of sub-graphs and tapes took at one time.
  size_t peak_size() const { return peak_; }

 private:
  struct Cell;

  template <bool watched>
  Status go(Frame* frame);
  Status do_step(Step& step, Frame* frame, Frame** inner);
  template <bool watched>
  Status finish(Frame** frame, bool* done);
  Status bind(const Step& step, Frame* frame);
  Status begin_stage(uint32_t stage, Frame* frame);
  void end_stages(Frame* frame);
  Status fit(Routine& routine, uint32_t stage);
  Status enter(Routine& routine, Frame* caller, void* const* inputs, void* const* outputs, Frame** frame);
  void leave(Frame* frame);
  void drop_tapes(const Frame& frame);
  Status enter_loop(const Step& step, Frame* frame, Frame** condition);
  Status turn(const Routine& routine);
  Status look_around();
  Status push(const Step& step, void* const* at);
  Status pop(const Step& step, void* const* at);
  Status watch(Step& step, const Frame& frame, int64_t start);
  void record(const Step& step, const Routine& routine, int64_t start, int64_t end);
  bool afford(size_t bytes);
  Status stop(Status status, const char* format, ...);

  const RunOptions& options_;
  Sizes& sizes_;
  Frame* top_ = nullptr;          // the entry's
  Frame* at_ = nullptr;           // the one at work
  int64_t deadline_ = INT64_MAX;  // in nanoseconds of the clock
  int64_t fuel_ = 0;              // cost that may be spent before the clock is looked at again
  int64_t steps_ = 0;             // nodes that have run or are about to
  int32_t depth_ = 0;
  size_t bytes_ = 0;  // of memory that this run uses
  size_t peak_ = 0;   // the most that it used so far
  size_t taped_ = 0;  // of those in use, what lies on tapes
  char reason_[sizeof(Error::text)] = "";
};

}  // namespace lite
