#include "rossby/kernels/queue_clock.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/occupy.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

QueueClock::~QueueClock() {
  for (void* timer : timers_) exec_.device->driver().drop_event(timer);
}

std::size_t QueueClock::mark() {
  DeviceDriver& driver = exec_.device->driver();
  if (next_ == timers_.size()) timers_.push_back(driver.make_timer());
  driver.record(timers_[next_], DeviceDriver::Queue::compute);
  return next_++;
}

std::size_t QueueClock::hold(double seconds) {
  occupy(exec_, seconds);
  return mark();
}

double QueueClock::seconds_of_a_mark() {
  constexpr std::size_t marks = 65;
  start_anew();
  (void)hold(200e-6);
  std::vector<double> between;
  for (std::size_t k = 0; k < marks; ++k) (void)mark();
  exec_.device->wait();
  for (std::size_t k = 0; k < marks; ++k) between.push_back(seconds(k, k + 1));
  std::nth_element(between.begin(), between.begin() + marks / 2, between.end());
  start_anew();
  return between[marks / 2];
}

double QueueClock::seconds(std::size_t from, std::size_t to) const {
  require(from <= to && to < next_, "marks that were made");
  return exec_.device->driver().seconds_between(timers_[from], timers_[to]);
}

void occupy(const Exec& exec, double seconds) {
  if (on_device(exec.backend)) run_on_device<occupy>(exec, seconds);
}

}  // namespace rossby
