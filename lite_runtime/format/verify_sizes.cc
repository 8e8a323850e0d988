// Sizes that graphs bind while they run: who may speak of them.

#include "format/verify_sizes.h"

#include <algorithm>

#include "gen/op_table.h"

namespace lite {
namespace {

constexpr uint32_t kBits = 64;

// Sets of free dimensions, one for each graph, as rows of bits.
class Sets {
 public:
  bool allocate(uint32_t sets, uint32_t symbols) {
    words_ = (symbols + kBits - 1) / kBits;
    return bits_.allocate(size_t{sets} * words_);
  }
  uint64_t* of(uint32_t set) { return bits_.data() + size_t{set} * words_; }
  uint32_t words() const { return words_; }

  static bool has(const uint64_t* set, uint32_t symbol) { return (set[symbol / kBits] >> (symbol % kBits) & 1) != 0; }
  static void add(uint64_t* set, uint32_t symbol) { set[symbol / kBits] |= uint64_t{1} << (symbol % kBits); }

 private:
  Array<uint64_t> bits_;
  uint32_t words_ = 0;
};

class Verifier {
 public:
  Verifier(const Model& model, Error& error) : model_(model), error_(error) {}

  Status check() {
    if (!any_binds()) return Status::kOk;
    const uint32_t graphs = model_.entries();
    // The last row of `bound_` are all that are bound anywhere; that of `known_` is for the walk.
    if (!bound_.allocate(graphs + 1, model_.symbols()) || !known_.allocate(graphs + 1, model_.symbols()) ||
        !called_.allocate(graphs) || !used_.allocate(graphs)) {
      return error_.set(Status::kOutOfMemory, "no memory to check %u graphs", graphs);
    }
    for (uint32_t g = 0; g < graphs; ++g) LITE_TRY(find_users(g));
    for (uint32_t g = graphs; g > 0; --g) pass_calls_on(g - 1);
    for (uint32_t g = 0; g < graphs; ++g) LITE_TRY(find_bound(g));
    for (uint32_t g = 0; g < graphs; ++g) {
      std::fill(known_.of(g), known_.of(g) + known_.words(), used_[g] != 0 && called_[g] == 0 ? ~uint64_t{0} : 0);
    }
    for (uint32_t g = graphs; g > 0; --g) LITE_TRY(check_graph(g - 1));
    return Status::kOk;
  }

 private:
  const format::Node& node(uint32_t graph, uint32_t i) const { return *model_.entry(graph).nodes()->Get(i); }
  uint32_t nodes(uint32_t graph) const { return length(model_.entry(graph).nodes()); }
  const int32_t* attrs(const format::Node& node) const { return model_.pool(node.attrs()); }
  static int graphs_of(const format::Node& node) {
    return node.op() == code::cond || node.op() == code::while_loop ? 2 : node.op() == code::call ? 1 : 0;
  }

  bool any_binds() const {
    for (uint32_t g = 0; g < model_.entries(); ++g) {
      for (uint32_t i = 0; i < nodes(g); ++i) {
        if (node(g, i).op() == code::bind_sizes) return true;
      }
    }
    return false;
  }

  Status bad(uint32_t graph, uint32_t i, const char* what) {
    return error_.set(Status::kBadFile, "entry %u, node %u: %s", graph, i, what);
  }

  // Which graphs are run by nodes, and which of them as functions. Branches and bodies stand before their users, so
  // that what follows needs one walk.
  Status find_users(uint32_t graph) {
    for (uint32_t i = 0; i < nodes(graph); ++i) {
      const format::Node& at = node(graph, i);
      for (int k = 0; k < graphs_of(at); ++k) {
        const uint32_t inner = static_cast<uint32_t>(attrs(at)[k]);
        used_[inner] = 1;
        if (at.op() == code::call) {
          called_[inner] = 1;
        } else if (inner >= graph) {
          return bad(graph, i, "runs a graph that does not stand before its own, where sizes are bound");
        }
      }
    }
    return Status::kOk;
  }

  void pass_calls_on(uint32_t graph) {
    for (uint32_t i = 0; called_[graph] != 0 && i < nodes(graph); ++i) {
      for (int k = 0; k < graphs_of(node(graph, i)); ++k) called_[attrs(node(graph, i))[k]] = 1;
    }
  }

