#pragma once

#include <gtest/gtest.h>

namespace rossby::test {

/// What CTest knows as "skipped" (property SKIP_RETURN_CODE of every test).
constexpr int skipped_exit_code = 77;

/// The exit code of a test program from what RUN_ALL_TESTS() returned: `result` where anything failed, 77
/// where nothing failed and every test that ran was skipped, 0 otherwise. A failure is never reported as a
/// skip.
inline int exit_code(int result) {
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  if (result != 0 || unit.failed_test_count() > 0) return result != 0 ? result : 1;
  const bool all_skipped = unit.skipped_test_count() > 0 && unit.successful_test_count() == 0;
  return all_skipped ? skipped_exit_code : 0;
}

}  // namespace rossby::test
