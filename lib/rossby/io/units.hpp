#pragma once

#include <optional>
#include <string_view>

namespace rossby {

/// Conversion of values between two units: factor · value + offset.
struct UnitConversion {
  double factor = 1, offset = 0;

  [[nodiscard]] bool is_identity() const { return factor == 1 && offset == 0; }
  friend bool operator==(const UnitConversion&, const UnitConversion&) = default;
};

/// The conversion between two units as files write them: "hPa" and "Pa", "degC" and "K", "km/h" and "m s-1".
/// Units are products of powers of SI units with prefixes, of other units common in data (day, bar, litre,
/// knot, %, ppm) and of unknown words, each a unit of its own. None if the units are of different kinds.
[[nodiscard]] std::optional<UnitConversion> unit_conversion(std::string_view from, std::string_view to);

}  // namespace rossby
