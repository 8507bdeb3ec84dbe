#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/test_device.hpp"

namespace rossby::testing {

/// A test of kernels of a device, skipped where this machine has none of that back end.
class OnBackend : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    std::string reason;
    // Lists of one launch do not fit together: none may be lost for it.
    device_ = test_device(GetParam(), reason, {.staging_bytes = 1024});
    if (!device_) GTEST_SKIP() << "no GPU: " << reason;
  }
  [[nodiscard]] Exec exec() const { return {GetParam(), 1, widest_isa(), device_.get()}; }

  std::unique_ptr<Device> device_;
};

}  // namespace rossby::testing
