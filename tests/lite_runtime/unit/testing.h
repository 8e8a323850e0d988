#pragma once

#include <cstdint>

// What the tests of parts share, and the tests by subject.

// Prints the sentence as a failure and counts it, unless it holds.
void expect(bool good, const char* sentence);

// A small generator (xorshift), the same everywhere.
struct Random {
  uint32_t state = 2463534242u;
  uint32_t below(uint32_t n) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state % n;
  }
};

void test_core();
void test_plans();
void test_threads();
// On a model with an entry `train`, whose free dimensions may be 1 and 4 and whose integers may be 0.
void test_runs(const char* model);
