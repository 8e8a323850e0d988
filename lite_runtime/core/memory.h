#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace lite {

// An object on the heap; null: no memory. It comes from malloc: `operator new`, even the one that says so instead of
// throwing, brings a part of the C++ library that is larger than this runtime's own kernels for a model.
template <typename T, typename... Args>
[[nodiscard]] T* create(Args&&... args) {
  static_assert(alignof(T) <= alignof(std::max_align_t), "malloc aligns for it");
  void* memory = std::malloc(sizeof(T));
  return memory != nullptr ? new (memory) T(std::forward<Args>(args)...) : nullptr;
}

// Ends one of those, or nothing.
template <typename T>
void destroy(T* object) {
  if (object == nullptr) return;
  object->~T();
  std::free(object);
}

}  // namespace lite
