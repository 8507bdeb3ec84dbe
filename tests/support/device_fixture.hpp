#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/test_device.hpp"

namespace rossby::test {

/// A test of kernels of a device, skipped where this machine has none of that back end.
class OnBackend : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    std::string reason;
    // Lists of one launch do not fit together: none may be lost for it.
    device_ = test_device(GetParam(), reason, {.staging_bytes = 1024});
    if (!device_) GTEST_SKIP() << "no GPU: " << reason;
  }
  /// The next launch runs its threads in another order than the launch after the last call of this did: a
  /// kernel that is tried three times is tried in each.
  void begin_with_next_order() {
    if (GetParam() != Backend::simulated) return;
    auto& driver = dynamic_cast<SimulatedDriver&>(device_->driver());
    driver.begin_with(static_cast<SimulatedDriver::Threads>(order_++ % 3));
  }
  [[nodiscard]] Exec exec() const { return {GetParam(), 1, widest_isa(), device_.get()}; }

  std::unique_ptr<Device> device_;

 private:
  int order_ = 0;
};

}  // namespace rossby::test
