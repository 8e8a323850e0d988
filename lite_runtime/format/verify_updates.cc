// Weights that nodes overwrite.

#include "format/verify_updates.h"

#include <algorithm>

namespace lite {
namespace {

class Verifier {
 public:
  Verifier(const Model& model, Error& error) : model_(model), error_(error) {}

  Status check() {
    size_t most = 0;
    for (uint32_t i = 0; i < model_.entries(); ++i) most = std::max<size_t>(most, length(model_.entry(i).values()));
    if (!updated_.allocate(model_.weights()) || !read_.allocate(model_.weights()) || !shown_.allocate(most) ||
        !reached_.allocate(model_.entries()) || !open_.allocate(model_.entries())) {
      return error_.set(Status::kOutOfMemory, "no memory to check %u weights", model_.weights());
    }
    for (uint32_t i = 0; i < model_.entries(); ++i) {
      if (*model_.name(model_.entry(i).name()) != 0) LITE_TRY(check_entry(i));
    }
    return Status::kOk;
  }

 private:
  static constexpr int32_t kNone = -1;

  Status check_entry(uint32_t number) {
    entry_ = &model_.entry(number);
    mark_ = number + 1;
    bool updates = false;
    std::fill(shown_.begin(), shown_.begin() + length(entry_->values()), kNone);
    for (uint32_t i = 0; i < length(entry_->nodes()); ++i) LITE_TRY(walk_down(number, i, &updates));
    if (!updates) return Status::kOk;
    for (uint32_t i = 0; i < length(entry_->outputs()); ++i) read(static_cast<int32_t>(entry_->outputs()->Get(i)));
    for (uint32_t i = length(entry_->nodes()); i > 0; --i) LITE_TRY(walk_up(number, i - 1));
    return Status::kOk;
  }

  Status bad_node(uint32_t number, uint32_t i, const OpInfo& op, int32_t weight, const char* what) {
    return error_.set(Status::kBadFile, "entry %u, node %u (%s): overwrites weight %d, %s", number, i, op.name, weight,
                      what);
  }

  // What views show, and what is updated.
  Status walk_down(uint32_t number, uint32_t i, bool* updates) {
    const format::Node& node = *entry_->nodes()->Get(i);
    const OpInfo& op = *find_op(node.op());
    const int32_t* ids = model_.pool(node.ids());
    for (int k = 0; k < op.updates; ++k) {
      if (updated_[ids[k]] == mark_) return bad_node(number, i, op, ids[k], "which has been updated already");
      updated_[ids[k]] = mark_;
      *updates = true;
    }
    if (!op.view) return Status::kOk;
    const int32_t shown = is_weight(ids[0]) ? ids[0] : shown_[value_of(ids[0])];
    // A view from behind the update shows the new value.
    if (shown != kNone && updated_[shown] != mark_) shown_[value_of(ids[node.inputs()])] = shown;
    return Status::kOk;
  }

  // From the last node on: what is read behind a node.
  Status walk_up(uint32_t number, uint32_t i) {
    const format::Node& node = *entry_->nodes()->Get(i);
    const OpInfo& op = *find_op(node.op());
    const int32_t* ids = model_.pool(node.ids());
    for (int k = 0; k < op.updates; ++k) {
      if (read_[ids[k]] == mark_) return bad_node(number, i, op, ids[k], "whose old value is read behind it");
    }
    for (int k = 0; k < node.inputs(); ++k) read(ids[k]);
    open_count_ = 0;
    open_subgraphs(node);
    while (open_count_ > 0) read_all(model_.entry(open_[--open_count_]));
    return Status::kOk;
  }

  bool is_weight(int32_t id) const { return id >= 0 && static_cast<uint32_t>(id) < model_.weights(); }
  size_t value_of(int32_t id) const { return static_cast<uint32_t>(id) - model_.weights(); }

  // The id of a weight itself is its new value, once there is one.
  void read(int32_t id) {
    if (id < 0 || is_weight(id)) return;
    const int32_t weight = shown_[value_of(id)];
    if (weight != kNone) read_[weight] = mark_;
  }

  // The graphs among a node's attributes, which this entry has not reached yet.
  void open_subgraphs(const format::Node& node) {
    const int32_t* word = model_.pool(node.attrs());
    for (const char* kind = find_op(node.op())->attrs; *kind != 0; ++kind, ++word) {
      if (*kind == 'I' || *kind == 'W') word += *word;
      if (*kind != 'g' || reached_[*word] == mark_) continue;
      reached_[*word] = mark_;
      open_[open_count_++] = static_cast<uint32_t>(*word);
    }
  }

  void read_all(const format::Entry& graph) {
    const auto read_weight = [&](int32_t id) {
      if (is_weight(id)) read_[id] = mark_;
    };
    for (uint32_t i = 0; i < length(graph.nodes()); ++i) {
      const format::Node& node = *graph.nodes()->Get(i);
      for (int k = 0; k < node.inputs(); ++k) read_weight(model_.pool(node.ids())[k]);
      open_subgraphs(node);
    }
    for (uint32_t i = 0; i < length(graph.outputs()); ++i) read_weight(static_cast<int32_t>(graph.outputs()->Get(i)));
  }

  const Model& model_;
  Error& error_;
  const format::Entry* entry_ = nullptr;
  uint32_t mark_ = 0;               // of this entry
  Array<uint32_t> updated_, read_;  // by weight: the mark of the entry that did so last
  Array<int32_t> shown_;            // by value: the weight whose old value it shows, or kNone
  Array<uint32_t> reached_;         // by entry: the mark of the entry that has reached it
  Array<uint32_t> open_;            // reached graphs that are still to be read
  size_t open_count_ = 0;
};

}  // namespace

Status verify_updates(const Model& model, Error& error) { return Verifier(model, error).check(); }

}  // namespace lite
