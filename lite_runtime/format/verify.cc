// What an index may say. Hostile files end here.

#include "format/verify.h"

#include <algorithm>

#include "core/utf8.h"
#include "format/container.h"
#include "format/verify_control.h"
#include "format/verify_names.h"
#include "format/verify_sizes.h"
#include "format/verify_updates.h"

namespace lite {
namespace {

constexpr uint32_t kMaxEntries = 4096;
constexpr uint32_t kMaxSymbols = 4096;
constexpr uint32_t kMaxNodes = 1 << 16;
constexpr size_t kMaxSegments = 256;
constexpr int32_t kMaxWords = 1024;
constexpr uint32_t kWeightUnit = 16;

// What a file may hold, table by table. Each function below checks one kind of row.
class Verifier {
 public:
  Verifier(const Model& model, Error& error) : model_(model), index_(model.index()), error_(error) {}

  Status check() {
    LITE_TRY(check_tables());
    LITE_TRY(check_names());
    LITE_TRY(check_symbols());
    LITE_TRY(check_expressions());
    for (size_t& end : segment_ends_) end = 0;
    for (uint8_t& group : segment_groups_) group = kNoGroup;
    for (uint32_t i = 0; i < model_.weights(); ++i) LITE_TRY(check_weight(i));
    for (uint32_t i = 0; i < model_.entries(); ++i) {
      if (!is_name(model_.entry(i).name())) return bad_entry(i, "its name is outside the names");
    }
    for (uint32_t i = 0; i < model_.entries(); ++i) LITE_TRY(check_entry(i));
    LITE_TRY(verify_names(model_, error_));
    LITE_TRY(verify_control(model_, error_));
    LITE_TRY(verify_sizes(model_, error_));
    return verify_updates(model_, error_);
  }

 private:
  static constexpr uint8_t kNoGroup = 255;

  Status bad(const char* what) { return error_.set(Status::kBadFile, "index: %s", what); }

  bool in_pool(uint64_t at, uint64_t size) const {
    const uint64_t words = length(index_.pool());
    return at <= words && size <= words - at;
  }

  // Offsets name whole strings: 0, or the byte behind the end of another one.
  bool is_name(uint32_t at) const {
    const auto& names = *index_.names();
    return at < names.size() && (at == 0 || names.Get(at - 1) == 0);
  }

  bool is_word(int32_t word) const { return is_number(word) || expression_of(word) < length(index_.expressions()); }
  bool is_size(int32_t word) const { return is_word(word) && (!is_number(word) || word >= 0); }

  static bool is_tape(const format::Value& value) {
    return value.dtype() == static_cast<uint8_t>(DType::tape) && value.rank() == 0;
  }

  Status check_tables() {
    if (index_.pool() == nullptr || index_.names() == nullptr) return bad("no pool or no names");
    if (model_.entries() == 0 || model_.entries() > kMaxEntries) return bad("want 1 to 4096 entries");
    if (length(index_.segments()) > kMaxSegments) return bad("want at most 256 segments");
    if (model_.symbols() > kMaxSymbols) return bad("want at most 4096 free dimensions");
    if (model_.weights() > uint32_t{1} << 28) return bad("too many weights");
    return Status::kOk;
  }

  Status check_names() {
    const auto& names = *index_.names();
    if (names.size() == 0 || names.Get(0) != 0 || names.Get(names.size() - 1) != 0) {
      return bad("names do not start and end with a zero byte");
    }
    if (!is_text(names.data(), names.size())) return bad("names are not UTF-8, or hold control characters");
    for (uint32_t i = 0; i < length(index_.metadata()); ++i) {
      for (const auto* text : {index_.metadata()->Get(i)->key(), index_.metadata()->Get(i)->value()}) {
        if (text == nullptr || !is_text(text->Data(), text->size(), true)) return bad("metadata is not UTF-8");
      }
    }
    return Status::kOk;
  }

