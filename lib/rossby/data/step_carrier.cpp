#include "rossby/data/step_carrier.hpp"

#include <algorithm>

namespace rossby {

StepCarrier::StepCarrier(Device& device, Index width) : device_(&device), width_(width) {
  for (Half& half : halves_) {
    half.arrived = device.driver().make_event();
    half.read = device.driver().make_event();
  }
}

StepCarrier::~StepCarrier() {
  for (Half& half : halves_) {
    device_->driver().drop_event(half.arrived);
    device_->driver().drop_event(half.read);
  }
}

void StepCarrier::bring(std::span<const Index> steps, const std::function<const float*(Index)>& values) {
  Half& half = halves_[1 - reading_];
  DeviceDriver& driver = device_->driver();
  driver.wait(half.arrived);  // earlier copies may still read the pinned memory
  half.steps.assign(steps.begin(), steps.end());
  const Index size = std::ssize(steps) * width_;
  if (size == 0) return;
  if (half.there.size() < size) {
    half.pinned = Buffer<float>::pinned(size + size / 8, *device_);
    half.there = Buffer<float>(size + size / 8, *device_);
    device_->wait();  // until it is zeroed: copies use another queue
  }
  float* to = half.pinned.data();
  for (const Index step : steps) to = std::copy_n(values(step), width_, to);
  driver.follow(DeviceDriver::Queue::in, half.read);
  driver.travel_in(half.there.data(), half.pinned.data(), static_cast<std::size_t>(size) * sizeof(float));
  driver.record(half.arrived, DeviceDriver::Queue::in);
}

void StepCarrier::turn() {
  DeviceDriver& driver = device_->driver();
  driver.record(halves_[reading_].read, DeviceDriver::Queue::compute);
  reading_ = 1 - reading_;
  driver.follow(DeviceDriver::Queue::compute, halves_[reading_].arrived);
}

const float* StepCarrier::at(Index step) const {
  const Half& half = halves_[reading_];
  const auto found = std::lower_bound(half.steps.begin(), half.steps.end(), step);
  if (found == half.steps.end() || *found != step) return nullptr;
  return half.there.data() + width_ * (found - half.steps.begin());
}

}  // namespace rossby
