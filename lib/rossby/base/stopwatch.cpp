#include "rossby/base/stopwatch.hpp"

#include <chrono>
#include <utility>

namespace rossby {
namespace {

std::int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_of(std::int64_t nanoseconds) {
  return 1e-9 * static_cast<double>(nanoseconds);
}

}  // namespace

Stopwatch::Stopwatch() : begin_(now()) {}

double Stopwatch::seconds() const {
  return seconds_of(now() - begin_);
}

double Stopwatch::restart() {
  const std::int64_t end = now();
  return seconds_of(end - std::exchange(begin_, end));
}

double Stopwatch::since(const Stopwatch& earlier) const {
  return seconds_of(begin_ - earlier.begin_);
}

}  // namespace rossby