  Status check_symbols() {
    for (uint32_t i = 0; i < model_.symbols(); ++i) {
      const format::Symbol& symbol = model_.symbol(i);
      if (!is_name(symbol.name()) || *model_.name(symbol.name()) == 0 || symbol.low() < 0 ||
          symbol.low() > symbol.high()) {
        return error_.set(Status::kBadFile, "free dimension %u: sizes %d to %d; want a name and at least 0", i,
                          symbol.low(), symbol.high());
      }
    }
    return Status::kOk;
  }

  // Each has tokens of its own: together they are no longer than the pool.
  Status check_expressions() {
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < length(index_.expressions()); ++i) {
      const format::Range& range = *index_.expressions()->Get(i);
      const char* wrong = in_pool(range.at(), range.size())
                              ? check_expression({model_.pool(range.at()), range.size()}, model_.symbols())
                              : "lies outside the pool";
      tokens += range.size();
      if (wrong == nullptr && tokens > length(index_.pool())) wrong = "all together have more tokens than the pool";
      if (wrong != nullptr) return error_.set(Status::kBadFile, "expression %u: %s", i, wrong);
    }
    return Status::kOk;
  }

  // Constants and frozen weights, trainable weights, and state do not share a segment.
  static uint8_t group_of(WeightKind kind) {
    return kind == WeightKind::frozen ? static_cast<uint8_t>(WeightKind::constant) : static_cast<uint8_t>(kind);
  }

  Status check_weight(uint32_t id) {
    const format::Weight& w = model_.weight(id);
    if (!is_dtype(w.dtype()) || w.kind() > static_cast<uint8_t>(WeightKind::frozen) || w.rank() > kMaxRank ||
        w.segment() >= length(index_.segments()) || !is_name(w.name()) || !in_pool(w.shape(), w.rank())) {
      return error_.set(Status::kBadFile, "weight %u: type %d, kind %d, rank %d, segment %d: no such thing", id,
                        w.dtype(), w.kind(), w.rank(), w.segment());
    }
    uint64_t elements = 1;  // as if no size were 0, so that a part of the sizes cannot overflow either
    for (int i = 0; i < w.rank(); ++i) {
      const int32_t size = model_.pool(w.shape())[i];
      if (size < 0 || (elements *= static_cast<uint64_t>(std::max(size, 1))) > kMaxElements) {
        return error_.set(Status::kBadFile, "weight %u: size %d is %d; want less than 2^31 elements", id, i, size);
      }
    }
    const format::Segment& segment = *index_.segments()->Get(w.segment());
    const uint64_t begin = uint64_t{w.offset()} * kWeightUnit;
    const uint64_t size = elements_of(w) * size_of(static_cast<DType>(w.dtype()));
    size_t& end = segment_ends_[w.segment()];
    if (begin < end || begin > segment.size() || size > segment.size() - begin) {
      return error_.set(
          Status::kBadFile, "weight %u: bytes [%llu, +%llu) of segment %d; want them behind %zu and in it", id,
          static_cast<unsigned long long>(begin), static_cast<unsigned long long>(size), w.segment(), end);
    }
    uint8_t& group = segment_groups_[w.segment()];
    const uint8_t own_group = group_of(static_cast<WeightKind>(w.kind()));
    if (group != kNoGroup && group != own_group) {
      return error_.set(Status::kBadFile, "weight %u: its segment holds another kind of weights", id);
    }
    group = own_group;
    const uint8_t* bytes = model_.bytes() + segment.offset();
    if (!all_zero(bytes + end, begin - end)) {
      return error_.set(Status::kBadFile, "weight %u: the gap before it is not zero", id);
    }
    end = begin + size;
    return are_bools(model_.weight_tensor(id))
               ? Status::kOk
               : error_.set(Status::kBadFile, "weight %u: a bool that is not 0 or 1", id);
  }

  uint64_t elements_of(const format::Weight& w) const {
    uint64_t elements = 1;
    for (int i = 0; i < w.rank(); ++i) elements *= static_cast<uint32_t>(model_.pool(w.shape())[i]);
    return elements;
  }

  Status bad_entry(uint32_t number, const char* what) {
    return error_.set(Status::kBadFile, "entry %u: %s", number, what);
  }

