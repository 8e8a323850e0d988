#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace lite {

// A heap array whose size is set once. Unlike std::vector it says when there is no memory.
template <typename T>
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept { *this = std::move(other); }
  Array& operator=(Array&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Array() { clear(); }

  // Replaces the elements by `size` new ones, each value-initialised. False: no memory.
  [[nodiscard]] bool allocate(size_t size) {
    static_assert(alignof(T) <= alignof(std::max_align_t), "malloc aligns for it");
    clear();
    if (size > SIZE_MAX / sizeof(T)) return false;
    data_ = static_cast<T*>(std::malloc(size > 0 ? size * sizeof(T) : 1));
    if (data_ == nullptr) return false;
    for (; size_ < size; ++size_) new (data_ + size_) T();
    return true;
  }

  size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void clear() {
    for (T& element : *this) element.~T();
    std::free(data_);
    data_ = nullptr;
    size_ = 0;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
};

// Bytes on a 64-byte boundary: tensors, and model files that are not mapped.
class Arena {
 public:
  static constexpr size_t kAlignment = 64, kLargePage = size_t{1} << 21;
  template <typename Size>
  static constexpr Size round_up(Size size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  }

  Arena() = default;
  Arena(Arena&& other) noexcept { *this = std::move(other); }
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Arena() { std::free(data_); }

  // At least `size` bytes; what was there is kept only if it was large enough. False: no memory.
  [[nodiscard]] bool reserve(size_t size) {
    if (data_ != nullptr && size <= size_) return true;
    std::free(data_);
    size_ = round_up(size > 0 ? size : 1);
    data_ = size_ < size ? nullptr : static_cast<unsigned char*>(allocate(size_));
    if (data_ == nullptr) size_ = 0;
    return data_ != nullptr;
  }

  // `size` bytes, a multiple of kAlignment, which std::free ends; null: no memory. Linux makes them of large pages, as
  // far as they fill those: they are found by fewer lookups.
  static void* allocate(size_t size) {
#if defined(MADV_HUGEPAGE)
    if (size >= kLargePage) {
      void* bytes = nullptr;
      if (::posix_memalign(&bytes, kLargePage, size) != 0) return nullptr;
      ::madvise(bytes, size / kLargePage * kLargePage, MADV_HUGEPAGE);
      return bytes;
    }
#endif
    return std::aligned_alloc(kAlignment, size);
  }

  // The bytes, which std::free now ends.
  unsigned char* release() {
    size_ = 0;
    return std::exchange(data_, nullptr);
  }

  unsigned char* data() { return data_; }
  const unsigned char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  unsigned char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lite
