#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rossby {

/// How long each of several trainings is measured, which come round `rounds` times, so that all of it takes
/// `seconds` at most. What the first round took says what is to come.
class Pace {
 public:
  /// `each`: seconds that a training is measured where there is time for it; as long again goes by before:
  /// data, memory, first steps.
  Pace(std::size_t trainings, int rounds, double each, double seconds)
      : each_(each), left_(seconds), took_(trainings), later_rounds_(rounds - 1) {}

  /// Seconds to measure the next one.
  [[nodiscard]] double next() const {
    if (ahead_ <= left_) return each_;
    return each_ * std::max(2 * left_ / ahead_ - 1, least);
  }
  /// It took so many in all.
  void took(std::size_t training, int round, double seconds) {
    left_ -= seconds;
    if (round > 0) {
      ahead_ -= took_[training];
    } else {
      took_[training] = seconds;
      ahead_ += later_rounds_ * seconds;
    }
  }

  static constexpr double least = 0.1;  // of `each`, where there is no time left

 private:
  double each_, left_;
  double ahead_ = 0;  // seconds of what is to come, if it takes as long as in the first round
  std::vector<double> took_;
  int later_rounds_;
};

}  // namespace rossby
