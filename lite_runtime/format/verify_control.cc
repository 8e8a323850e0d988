// Nodes over sub-graphs.

#include "format/verify_control.h"

#include <algorithm>

#include "gen/op_table.h"

namespace lite {
namespace {

struct Type {
  uint8_t dtype, rank;
};

bool operator==(Type a, Type b) { return a.dtype == b.dtype && a.rank == b.rank; }

constexpr Type kTruth = {static_cast<uint8_t>(DType::boolean), 0};
constexpr Type kTape = {static_cast<uint8_t>(DType::tape), 0};

bool is_control(int32_t code) { return code >= code::cond && code <= code::pop; }

class Verifier {
 public:
  Verifier(const Model& model, Error& error) : model_(model), error_(error) {}

  Status check() {
    for (number_ = 0; number_ < model_.entries(); ++number_) {
      entry_ = &model_.entry(number_);
      if (*model_.name(entry_->name()) != 0) LITE_TRY(check_face());
      for (uint32_t i = 0; i < length(entry_->nodes()); ++i) LITE_TRY(check_node(i));
    }
    return Status::kOk;
  }

 private:
  Type type_of(const format::Entry& entry, uint32_t id) const {
    if (id < model_.weights()) return {model_.weight(id).dtype(), model_.weight(id).rank()};
    const format::Value& value = *entry.values()->Get(id - model_.weights());
    return {value.dtype(), value.rank()};
  }
  Type type_of(int32_t id) const { return type_of(*entry_, static_cast<uint32_t>(id)); }

  // Tapes are no business of callers.
  Status check_face() {
    for (const auto* ids : {entry_->inputs(), entry_->outputs()}) {
      for (uint32_t i = 0; i < length(ids); ++i) {
        if (type_of(*entry_, ids->Get(i)) == kTape) {
          return error_.set(Status::kBadFile, "entry %u: an input or output is a tape", number_);
        }
      }
    }
    return Status::kOk;
  }

  Status check_node(uint32_t i) {
    const format::Node& node = *entry_->nodes()->Get(i);
    const int32_t* ids = model_.pool(node.ids());
    const int32_t* end = ids + node.inputs() + node.outputs();
    const char* wrong = nullptr;
    if (is_control(node.op())) {
      wrong = check_control(node, ids, model_.pool(node.attrs()));
    } else if (std::any_of(ids, end, [&](int32_t id) { return id >= 0 && type_of(id) == kTape; })) {
      wrong = "takes or gives a tape";
    }
    if (wrong == nullptr) return Status::kOk;
    return error_.set(Status::kBadFile, "entry %u, node %u (%s): %s", number_, i, find_op(node.op())->name, wrong);
  }

  // What is wrong with a node of control flow, or null.
  const char* check_control(const format::Node& node, const int32_t* ids, const int32_t* attrs) const {
    const Row row{ids, node.inputs(), ids + node.inputs(), node.outputs()};
    switch (node.op()) {
      case code::cond:
        if (!(type_of(ids[0]) == kTruth)) return "its predicate is no single truth value";
        if (!takes(attrs[0], row, 1) || !takes(attrs[1], row, 1)) return "a branch takes other operands";
        return gives(attrs[0], row) && gives(attrs[1], row) ? nullptr : "a branch gives other results";
      case code::while_loop:
        if (!is_state(row)) return "its results are not of the types of its operands";
        if (!takes(attrs[0], row, 0) || !takes(attrs[1], row, 0)) return "its graphs take another state";
        if (!gives_truth(attrs[0])) return "its condition gives no single truth value";
        return gives(attrs[1], row) ? nullptr : "its body gives another state";
      case code::call:
        if (!takes(attrs[0], row, 0)) return "its function takes other operands";
        return gives(attrs[0], row) ? nullptr : "its function gives other results";
      case code::empty_tape:
        return type_of(ids[0]) == kTape ? nullptr : "its result is no tape";
      case code::push:
        return tapes(ids[0], ids[2], ids[1]) ? nullptr : "want a tape and a tensor, giving a tape";
      default:
        return tapes(ids[0], ids[1], ids[2]) ? nullptr : "want a tape, giving a tape and a tensor";
    }
  }

  struct Row {
    const int32_t* in;
    int32_t inputs;
    const int32_t* out;
    int32_t results;
  };

  bool tapes(int32_t a, int32_t b, int32_t element) const {
    return type_of(a) == kTape && type_of(b) == kTape && !(type_of(element) == kTape);
  }

  bool is_state(const Row& row) const {
    bool good = row.inputs == row.results;
    for (int32_t k = 0; good && k < row.inputs; ++k) good = type_of(row.in[k]) == type_of(row.out[k]);
    return good;
  }

  bool same_types(const format::Entry& inner, const flatbuffers::Vector<uint32_t>* own, const int32_t* ids,
                  int32_t count) const {
    bool good = static_cast<int32_t>(length(own)) == count;
    for (int32_t k = 0; good && k < count; ++k) {
      good = type_of(inner, own->Get(static_cast<uint32_t>(k))) == type_of(ids[k]);
    }
    return good;
  }
  bool takes(int32_t graph, const Row& row, int32_t skipped) const {
    const format::Entry& inner = model_.entry(static_cast<uint32_t>(graph));
    return same_types(inner, inner.inputs(), row.in + skipped, row.inputs - skipped);
  }
  bool gives(int32_t graph, const Row& row) const {
    const format::Entry& inner = model_.entry(static_cast<uint32_t>(graph));
    return same_types(inner, inner.outputs(), row.out, row.results);
  }
  bool gives_truth(int32_t graph) const {
    const format::Entry& inner = model_.entry(static_cast<uint32_t>(graph));
    return length(inner.outputs()) == 1 && type_of(inner, inner.outputs()->Get(0)) == kTruth;
  }

  const Model& model_;
  Error& error_;
  uint32_t number_ = 0;
  const format::Entry* entry_ = nullptr;
};

}  // namespace

Status verify_control(const Model& model, Error& error) { return Verifier(model, error).check(); }

}  // namespace lite
