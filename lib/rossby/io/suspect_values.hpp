#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "rossby/base/index.hpp"

namespace rossby {

/// Counts values that look like marks of missing values that no attribute names: −999, −9999, −99999, and
/// 1e15 or more in size.
class SuspectValues {
 public:
  void look_at(float value);
  /// Sum these over ranks.
  [[nodiscard]] std::span<double> counts() { return counts_; }
  [[nodiscard]] bool any() const;
  /// "12 values are -9999, 3 are 1e15 or more in size"; empty if there are none.
  [[nodiscard]] std::string text() const;

 private:
  static constexpr std::array<float, 3> marks = {-999.0F, -9999.0F, -99999.0F};
  static constexpr float huge = 1e15F;
  std::array<double, marks.size() + 1> counts_{};
};

/// Throws UserError if variations of this size are too small to be squared in float32. `of` names the file
/// and the variable.
void require_float_range(std::string_view of, std::string_view units, double variation);

}  // namespace rossby
