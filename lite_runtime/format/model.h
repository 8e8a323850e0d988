#pragma once

#include "core/array.h"
#include "core/file.h"
#include "core/tensor.h"
#include "core/thread_pool.h"
#include "format/expression.h"
#include "format/op_info.h"
#include "gen/model_generated.h"

namespace lite {

constexpr int64_t kMaxElements = (int64_t{1} << 31) - 1;  // of one tensor

// What a weight is for; the numbers are those of model files.
enum class WeightKind : uint8_t { constant = 0, trainable = 1, state = 2, frozen = 3 };

// The length of a FlatBuffers vector that may be left out.
template <typename Vector>
uint32_t length(const Vector* vector) {
  return vector != nullptr ? vector->size() : 0;
}

// A model file, open and verified: whatever its bytes were, what the functions below return is in bounds.
class Model {
 public:
  // The pool's threads, if there is one, help to hash a large file.
  Status open(const char* path, ThreadPool* pool, Error& error);
  // Takes a copy of the bytes.
  Status open_memory(const void* bytes, size_t size, ThreadPool* pool, Error& error);

  const uint8_t* bytes() const { return bytes_; }
  // The same bytes, of which [begin, end) may be written from now on: what others read in the file stays as it is.
  Status allow_writing(size_t begin, size_t end, uint8_t** bytes, Error& error);
  size_t size() const { return size_; }
  size_t index_size() const { return index_size_; }
  const format::Index& index() const { return *index_; }

  const char* name(uint32_t offset) const { return reinterpret_cast<const char*>(index_->names()->data()) + offset; }
  const int32_t* pool(uint32_t at) const { return index_->pool()->data() + at; }

  uint32_t weights() const { return length(index_->weights()); }
  const format::Weight& weight(uint32_t id) const { return *index_->weights()->Get(id); }
  // Where its bytes lie in the file.
  size_t weight_offset(uint32_t id) const;
  // Whether runs may change it.
  bool is_writable(uint32_t id) const {
    const auto kind = static_cast<WeightKind>(weight(id).kind());
    return kind == WeightKind::trainable || kind == WeightKind::state;
  }
  // Its type, shape and bytes in the file, which must not be written but where `allow_writing` allowed it.
  Tensor weight_tensor(uint32_t id) const;

  uint32_t entries() const { return length(index_->entries()); }
  const format::Entry& entry(uint32_t number) const { return *index_->entries()->Get(number); }
  // The number of the entry with this name, or -1. The empty name is of no entry.
  int find_entry(const char* name) const;

  uint32_t symbols() const { return length(index_->symbols()); }
  const format::Symbol& symbol(uint32_t number) const { return *index_->symbols()->Get(number); }

  Tokens expression(uint32_t number) const {
    const format::Range& range = *index_->expressions()->Get(number);
    return {pool(range.at()), range.size()};
  }
  // A size as people write it, such as "8" or "batch*2", in a buffer of `capacity` bytes.
  void size_text(int32_t word, char* text, size_t capacity) const;

 private:
  Status verify(ThreadPool* pool, Error& error);

  MappedFile file_;
  Arena copy_;
  const uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
  size_t index_size_ = 0;
  const format::Index* index_ = nullptr;
};

}  // namespace lite
