#pragma once

#include <cstdint>

namespace lite {

// What can go wrong. The numbers are part of the C ABI.
enum class Status : int32_t {
  kOk = 0,
  kBadArgument = 1,  // the caller's: an unknown name, a wrong shape or type
  kBadFile = 2,      // the model file is damaged, hostile or of another version
  kNoKernel = 3,     // no kernel for an operator and a type in this build
  kBadIndex = 4,     // data out of range: a label, a gather index
  kOutOfMemory = 5,
  kIo = 6,
  kNotFinite = 7,
  kCancelled = 8,
};

}  // namespace lite
