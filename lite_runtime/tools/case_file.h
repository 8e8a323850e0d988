#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "format/op_info.h"

// Reads the case files that ir/cases.py writes: sample calls of operators with expected results.

namespace lite {

struct CaseTensor {
  DType dtype = DType::none;
  Ints shape;
  std::vector<uint8_t> bytes;
};

struct Case {
  std::string label;
  const OpInfo* op = nullptr;
  std::vector<int32_t> attrs;                        // laid out as the operator's attribute struct
  std::shared_ptr<const std::vector<int32_t>> list;  // the attribute of kind words, where there is one
  size_t list_at = 0;                                // its place in `attrs`
  float tolerance = 0;
  std::vector<CaseTensor> in, want;

  void set_list(std::vector<int32_t> words) {
    list = std::make_shared<const std::vector<int32_t>>(std::move(words));
    WordList view;
    view.set(list->data(), static_cast<int32_t>(list->size()));
    std::memcpy(attrs.data() + list_at, &view, sizeof view);
  }
};

// A case file in memory. Every read is checked; after a failed one `ok` stays false.
class CaseReader {
 public:
  explicit CaseReader(const std::vector<uint8_t>& file) : at_(file.data()), left_(file.size()) {}

  bool ok() const { return ok_; }
  bool at_end() const { return left_ == 0; }

  // How many cases follow; false for another kind or version of file.
  int32_t header() {
    const int32_t magic = word(), version = word(), count = word();
    if (std::memcmp(&magic, "CASE", 4) != 0 || version != 1) ok_ = false;
    return count;
  }

  Case next() {
    Case c;
    const int32_t length = word();
    const uint8_t* text = take(length);
    if (ok_) c.label.assign(reinterpret_cast<const char*>(text), static_cast<size_t>(length));
    c.op = find_op(word());
    const int32_t words = word();
    const uint8_t* attrs = take(int64_t{words} * 4);
    if (c.op == nullptr || !ok_ || !lay_out(c, attrs, words)) ok_ = false;
    const int32_t tolerance = word();
    std::memcpy(&c.tolerance, &tolerance, 4);
    for (int32_t n = word(); n > 0 && ok_; --n) c.in.push_back(tensor());
    for (int32_t n = word(); n > 0 && ok_; --n) c.want.push_back(tensor());
    return c;
  }

 private:
  // The next `size` bytes, which padding follows up to a whole word.
  const uint8_t* take(int64_t size) {
    const int64_t padded = (size + 3) / 4 * 4;
    if (size < 0 || padded > static_cast<int64_t>(left_)) ok_ = false;
    if (!ok_) return nullptr;
    const uint8_t* bytes = at_;
    at_ += padded;
    left_ -= static_cast<size_t>(padded);
    return bytes;
  }

  int32_t word() {
    int32_t value = 0;
    const uint8_t* bytes = take(4);
    if (bytes != nullptr) std::memcpy(&value, bytes, 4);
    return value;
  }

  CaseTensor tensor() {
    CaseTensor t;
    const int32_t dtype = word();
    if (dtype != 0 && !is_dtype(dtype)) ok_ = false;
    if (dtype == 0 || !ok_) return t;
    t.dtype = static_cast<DType>(dtype);
    t.shape.size = word();
    if (t.shape.size < 0 || t.shape.size > kMaxRank) return ok_ = false, t;
    int64_t size = static_cast<int64_t>(size_of(t.dtype));
    for (int i = 0; i < t.shape.size && ok_; ++i) {
      const int32_t dim = t.shape.data[i] = word();
      if (dim < 0 || (size *= dim) > int64_t{1} << 31) ok_ = false;
    }
    const uint8_t* bytes = take(size);
    if (ok_) t.bytes.assign(bytes, bytes + size);
    return t;
  }

  // From the file's words, where a list has its own length, to the struct's, where it has room for 8.
  static bool lay_out(Case& c, const uint8_t* bytes, int words) {
    const std::vector<int32_t> file = [&] {
      std::vector<int32_t> out(static_cast<size_t>(words));
      if (words > 0) std::memcpy(out.data(), bytes, out.size() * 4);
      return out;
    }();
    size_t at = 0;
    for (const char* kind = c.op->attrs; *kind != 0; ++kind) {
      if (at == file.size()) return false;
      const int32_t value = file[at++];
      c.attrs.push_back(value);
      if (*kind == 'W') {
        if (value < 0 || at + static_cast<size_t>(value) > file.size()) return false;
        c.list_at = c.attrs.size() - 1;
        c.attrs.resize(c.list_at + sizeof(WordList) / sizeof(int32_t));
        c.set_list(std::vector<int32_t>(file.begin() + static_cast<int64_t>(at),
                                        file.begin() + static_cast<int64_t>(at) + value));
        at += static_cast<size_t>(value);
      }
      if (*kind != 'I') continue;
      if (value < 0 || value > kMaxRank || at + static_cast<size_t>(value) > file.size()) return false;
      for (int i = 0; i < kMaxRank; ++i) c.attrs.push_back(i < value ? file[at + static_cast<size_t>(i)] : 0);
      at += static_cast<size_t>(value);
    }
    c.attrs.push_back(0);  // so that an operator without attributes has an address for them
    return at == file.size();
  }

  const uint8_t* at_;
  size_t left_;
  bool ok_ = true;
};

}  // namespace lite