  Status check_entry(uint32_t number) {
    const format::Entry& entry = model_.entry(number);
    const char* name = model_.name(entry.name());
    if (*name != 0 && model_.find_entry(name) != static_cast<int>(number)) {
      return bad_entry(number, "another one has its name");
    }
    if (length(entry.value_names()) > length(entry.values())) return bad_entry(number, "more names than values");
    if (length(entry.nodes()) > kMaxNodes) return bad_entry(number, "more than 65536 nodes");
    if (length(entry.sources()) != 0 && length(entry.sources()) != length(entry.nodes())) {
      return bad_entry(number, "want no sources, or one a node");
    }
    if (!all_names(entry.value_names()) || !all_names(entry.sources()) || !all_names(entry.output_names())) {
      return bad_entry(number, "a name is outside the names");
    }
    for (uint32_t i = 0; i < length(entry.values()); ++i) LITE_TRY(check_value(number, i));
    LITE_TRY(check_inputs(number));
    for (uint32_t i = 0; i < length(entry.nodes()); ++i) LITE_TRY(check_node(number, i));
    if (defined_ != model_.weights() + length(entry.values())) return bad_entry(number, "a value is never computed");
    return check_outputs(number);
  }

  bool all_names(const flatbuffers::Vector<uint32_t>* offsets) const {
    for (uint32_t i = 0; i < length(offsets); ++i) {
      if (!is_name(offsets->Get(i))) return false;
    }
    return true;
  }

  Status check_value(uint32_t number, uint32_t i) {
    const format::Value& value = *model_.entry(number).values()->Get(i);
    bool good =
        (is_dtype(value.dtype()) || is_tape(value)) && value.rank() <= kMaxRank && in_pool(value.shape(), value.rank());
    for (int k = 0; good && k < value.rank(); ++k) good = is_size(model_.pool(value.shape())[k]);
    if (good) return Status::kOk;
    return error_.set(Status::kBadFile, "entry %u, value %u: type %d of rank %d with a shape at %u: no such thing",
                      number, i, value.dtype(), value.rank(), value.shape());
  }

  // The first values of an entry are its inputs, in order; all have different names.
  Status check_inputs(uint32_t number) {
    const format::Entry& entry = model_.entry(number);
    defined_ = model_.weights();
    if (length(entry.inputs()) > length(entry.values())) return bad_entry(number, "more inputs than values");
    for (uint32_t i = 0; i < length(entry.inputs()); ++i) {
      if (entry.inputs()->Get(i) != defined_++) return bad_entry(number, "its first values are not its inputs");
    }
    return Status::kOk;
  }

  Status check_outputs(uint32_t number) {
    const format::Entry& entry = model_.entry(number);
    if (length(entry.output_names()) != length(entry.outputs())) return bad_entry(number, "want a name an output");
    for (uint32_t i = 0; i < length(entry.outputs()); ++i) {
      if (entry.outputs()->Get(i) >= defined_) return bad_entry(number, "an output is never computed");
    }
    return Status::kOk;
  }

  Status bad_node(uint32_t number, uint32_t i, const OpInfo* op, const char* what) {
    return error_.set(Status::kBadFile, "entry %u, node %u (%s): %s", number, i, op ? op->name : "?", what);
  }

  Status check_node(uint32_t number, uint32_t i) {
    const format::Node& node = *model_.entry(number).nodes()->Get(i);
    const OpInfo* op = find_op(node.op());
    if (op == nullptr) {
      return error_.set(Status::kBadFile, "entry %u, node %u: operator code %d is unknown to this version", number, i,
                        node.op());
    }
    ids_ += node.inputs() + node.outputs();
    if (!in_pool(node.ids(), node.inputs() + node.outputs()) || ids_ > length(index_.pool())) {
      return bad_node(number, i, op, "its ids lie outside the pool");
    }
    const int32_t* ids = model_.pool(node.ids());
    LITE_TRY(check_node_inputs(number, i, op, ids));
    LITE_TRY(check_node_outputs(number, i, op, ids));
    return check_attrs(number, i, op, node.attrs());
  }

