#pragma once

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Memory that notices when a kernel leaves it, and a way to survive that it did.

namespace lite {

constexpr int kTimeIsUp = SIGALRM;

// Slots that each end at a page which may not be touched. A block is placed at the very end of its
// slot, so that one byte too far is a fault; known bytes before it show writes in the other direction.
class GuardedMemory {
 public:
  static constexpr size_t kSlotBytes = size_t{1} << 24;
  static constexpr int kSlots = 32;

  // Null where the system has no memory.
  static GuardedMemory* create() {
    static GuardedMemory memory;
    void* base =
        mmap(nullptr, kSlots * kStride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    memory.base_ = static_cast<uint8_t*>(base);
    for (int i = 0; i < kSlots; ++i) {
      if (mprotect(memory.base_ + i * kStride + kSlotBytes, kGuardBytes, PROT_NONE) != 0) return nullptr;
    }
    return &memory;
  }

  // How often to run a call of `blocks` blocks, so that each is guarded: all are, always.
  static int turns(size_t) { return 1; }
  void turn(int) {}

  // `size` bytes of rubbish at the end of slot `i`; null when they do not fit.
  uint8_t* place(int i, size_t size) {
    if (i >= kSlots || size + kMargin > kSlotBytes) return nullptr;
    uint8_t* block = base_ + i * kStride + kSlotBytes - size;
    std::memset(block - kMargin, kRubbish, size + kMargin);
    return block;
  }

  // Whether nothing was written before the block of a slot.
  bool intact(int, const uint8_t* block) const {
    for (size_t i = 1; i <= kMargin; ++i) {
      if (block[-static_cast<ptrdiff_t>(i)] != kRubbish) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuardBytes = size_t{1} << 16;  // a multiple of every page size
  static constexpr size_t kStride = kSlotBytes + kGuardBytes;
  static constexpr size_t kMargin = 256;
  static constexpr uint8_t kRubbish = 0xA5;  // as a float, -2.9e-16; as an index, far out of range

  uint8_t* base_ = nullptr;
};

namespace guard {

inline sigjmp_buf jump;
inline thread_local volatile sig_atomic_t armed = 0;

inline void on_signal(int number) {
  if (armed == 0) {  // on another thread, or outside `survives`: nothing to go back to
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  armed = 0;
  siglongjmp(jump, number);
}

}  // namespace guard

inline void install_guard() {
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGALRM}) signal(number, guard::on_signal);
}

// f() on a thread whose children leave the alarm to it.
template <typename F>
auto without_alarm(const F& f) {
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  const auto result = f();
  pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  return result;
}

// After install_guard: calls f() and returns 0, or the number of the signal that ended it: a fault, or SIGALRM after
// `seconds`. Kernels own nothing, so leaving one in the middle leaks nothing.
template <typename F>
int survives(const F& f, int seconds) {
  const itimerval limit = {{0, 0}, {seconds, 0}}, off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &limit, nullptr);
  const int number = sigsetjmp(guard::jump, 1);
  if (number == 0) {
    guard::armed = 1;
    f();
  }
  guard::armed = 0;
  setitimer(ITIMER_REAL, &off, nullptr);
  return number;
}

}  // namespace lite
