#pragma once

#include <cstdint>

namespace lite {

// What a reader of model files must know of an operator; made from the table by ir/gen.py.
struct OpInfo {
  const char* name;
  int32_t code;
  int32_t fewest_inputs;
  int32_t most_inputs;  // -1: any number
  int32_t results;      // -1: any number, which sub-graphs decide
  int32_t updates;      // result i overwrites input i, a weight, for i < updates
  bool view;            // the result is input 0's bytes under another shape
  const char* attrs;    // one letter each: int, float, bool, I = ints, W = words, choice, graph
  int32_t choices[8];   // how many choices each attribute of kind choice has, in order
};

// The operator with this code, or null.
const OpInfo* find_op(int32_t code);

}  // namespace lite
