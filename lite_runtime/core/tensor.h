#pragma once

#include <cstddef>
#include <cstdint>

#include "core/attrs.h"

namespace lite {

// Element types; the numbers are those of ir/dtype.py and of model files. A `tape` is a stack of tensors: an opaque
// value that only the operators of control flow take and give.
enum class DType : uint8_t {
  none = 0,
  f32 = 1,
  f16 = 2,
  i8 = 3,
  u8 = 4,
  i32 = 5,
  i64 = 6,
  boolean = 7,
  f64 = 8,
  tape = 9,
  i16 = 10
};

constexpr size_t size_of(DType dtype) {
  constexpr size_t kSizes[] = {0, 4, 2, 1, 1, 4, 8, 1, 8, 8, 2};
  return kSizes[static_cast<int>(dtype)];
}

// Whether a number is that of a type of elements.
constexpr bool is_dtype(int code) {
  return code > static_cast<int>(DType::none) && code <= static_cast<int>(DType::i16) &&
         code != static_cast<int>(DType::tape);
}

constexpr const char* name_of(DType dtype) {
  constexpr const char* kNames[] = {"none", "f32", "f16", "i8", "u8", "i32", "i64", "bool", "f64", "tape", "i16"};
  return kNames[static_cast<int>(dtype)];
}

// A dense, row-major tensor that someone else owns. An optional input that is left out has the
// type `none`. A rank of 0 is a scalar.
struct Tensor {
  void* data = nullptr;
  Ints shape;
  DType dtype = DType::none;

  bool present() const { return dtype != DType::none; }
  int rank() const { return shape.size; }
  // Size along `axis`; a negative axis counts from the end.
  int dim(int axis) const { return shape.data[axis < 0 ? axis + shape.size : axis]; }

  int64_t elements() const {
    int64_t n = 1;
    for (int size : shape) n *= size;
    return n;
  }
  size_t size_bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  float* f32() const { return as<float>(); }
  int8_t* i8() const { return as<int8_t>(); }
  int16_t* i16() const { return as<int16_t>(); }
  int32_t* i32() const { return as<int32_t>(); }
};

// Whether the bytes of a tensor of type bool are 0 or 1; those of other types may be anything.
inline bool are_bools(const Tensor& tensor) {
  if (tensor.dtype != DType::boolean) return true;
  const uint8_t* x = tensor.as<uint8_t>();
  const int64_t n = tensor.elements();
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] > 1) return false;
  }
  return true;
}

}  // namespace lite
