#pragma once

#include <array>
#include <span>
#include <string_view>

#include "rossby/base/error.hpp"

namespace rossby {

/// One term of a loss: scale · sum. The sum is local until the step's allreduce makes it global.
struct LossTerm {
  std::string_view name;
  double scale = 1;
  double sum = 0;
  [[nodiscard]] double value() const { return scale * sum; }
};

/// The terms of one step's loss. All ranks add the same terms in the same order.
class Losses {
 public:
  /// Returns the sum to accumulate into; the pointer is valid until clear().
  double* add(std::string_view name, double scale) {
    require(count_ < terms_.size(), "too many loss terms");
    terms_[count_] = {name, scale, 0};
    return &terms_[count_++].sum;
  }
  void clear() { count_ = 0, gradient_squares_ = 0; }
  [[nodiscard]] std::span<LossTerm> terms() { return {terms_.data(), count_}; }
  [[nodiscard]] std::span<const LossTerm> terms() const { return {terms_.data(), count_}; }
  /// Σ gradient² of all parameters, used if a step clips without waiting for the norm (Step).
  [[nodiscard]] double* gradient_squares() { return &gradient_squares_; }
  [[nodiscard]] double gradient_squares() const { return gradient_squares_; }
  [[nodiscard]] double total() const {
    double sum = 0;
    for (const LossTerm& term : terms()) sum += term.value();
    return sum;
  }
  [[nodiscard]] double value(std::string_view name) const {
    for (const LossTerm& term : terms())
      if (term.name == name) return term.value();
    return 0;
  }

 private:
  std::array<LossTerm, 8> terms_;
  std::size_t count_ = 0;
  double gradient_squares_ = 0;
};

}  // namespace rossby
