#pragma once

#include <cstddef>
#include <cstdint>

// Sizes that depend on free dimensions: postfix tokens for a small stack machine (docs/model_file.md).

namespace lite {

// A word of the pool is a number, or stands for an expression where it is below this.
constexpr int32_t kLowestNumber = -(1 << 30);
inline bool is_number(int32_t word) { return word >= kLowestNumber; }
inline uint32_t expression_of(int32_t word) { return static_cast<uint32_t>(word) - 0x80000000u; }

struct Tokens {
  const int32_t* data;
  uint32_t size;
};

// What is wrong with an expression, or null: every token is known, every symbol is one of `symbols`, the stack never
// runs empty or over, and one value is left.
const char* check_expression(Tokens tokens, uint32_t symbols);

// The value of a checked expression. False: a symbol without a value, which is below 0, a division by less than 1, or a
// result beyond 64 bits.
bool evaluate(Tokens tokens, const int32_t* symbols, int64_t* value);

// The number of the symbol that a checked expression consists of, or -1.
int lone_symbol(Tokens tokens);

// A checked expression as people write it, such as "batch*2 + 1", in a buffer of `capacity` bytes; cut where it is too
// long. `symbol_name(context, k)` names symbol k.
using SymbolName = const char* (*)(const void* context, uint32_t symbol);
void expression_text(Tokens tokens, SymbolName symbol_name, const void* context, char* text, size_t capacity);

}  // namespace lite
