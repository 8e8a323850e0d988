// Postfix expressions of sizes: check, evaluate, print.

#include "format/expression.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace lite {
namespace {

constexpr uint32_t kMaxTokens = 256;
constexpr int kMaxDepth = 64;
constexpr uint32_t kFirstSymbol = 16;  // tokens below it, counted from -2^31, are operations

enum Operation : uint32_t { kAdd, kMul, kFloorDiv, kMin, kMax, kOperations };

bool is_operation(int32_t token) { return !is_number(token) && expression_of(token) < kFirstSymbol; }
uint32_t symbol_of(int32_t token) { return expression_of(token) - kFirstSymbol; }

bool apply(uint32_t operation, int64_t a, int64_t b, int64_t* y) {
  switch (operation) {
    case kAdd:
      return !__builtin_add_overflow(a, b, y);
    case kMul:
      return !__builtin_mul_overflow(a, b, y);
    case kFloorDiv:
      if (b < 1) return false;
      *y = a / b - (a % b < 0 ? 1 : 0);
      return true;
    case kMin:
      *y = std::min(a, b);
      return true;
    default:
      *y = std::max(a, b);
      return true;
  }
}

// Text that grows to the end of a buffer and is cut there.
struct Writer {
  char* text;
  size_t capacity;
  size_t size;

  void put(const char* part) {
    const size_t n = std::min(std::strlen(part), capacity - 1 - size);
    std::memcpy(text + size, part, n);
    text[size += n] = 0;
  }
};

struct Printer {
  Tokens tokens;
  SymbolName symbol_name;
  const void* context;
  Writer out;

  // Where the expression whose last token is at `last` begins.
  int begin_of(int last) const {
    int wanted = 1, at = last + 1;
    while (wanted > 0) wanted += is_operation(tokens.data[--at]) ? 1 : -1;
    return at;
  }

  // How tightly the surroundings bind decides about brackets.
  enum Place { kAlone, kFactor, kDivisor };

  void print(int last, Place place) {
    const int32_t token = tokens.data[last];
    if (!is_operation(token)) return print_leaf(token);
    const uint32_t operation = expression_of(token);
    const int left = begin_of(last - 1) - 1, right = last - 1;
    if (operation == kMin || operation == kMax) {
      out.put(operation == kMin ? "min(" : "max(");
      print(left, kAlone);
      out.put(", ");
      print(right, kAlone);
      return out.put(")");
    }
    const bool brackets = place == kDivisor || (place == kFactor && operation != kMul);
    if (brackets) out.put("(");
    print(left, operation == kAdd ? kAlone : kFactor);
    out.put(operation == kAdd ? " + " : operation == kMul ? "*" : "//");
    print(right, operation == kAdd ? kAlone : operation == kMul ? kFactor : kDivisor);
    if (brackets) out.put(")");
  }

  void print_leaf(int32_t token) {
    char number[16];
    std::snprintf(number, sizeof number, "%d", token);
    out.put(is_number(token) ? number : symbol_name(context, symbol_of(token)));
  }
};

}  // namespace

const char* check_expression(Tokens tokens, uint32_t symbols) {
  if (tokens.size == 0 || tokens.size > kMaxTokens) return "want 1 to 256 tokens";
  int depth = 0;
  for (uint32_t i = 0; i < tokens.size; ++i) {
    const int32_t token = tokens.data[i];
    if (is_operation(token)) {
      if (expression_of(token) >= kOperations) return "unknown operation";
      if (depth < 2) return "an operation lacks its operands";
      --depth;
    } else {
      if (!is_number(token) && symbol_of(token) >= symbols) return "unknown symbol";
      if (++depth > kMaxDepth) return "the stack is deeper than 64";
    }
  }
  return depth == 1 ? nullptr : "want one value at the end";
}

bool evaluate(Tokens tokens, const int32_t* symbols, int64_t* value) {
  int64_t stack[kMaxDepth];
  int depth = 0;
  for (uint32_t i = 0; i < tokens.size; ++i) {
    const int32_t token = tokens.data[i];
    if (!is_operation(token)) {
      stack[depth++] = is_number(token) ? token : symbols[symbol_of(token)];
      if (!is_number(token) && stack[depth - 1] < 0) return false;
      continue;
    }
    --depth;
    if (!apply(expression_of(token), stack[depth - 1], stack[depth], &stack[depth - 1])) return false;
  }
  *value = stack[0];
  return true;
}

int lone_symbol(Tokens tokens) {
  if (tokens.size != 1 || is_number(tokens.data[0]) || is_operation(tokens.data[0])) return -1;
  return static_cast<int>(symbol_of(tokens.data[0]));
}

void expression_text(Tokens tokens, SymbolName symbol_name, const void* context, char* text, size_t capacity) {
  text[0] = 0;
  Printer printer{tokens, symbol_name, context, {text, capacity, 0}};
  printer.print(static_cast<int>(tokens.size) - 1, Printer::kAlone);
}

}  // namespace lite
