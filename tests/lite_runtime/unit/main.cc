// Tests of parts that cannot be reached from outside: lite_unit_tests [MODEL]. Prints a line for each failure; exits
// with their number. testing.h says what MODEL is.

#include <cstdio>

#include "testing.h"

namespace {

int failures = 0;

}  // namespace

void expect(bool good, const char* sentence) {
  if (good) return;
  std::printf("FAIL %s\n", sentence);
  ++failures;
}

int main(int argc, char** argv) {
  if (argc > 1) test_runs(argv[1]);
  test_core();
  test_plans();
  test_threads();
  return failures > 100 ? 100 : failures;
}
