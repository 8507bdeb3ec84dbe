#include <gtest/gtest.h>

#include "tests/support/exit_code.hpp"

// GoogleTest's main, except that a program whose tests were all skipped says so to CTest.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return rossby::test::exit_code(RUN_ALL_TESTS());
}
