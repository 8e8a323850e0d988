#pragma once

#include <cstdint>
#include <ctime>

namespace lite {

// Nanoseconds of a clock that never goes back.
inline int64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

}  // namespace lite
