// Names that tell things apart.

#include "format/verify_names.h"

#include <algorithm>
#include <cstring>

namespace lite {
namespace {

class Verifier {
 public:
  Verifier(const Model& model, Error& error) : model_(model), error_(error) {}

  Status check() {
    size_t most = std::max(model_.symbols(), model_.weights());
    for (uint32_t i = 0; i < model_.entries(); ++i) {
      const format::Entry& entry = model_.entry(i);
      most = std::max<size_t>({most, length(entry.value_names()), length(entry.output_names())});
    }
    if (!names_.allocate(most)) return error_.set(Status::kOutOfMemory, "no memory for %zu names", most);
    for (uint32_t i = 0; i < model_.symbols(); ++i) add(model_.symbol(i).name());
    if (const char* name = twice())
      return error_.set(Status::kBadFile, "free dimension %.60s: stands there twice", name);
    for (uint32_t i = 0; i < model_.weights(); ++i) {
      if (model_.weight(i).kind() != static_cast<uint8_t>(WeightKind::constant)) add(model_.weight(i).name());
    }
    if (const char* name = twice()) return error_.set(Status::kBadFile, "weight %.60s: stands there twice", name);
    for (uint32_t i = 0; i < model_.entries(); ++i) LITE_TRY(check_entry(i));
    return Status::kOk;
  }

 private:
  Status check_entry(uint32_t number) {
    const format::Entry& entry = model_.entry(number);
    const uint32_t named = std::min(length(entry.value_names()), length(entry.inputs()));
    for (uint32_t i = 0; i < named; ++i) add(entry.value_names()->Get(i));
    if (const char* name = twice()) {
      return error_.set(Status::kBadFile, "entry %u, input %.60s: stands there twice", number, name);
    }
    for (uint32_t i = 0; i < length(entry.output_names()); ++i) add(entry.output_names()->Get(i));
    const bool one_unnamed = length(entry.output_names()) - count_ < 2;
    const char* name = twice();
    if (name == nullptr && one_unnamed) return Status::kOk;
    return error_.set(Status::kBadFile, "entry %u, output %.60s: stands there twice", number, name ? name : "");
  }

  void add(uint32_t name) {
    if (*model_.name(name) != 0) names_[count_++] = name;
  }

  // A name that was added twice, or null; forgets them all. Strings are compared where their places differ, so that
  // a long one is not read once for each of its uses.
  const char* twice() {
    uint32_t* const begin = names_.begin();
    uint32_t* const end = begin + count_;
    count_ = 0;
    std::sort(begin, end);
    const uint32_t* found = std::adjacent_find(begin, end);
    if (found == end) {
      std::sort(begin, end,
                [&](uint32_t a, uint32_t b) { return a != b && std::strcmp(model_.name(a), model_.name(b)) < 0; });
      found = std::adjacent_find(
          begin, end, [&](uint32_t a, uint32_t b) { return std::strcmp(model_.name(a), model_.name(b)) == 0; });
    }
    return found == end ? nullptr : model_.name(*found);
  }

  const Model& model_;
  Error& error_;
  Array<uint32_t> names_;  // offsets of those that are looked at, none of them empty
  size_t count_ = 0;
};

}  // namespace

Status verify_names(const Model& model, Error& error) { return Verifier(model, error).check(); }

}  // namespace lite