  Status check_node_inputs(uint32_t number, uint32_t i, const OpInfo* op, const int32_t* ids) {
    const format::Node& node = *model_.entry(number).nodes()->Get(i);
    const bool any = op->most_inputs < 0;
    if (node.inputs() < op->fewest_inputs || (!any && node.inputs() > op->most_inputs)) {
      return bad_node(number, i, op, "wrong number of inputs");
    }
    for (int k = 0; k < node.inputs(); ++k) {
      const bool left_out = ids[k] == -1 && k >= op->fewest_inputs && !any;
      if (!left_out && (ids[k] < 0 || static_cast<uint32_t>(ids[k]) >= defined_)) {
        return bad_node(number, i, op, "an input is not computed before it");
      }
    }
    return Status::kOk;
  }

  Status check_node_outputs(uint32_t number, uint32_t i, const OpInfo* op, const int32_t* ids) {
    const format::Entry& entry = model_.entry(number);
    const format::Node& node = *entry.nodes()->Get(i);
    if (op->results >= 0 && node.outputs() != op->results) return bad_node(number, i, op, "wrong number of results");
    for (int k = 0; k < node.outputs(); ++k) {
      const int32_t id = ids[node.inputs() + k];
      if (k < op->updates) {
        if (id != ids[k] || !is_writable(id) || *model_.name(entry.name()) == 0) {
          return bad_node(number, i, op, "may only overwrite its own input, a trainable weight or state");
        }
      } else if (static_cast<uint32_t>(id) != defined_++) {
        return bad_node(number, i, op, "its results are not numbered in order");
      }
    }
    if (defined_ > model_.weights() + length(entry.values()))
      return bad_node(number, i, op, "more results than values");
    return Status::kOk;
  }

  bool is_writable(int32_t id) const {
    if (id < 0 || static_cast<uint32_t>(id) >= model_.weights()) return false;
    const auto kind = static_cast<WeightKind>(model_.weight(static_cast<uint32_t>(id)).kind());
    return kind == WeightKind::trainable || kind == WeightKind::state;
  }

  // Walks the attributes' words; how many there are follows from the operator.
  Status check_attrs(uint32_t number, uint32_t i, const OpInfo* op, uint32_t at) {
    const int32_t* choices = op->choices;
    for (const char* kind = op->attrs; *kind != 0; ++kind) {
      if (!in_pool(at, 1)) return bad_node(number, i, op, "its attributes lie outside the pool");
      const int32_t word = *model_.pool(at++);
      bool good = true;
      if (*kind == 'i') good = is_word(word);
      if (*kind == 'b') good = word == 0 || word == 1;
      if (*kind == 'c') good = word >= 0 && word < *choices++;
      if (*kind == 'g') good = word >= 0 && static_cast<uint32_t>(word) < model_.entries() && is_subgraph(word);
      if (*kind == 'I') {
        good = word >= 0 && word <= kMaxRank && in_pool(at, static_cast<uint32_t>(word));
        for (int k = 0; good && k < word; ++k) good = is_word(*model_.pool(at++));
      }
      if (*kind == 'W') {
        good = word >= 0 && word <= kMaxWords && in_pool(at, static_cast<uint32_t>(word));
        at += good ? static_cast<uint32_t>(word) : 0;
      }
      if (!good) {
        return error_.set(Status::kBadFile, "entry %u, node %u (%s): attribute %d is out of range", number, i, op->name,
                          static_cast<int>(kind - op->attrs));
      }
    }
    return Status::kOk;
  }

  bool is_subgraph(int32_t entry) const { return *model_.name(model_.entry(static_cast<uint32_t>(entry)).name()) == 0; }

  const Model& model_;
  const format::Index& index_;
  Error& error_;
  size_t segment_ends_[kMaxSegments];
  uint8_t segment_groups_[kMaxSegments];
  uint32_t defined_ = 0;  // ids below it can be read: weights, and values that are computed so far
  uint64_t ids_ = 0;      // how many ids the nodes so far have
};

}  // namespace

Status verify_index(const Model& model, Error& error) { return Verifier(model, error).check(); }

}  // namespace lite
