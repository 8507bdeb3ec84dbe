#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

#include "rossby/base/error.hpp"

namespace rossby {

/// A function of one value that makes skewed data more symmetric, z = f(x + offset), and its inverse. The
/// inverse of a symmetric forecast of z is a median of x; the mean of x is larger.
struct Transform {
  enum class Kind { none, sqrt, log, asinh };
  Kind kind = Kind::none;
  double offset = 0;

  /// `name` is a value of data.transform.
  static Transform of(std::string_view name, double offset) {
    for (const auto& [text, kind] :
         {std::pair{"none", Kind::none}, {"sqrt", Kind::sqrt}, {"log", Kind::log}, {"asinh", Kind::asinh}})
      if (name == text) return {kind, kind == Kind::none ? 0 : offset};
    bug("data.transform is one of its choices");
  }

  [[nodiscard]] bool on() const { return kind != Kind::none; }
  /// True if f is defined at x.
  [[nodiscard]] bool takes(double x) const {
    return kind == Kind::sqrt ? x + offset >= 0 : kind == Kind::log ? x + offset > 0 : true;
  }
  [[nodiscard]] double forward(double x) const {
    switch (kind) {
      case Kind::none:
        return x;
      case Kind::sqrt:
        return std::sqrt(x + offset);
      case Kind::log:
        return std::log(x + offset);
      case Kind::asinh:
        return std::asinh(x + offset);
    }
    bug("a transform of a known kind");
  }
  /// The inverse. Below the range of sqrt, the value at the end of the range.
  [[nodiscard]] double inverse(double z) const { return mean(z, 0); }
  /// E[f⁻¹(z + e)] − offset for a normal e of this variance: z² + v, exp(z + v/2), sinh(z)·exp(v/2). With
  /// variance 0, the inverse.
  [[nodiscard]] double mean(double z, double variance) const {
    switch (kind) {
      case Kind::none:
        return z;
      case Kind::sqrt:
        return std::max(z, 0.0) * std::max(z, 0.0) + variance - offset;
      case Kind::log:
        return std::exp(z + 0.5 * variance) - offset;
      case Kind::asinh:
        return std::sinh(z) * std::exp(0.5 * variance) - offset;
    }
    bug("a transform of a known kind");
  }
};

}  // namespace rossby