  // What a graph and those inside of it bind.
  Status find_bound(uint32_t graph) {
    uint64_t* bound = bound_.of(graph);
    for (uint32_t i = 0; i < nodes(graph); ++i) {
      const format::Node& at = node(graph, i);
      for (int k = 0; k < graphs_of(at) && at.op() != code::call; ++k) {
        const uint64_t* inner = bound_.of(static_cast<uint32_t>(attrs(at)[k]));
        for (uint32_t w = 0; w < bound_.words(); ++w) bound[w] |= inner[w];
      }
    }
    for (uint32_t i = 0; i < nodes(graph); ++i) {
      const format::Node& at = node(graph, i);
      if (at.op() != code::bind_sizes) continue;
      if (called_[graph] != 0) return bad(graph, i, "a function binds a size");
      const int32_t count = attrs(at)[0];
      for (int32_t k = 1; k <= count; ++k) {
        const int32_t word = attrs(at)[k];
        const int symbol = is_number(word) ? -1 : lone_symbol(model_.expression(expression_of(word)));
        if (symbol < 0 || Sets::has(bound, static_cast<uint32_t>(symbol))) {
          return bad(graph, i, "binds what is no free dimension, or one that is bound elsewhere");
        }
        Sets::add(bound, static_cast<uint32_t>(symbol));
        Sets::add(bound_.of(model_.entries()), static_cast<uint32_t>(symbol));
      }
    }
    return Status::kOk;
  }

  bool is_known(int32_t word, const uint64_t* known) {
    if (is_number(word)) return true;
    const Tokens tokens = model_.expression(expression_of(word));
    const uint64_t* bound = bound_.of(model_.entries());
    for (uint32_t i = 0; i < tokens.size; ++i) {
      const int symbol = lone_symbol({tokens.data + i, 1});
      if (symbol >= 0 && Sets::has(bound, static_cast<uint32_t>(symbol)) &&
          !Sets::has(known, static_cast<uint32_t>(symbol))) {
        return false;
      }
    }
    return true;
  }

  bool knows_value(uint32_t graph, uint32_t id, const uint64_t* known) {
    if (id < model_.weights()) return true;
    const format::Value& value = *model_.entry(graph).values()->Get(id - model_.weights());
    for (int k = 0; k < value.rank(); ++k) {
      if (!is_known(model_.pool(value.shape())[k], known)) return false;
    }
    return true;
  }

  bool knows_attrs(const format::Node& at, const uint64_t* known) {
    const int32_t* word = attrs(at);
    for (const char* kind = find_op(at.op())->attrs; *kind != 0; ++kind) {
      const int32_t count = *kind == 'I' || *kind == 'W' ? *word++ : 1;
      for (int32_t k = 0; k < count && (*kind == 'i' || *kind == 'I'); ++k) {
        if (!is_known(word[k], known)) return false;
      }
      word += count;
    }
    return true;
  }

  // Node by node, with the sizes that are known there; graphs inside know what is known at all places that run them.
  Status check_graph(uint32_t graph) {
    const format::Entry& entry = model_.entry(graph);
    const uint64_t* before = known_.of(graph);
    uint64_t* known = known_.of(model_.entries());
    std::copy(before, before + known_.words(), known);
    bool good = true;
    for (uint32_t i = 0; i < length(entry.inputs()); ++i)
      good = good && knows_value(graph, entry.inputs()->Get(i), known);
    if (!good) return bad(graph, 0, "an input has a size that is bound later");
    for (uint32_t i = 0; i < nodes(graph); ++i) {
      const format::Node& at = node(graph, i);
      if (at.op() == code::bind_sizes) {
        for (int32_t k = 1; k <= attrs(at)[0]; ++k) {
          Sets::add(known, static_cast<uint32_t>(lone_symbol(model_.expression(expression_of(attrs(at)[k])))));
        }
      }
      good = knows_attrs(at, known);
      const int32_t* results = model_.pool(at.ids()) + at.inputs();
      for (int32_t k = 0; k < at.outputs(); ++k) {
        good = good && knows_value(graph, static_cast<uint32_t>(results[k]), known);
      }
      if (!good) return bad(graph, i, "speaks of a size before it is bound");
      for (int k = 0; k < graphs_of(at) && at.op() != code::call; ++k) {
        uint64_t* inner = known_.of(static_cast<uint32_t>(attrs(at)[k]));
        for (uint32_t w = 0; w < known_.words(); ++w) inner[w] &= known[w];
      }
    }
    const bool is_inner = *model_.name(entry.name()) == 0;
    for (uint32_t i = 0; is_inner && i < length(entry.outputs()); ++i) {
      if (!knows_value(graph, entry.outputs()->Get(i), before)) {
        return bad(graph, 0, "a result has a size that is bound inside");
      }
    }
    return Status::kOk;
  }

  const Model& model_;
  Error& error_;
  Sets bound_, known_;
  Array<uint8_t> called_, used_;
};

}  // namespace

Status verify_sizes(const Model& model, Error& error) { return Verifier(model, error).check(); }

}  // namespace lite
