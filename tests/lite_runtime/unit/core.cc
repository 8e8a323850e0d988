// Tests of hashes, expressions, texts, arenas and the words of fused programs.

#include <cstdio>
#include <cstring>

#include "core/array.h"
#include "core/sha256.h"
#include "core/utf8.h"
#include "format/expression.h"
#include "kernels/fused.h"
#include "testing.h"

namespace {

bool hash_is(const char* text, size_t repeats, const char* hex) {
  lite::Sha256 sha;
  for (size_t i = 0; i < repeats; ++i) sha.update(text, std::strlen(text));
  uint8_t hash[lite::Sha256::kSize];
  sha.finish(hash);
  char found[65];
  for (int i = 0; i < 32; ++i) std::snprintf(found + 2 * i, 3, "%02x", hash[i]);
  return std::strcmp(found, hex) == 0;
}

void test_sha256() {
  expect(hash_is("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "sha256 of abc");
  expect(hash_is("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), "sha256 of nothing");
  expect(hash_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
         "sha256 of two blocks");
  expect(hash_is("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
         "sha256 of a million letters in pieces");
#if defined(__x86_64__)
  if (lite::sha256_has_instructions()) {
    uint8_t bytes[4 * 64];
    Random random;
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random.below(256));
    uint32_t plain[8] = {1, 2, 3, 4, 5, 6, 7, 8}, fast[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    lite::sha256_blocks(plain, bytes, 4);
    lite::sha256_blocks_x86(fast, bytes, 4);
    expect(std::memcmp(plain, fast, sizeof plain) == 0, "sha256 is the same with the processor's instructions");
  }
#endif
}

constexpr int32_t kBase = INT32_MIN, kAdd = kBase, kMul = kBase + 1, kDiv = kBase + 2, kMin = kBase + 3,
                  kMax = kBase + 4, kX = kBase + 16, kY = kBase + 17;

template <size_t n>
lite::Tokens tokens(const int32_t (&words)[n]) {
  return {words, n};
}

const char* symbol_name(const void*, uint32_t symbol) { return symbol == 0 ? "x" : "y"; }

template <size_t n>
void expect_expression(const int32_t (&words)[n], int64_t value, const char* text) {
  const int32_t symbols[] = {7, 2};
  int64_t found = 0;
  char written[64];
  expect(lite::check_expression(tokens(words), 2) == nullptr, text);
  expect(lite::evaluate(tokens(words), symbols, &found) && found == value, text);
  lite::expression_text(tokens(words), symbol_name, nullptr, written, sizeof written);
  expect(std::strcmp(written, text) == 0, text);
}

void test_expressions() {
  expect_expression({kX}, 7, "x");
  expect_expression({kX, kY, kAdd}, 9, "x + y");
  expect_expression({kX, 3, kAdd, kY, kMul}, 20, "(x + 3)*y");
  expect_expression({kX, kY, 2, kMul, kDiv}, 1, "x//(y*2)");
  expect_expression({-1, kX, kMul, kY, kDiv}, -4, "-1*x//y");  // rounds down
  expect_expression({kX, kY, kDiv, 2, kMul}, 6, "(x//y)*2");
  expect_expression({kX, kY, kMin, kX, kMax, 1, kAdd}, 8, "max(min(x, y), x) + 1");

  const int32_t symbols[] = {7, 2};
  int64_t value;
  const int32_t by_zero[] = {kX, kY, -2, kAdd, kDiv};
  expect(!lite::evaluate(tokens(by_zero), symbols, &value), "a division by zero has no value");
  int32_t huge[40];
  for (int i = 0; i < 40; ++i) huge[i] = i == 0 || i % 2 == 1 ? INT32_MAX : kMul;
  huge[39] = kMul;
  expect(lite::check_expression({huge, 3}, 2) == nullptr && lite::evaluate({huge, 3}, symbols, &value), "2^62 fits");
  expect(!lite::evaluate({huge, 7}, symbols, &value), "a product beyond 64 bits has no value");

  const int32_t lacks[] = {kX, kAdd}, two[] = {kX, kY}, unknown[] = {kX, kY, kBase + 5}, third[] = {kBase + 18};
  expect(lite::check_expression(tokens(lacks), 2) != nullptr, "an operation needs two operands");
  expect(lite::check_expression(tokens(two), 2) != nullptr, "one value is left");
  expect(lite::check_expression(tokens(unknown), 2) != nullptr, "operations are known");
  expect(lite::check_expression(tokens(third), 2) != nullptr, "symbols are in range");
  expect(lite::check_expression({lacks, 0}, 2) != nullptr, "an expression is not empty");
  char text[4];
  lite::expression_text({huge, 3}, symbol_name, nullptr, text, sizeof text);
  expect(std::strcmp(text, "214") == 0, "a text is cut where it is too long");
}

bool is_text(const char* text) { return lite::is_text(reinterpret_cast<const uint8_t*>(text), std::strlen(text)); }

void test_texts() {
  expect(is_text("conv1/größe \xF0\x9F\x98\x80"), "UTF-8 is text");
  expect(!is_text("a\nb") && !is_text("\x1b[2J") && !is_text("\x7f"), "control characters are no names");
  expect(!is_text("\xC3") && !is_text("\xC0\xAF") && !is_text("\xED\xA0\x80") && !is_text("\xF4\x90\x80\x80"),
         "cut, overlong and impossible sequences are no text");
}

// Allocators other than glibc's, those of the sanitizers and of Android, refuse what C11 does not allow.
void test_arenas() {
  for (const size_t size : {size_t{1}, size_t{65}, (size_t{4} << 20) - 64, (size_t{4} << 20) + 64, size_t{6} << 20}) {
    lite::Arena arena;
    expect(arena.reserve(size) && arena.size() >= size, "an arena has any size");
    expect(reinterpret_cast<uintptr_t>(arena.data()) % lite::Arena::kAlignment == 0, "an arena is aligned");
    arena.data()[size - 1] = 1;
#if defined(MADV_HUGEPAGE)
    const size_t page = size < lite::Arena::kLargePage ? lite::Arena::kAlignment : lite::Arena::kLargePage;
    expect(reinterpret_cast<uintptr_t>(arena.data()) % page == 0,
           "an arena starts with a large page where it fills one");
#endif
  }
}

// Whatever the counts of a program say, reading it neither overflows nor looks beyond its words.
void test_counts_of_programs() {
  for (int at = 0; at < 3; ++at) {
    for (const int32_t count : {INT32_MIN, -1, 0, INT32_MAX}) {
      int32_t words[3] = {1, 0, 1};
      words[at] = count;
      lite::FusedProgram program;
      expect(!program.read(words, 3, 1), "a program of three words has no instruction");
    }
  }
}

}  // namespace

void test_core() {
  test_counts_of_programs();
  test_arenas();
  test_sha256();
  test_expressions();
  test_texts();
}
