#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "lite/lite.h"

// Arrays of Python as tensors of lite.h, and the other way round.

namespace lite::python {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// The types that DLPack and model files both have.
struct DTypeRow {
  lite_dtype code;
  nb::dlpack::dtype twin;
};

inline nb::dlpack::dtype twin(nb::dlpack::dtype_code code, uint8_t bits) {
  return {static_cast<uint8_t>(code), bits, 1};
}

inline const DTypeRow kDTypes[] = {
    {LITE_F32, twin(nb::dlpack::dtype_code::Float, 32)}, {LITE_F16, twin(nb::dlpack::dtype_code::Float, 16)},
    {LITE_I8, twin(nb::dlpack::dtype_code::Int, 8)},     {LITE_U8, twin(nb::dlpack::dtype_code::UInt, 8)},
    {LITE_I32, twin(nb::dlpack::dtype_code::Int, 32)},   {LITE_I64, twin(nb::dlpack::dtype_code::Int, 64)},
    {LITE_BOOL, twin(nb::dlpack::dtype_code::Bool, 8)},  {LITE_F64, twin(nb::dlpack::dtype_code::Float, 64)},
    {LITE_I16, twin(nb::dlpack::dtype_code::Int, 16)},
};

inline int32_t code_of(nb::dlpack::dtype dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.twin == dtype) return row.code;
  }
  return 0;  // no type of a model file: the session refuses it
}

inline nb::dlpack::dtype dtype_of(int32_t code) {
  for (const DTypeRow& row : kDTypes) {
    if (row.code == code) return row.twin;
  }
  return {};  // no tensor of a model's ends is a tape
}

struct Free {
  void operator()(void* bytes) const { std::free(bytes); }
};

// A copy of a tensor that Python will own.
struct Result {
  std::unique_ptr<unsigned char, Free> bytes;
  lite_tensor tensor;

  explicit Result(const lite_tensor& from)
      : bytes(static_cast<unsigned char*>(std::malloc(from.size_bytes > 0 ? from.size_bytes : 1))), tensor(from) {
    if (!bytes) throw std::bad_alloc();
    if (from.size_bytes > 0) std::memcpy(bytes.get(), from.data, from.size_bytes);
  }

  nb::object array() {
    size_t shape[LITE_MAX_RANK];
    for (int i = 0; i < tensor.rank; ++i) shape[i] = static_cast<size_t>(tensor.shape[i]);
    void* data = bytes.release();
    nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
    return nb::cast(
        nb::ndarray<nb::numpy>(data, static_cast<size_t>(tensor.rank), shape, owner, nullptr, dtype_of(tensor.dtype)));
  }
};

// An array where it lies. What no model file has, the session refuses.
inline lite_tensor tensor_of(const Array& array) {
  lite_tensor tensor = {};
  tensor.data = const_cast<void*>(array.data());
  tensor.size_bytes = array.nbytes();
  tensor.dtype = code_of(array.dtype());
  tensor.rank = static_cast<int32_t>(array.ndim());
  for (int32_t i = 0; i < tensor.rank && i < LITE_MAX_RANK; ++i) {
    const int64_t size = array.shape(static_cast<size_t>(i));
    tensor.shape[i] = size > INT32_MAX ? -1 : static_cast<int32_t>(size);
  }
  return tensor;
}

}  // namespace lite::python
