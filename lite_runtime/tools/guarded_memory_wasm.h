#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// What guarded_memory.h gives, where there are neither pages nor signals: memory ends where the module's ends, and a
// fault is a trap, which the module's host catches.

namespace lite {

constexpr int kTimeIsUp = -1;  // nobody can stop a kernel that runs too long

// Slots with known bytes before and behind each block, and one block at a time at the end of all memory, where a byte
// too far is a trap. Memory must not grow behind that: the module is linked with so much, and no more.
class GuardedMemory {
 public:
  static constexpr size_t kSlotBytes = size_t{1} << 22;
  static constexpr int kSlots = 32;

  // Null where the host has no memory. The heap must be in use by then: it first takes all the memory that there is.
  static GuardedMemory* create() {
    static GuardedMemory memory;
    const size_t pages = (size_t{kSlots} + 1) * kSlotBytes / kPageBytes, before = __builtin_wasm_memory_grow(0, pages);
    if (before == SIZE_MAX) return nullptr;
    memory.base_ = reinterpret_cast<uint8_t*>(before * kPageBytes);
    return &memory;
  }

  // How often to run a call of `blocks` blocks, so that each is at the end once, and which is now.
  static int turns(size_t blocks) { return static_cast<int>(blocks); }
  void turn(int block) { last_ = block; }

  // `size` bytes of rubbish in slot `i`, or at the end of memory; null when they do not fit.
  uint8_t* place(int i, size_t size) {
    if (i >= kSlots || size + 2 * kMargin > kSlotBytes) return nullptr;
    const bool last = i == last_;
    uint8_t* block = base_ + static_cast<size_t>((last ? kSlots : i) + 1) * kSlotBytes - size - (last ? 0 : kMargin);
    std::memset(block - kMargin, kRubbish, size + kMargin + (last ? 0 : kMargin));
    ends_[i] = last ? nullptr : block + size;
    return block;
  }

  // Whether nothing was written around block `i`.
  bool intact(int i, const uint8_t* block) const {
    return is_rubbish(block - kMargin) && (ends_[i] == nullptr || is_rubbish(ends_[i]));
  }

 private:
  static constexpr size_t kPageBytes = size_t{1} << 16;
  static constexpr size_t kMargin = 256;
  static constexpr uint8_t kRubbish = 0xA5;  // as a float, -2.9e-16; as an index, far out of range

  static bool is_rubbish(const uint8_t* from) {
    for (size_t i = 0; i < kMargin; ++i) {
      if (from[i] != kRubbish) return false;
    }
    return true;
  }

  uint8_t* base_ = nullptr;
  uint8_t* ends_[kSlots] = {};
  int last_ = 0;
};

inline void install_guard() {}

template <typename F>
auto without_alarm(const F& f) {
  return f();
}

// By the host: calls body(context); 1 where that traps.
extern "C" __attribute__((import_module("host"), import_name("survives"))) int host_survives(void (*body)(const void*),
                                                                                             const void* context);

// Calls f() and returns 0, or 1 where it traps.
template <typename F>
int survives(const F& f, int) {
  return host_survives([](const void* context) { (*static_cast<const F*>(context))(); }, &f);
}

}  // namespace lite
