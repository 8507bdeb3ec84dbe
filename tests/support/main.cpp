#include <gtest/gtest.h>

#include "tests/support/exit_code.hpp"

// GoogleTest's main, with exit code 77 if all tests were skipped, so that CTest reports a skip.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return rossby::test::exit_code(RUN_ALL_TESTS());
}
