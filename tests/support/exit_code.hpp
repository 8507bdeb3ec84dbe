#pragma once

#include <gtest/gtest.h>

namespace rossby::test {

/// The exit code that CTest counts as "skipped" (property SKIP_RETURN_CODE of every test).
constexpr int skipped_exit_code = 77;

/// Returns the exit code of a test program for the result of RUN_ALL_TESTS(): `result` if anything failed, 77
/// if every test was skipped, otherwise 0. A failure is never reported as a skip.
inline int exit_code(int result) {
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  if (result != 0 || unit.failed_test_count() > 0) return result != 0 ? result : 1;
  const bool all_skipped = unit.skipped_test_count() > 0 && unit.successful_test_count() == 0;
  return all_skipped ? skipped_exit_code : 0;
}

}  // namespace rossby::test
