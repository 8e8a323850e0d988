// Opens a model file: in this order, nothing is believed before it is checked.

#include "format/model.h"

#include <cstring>

#include "format/container.h"
#include "format/verify.h"

namespace lite {
namespace {

constexpr uint16_t kMajor = 1;
constexpr uint32_t kWeightUnit = 16;  // Weight.offset counts in these

}  // namespace

Status Model::open(const char* path, ThreadPool* pool, Error& error) {
  LITE_TRY(file_.open(path, error));
  bytes_ = file_.data();
  size_ = file_.size();
  return verify(pool, error);
}

Status Model::open_memory(const void* bytes, size_t size, ThreadPool* pool, Error& error) {
  if (!copy_.reserve(size)) return error.set(Status::kOutOfMemory, "no memory for a model of %zu bytes", size);
  if (size > 0) std::memcpy(copy_.data(), bytes, size);
  bytes_ = copy_.data();
  size_ = size;
  return verify(pool, error);
}

Status Model::allow_writing(size_t begin, size_t end, uint8_t** bytes, Error& error) {
  *bytes = const_cast<uint8_t*>(bytes_);
  return file_.data() != nullptr ? file_.allow_writing(begin, end, error) : Status::kOk;
}

Status Model::verify(ThreadPool* pool, Error& error) {
  LITE_TRY(check_trailer(bytes_, size_, &index_size_, error));
  if (!format::IndexBufferHasIdentifier(bytes_)) {
    return error.set(Status::kBadFile, "index: want the file identifier %s", format::IndexIdentifier());
  }
  flatbuffers::Verifier::Options options;
  options.max_depth = 8;
  flatbuffers::Verifier verifier(bytes_, index_size_, options);
  if (!format::VerifyIndexBuffer(verifier)) return error.set(Status::kBadFile, "index: not a sound FlatBuffer");
  index_ = format::GetIndex(bytes_);
  // The FlatBuffers verifier looks at where a vector's length lies, and so lets 8-byte elements lie across.
  const auto* segments = index_->segments();
  if (segments != nullptr && reinterpret_cast<uintptr_t>(segments->data()) % alignof(format::Segment) != 0) {
    return error.set(Status::kBadFile, "index: the rows of segments are not aligned");
  }
  if (index_->major() != kMajor) {
    return error.set(Status::kBadFile, "format version %d: this reader knows version %d", index_->major(), kMajor);
  }
  LITE_TRY(check_segments(bytes_, size_, index_size_, *index_, pool, error));
  return verify_index(*this, error);
}

size_t Model::weight_offset(uint32_t id) const {
  const format::Weight& w = weight(id);
  return index_->segments()->Get(w.segment())->offset() + size_t{w.offset()} * kWeightUnit;
}

Tensor Model::weight_tensor(uint32_t id) const {
  const format::Weight& w = weight(id);
  Tensor tensor;
  tensor.data = const_cast<uint8_t*>(bytes_) + weight_offset(id);
  tensor.dtype = static_cast<DType>(w.dtype());
  tensor.shape.size = w.rank();
  std::memcpy(tensor.shape.data, pool(w.shape()), w.rank() * sizeof(int32_t));
  return tensor;
}

int Model::find_entry(const char* wanted) const {
  for (uint32_t i = 0; i < entries(); ++i) {
    const char* own = name(entry(i).name());
    if (*own != 0 && std::strcmp(own, wanted) == 0) return static_cast<int>(i);
  }
  return -1;
}

void Model::size_text(int32_t word, char* text, size_t capacity) const {
  if (is_number(word)) {
    std::snprintf(text, capacity, "%d", word);
    return;
  }
  const SymbolName symbol_name = [](const void* model, uint32_t k) {
    const Model& self = *static_cast<const Model*>(model);
    return self.name(self.symbol(k).name());
  };
  expression_text(expression(expression_of(word)), symbol_name, this, text, capacity);
}

}  // namespace lite
