#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/units.hpp"

namespace rossby::detail {

/// The NaN that replaces a finite value that float32 cannot hold. SuspectValues counts it.
inline constexpr float beyond_float = std::bit_cast<float>(0x7fc0b160U);

/// Converts the raw values of a variable to float32 in its units, NaN if missing: CF-1.8, chapters 2.5 and
/// 8.1, and appendix A of the NetCDF User Guide.
class Decoder {
 public:
  /// Throws UserError if scale_factor or add_offset is no number. `remarks` names attributes that are ignored
  /// or not read literally.
  Decoder(const ArrayFile& file, const NetcdfVariable& variable, std::optional<double> null_value,
          std::vector<std::string>& remarks);

  /// Raw is float or double. `center` is subtracted before the value becomes a float.
  template <class Raw>
  [[nodiscard]] float value(Raw raw, double center = 0) const {
    const double exact = number(raw);
    return static_cast<float>(std::isnan(exact) ? exact : exact - center);
  }

  /// The value itself, NaN if missing.
  template <class Raw>
  [[nodiscard]] double number(Raw raw) const {
    if (wraps_ != 0) raw = static_cast<Raw>(with_sign(static_cast<double>(raw)));
    for (const double m : missing_)
      if (is_mark(raw, m)) return nan_value;
    if (!stored_.holds(static_cast<double>(raw))) return nan_value;
    const double exact = in_float_ ? static_cast<double>(in_floats(static_cast<float>(raw)))
                         : packed_ ? static_cast<double>(raw) * scale_ + offset_
                                   : static_cast<double>(raw);
    if (!scaled_.holds(exact, rounding())) return nan_value;
    const auto value = static_cast<float>(exact);
    if (is_null(value) || is_missing(exact) || !std::isfinite(exact)) return nan_value;
    if (!std::isfinite(value)) return static_cast<double>(beyond_float);
    return converts_ ? exact * conversion_.factor + conversion_.offset : exact;
  }

  /// Converts later values to another unit; the null value stays in the file's unit.
  void convert(const UnitConversion& conversion) {
    conversion_ = conversion;
    converts_ = !conversion.is_identity();
  }

  /// Returns the marks of missing values if values are otherwise read as stored (but for non-finite ones).
  /// None if each value must go through `value`.
  [[nodiscard]] std::optional<std::vector<float>> marks_alone() const;
  /// Applies `value` to many values by these marks.
  static void read_row(const float* raw, Index count, const std::vector<float>& marks, float* out);
  /// The same in place: writes memory only at missing values.
  static void read_row(float* values, Index count, const std::vector<float>& marks);

  /// True if the values of a variable may be finer than float32: doubles, and integers that have more than 24
  /// bits or are packed and not unpacked in float.
  [[nodiscard]] bool finer_than_float() const { return finer_; }

 private:
  static constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

  struct Range {
    double low = -std::numeric_limits<double>::infinity(), high = -low;
    [[nodiscard]] bool holds(double x, double tolerance = 0) const {
      return x >= low - tolerance && x <= high + tolerance;
    }
  };

  void read_packing(const ArrayFile& file, const NetcdfVariable& variable, std::vector<std::string>& remarks);
  void read_missing(const ArrayFile& file, const NetcdfVariable& variable);
  void read_ranges(const ArrayFile& file, const NetcdfVariable& variable);
  [[nodiscard]] double with_sign(double value) const;

  /// A file may have rounded either the mark or the value, such as −99.9, to float32, but not the other.
  template <class Raw>
  static bool is_mark(Raw raw, double mark) {
    return raw == static_cast<Raw>(mark) ||
           (mark != std::round(mark) && static_cast<float>(raw) == static_cast<float>(mark));
  }
  [[nodiscard]] float in_floats(float raw) const {
    const float product = raw * static_cast<float>(scale_);
    return product + static_cast<float>(offset_);
  }
  /// Packed values are `scale` apart; equal ones may differ by rounding.
  [[nodiscard]] double rounding() const { return packed_ ? 1e-3 * std::abs(scale_) : 0; }
  [[nodiscard]] bool is_null(float value) const {
    if (!null_) return false;
    if (value == static_cast<float>(*null_)) return true;
    return packed_ && std::abs(static_cast<double>(value) - *null_) <= rounding();
  }
  [[nodiscard]] bool is_missing(double value) const {
    for (const double m : missing_scaled_)
      if (std::abs(value - m) <= rounding()) return true;
    return false;
  }

  double scale_ = 1, offset_ = 0;
  bool packed_ = false, in_float_ = false;  // arithmetic, as when zeros were packed
  bool finer_ = false;
  UnitConversion conversion_;
  bool converts_ = false;
  double wraps_ = 0;  // 2^bits if _Unsigned makes integers unsigned, −2^bits if signed; 0: as stored
  std::vector<double> missing_;         // as stored
  std::vector<double> missing_scaled_;  // of packed integers, in the variable's units
  Range stored_, scaled_;               // valid ranges, before and after scaling
  std::optional<double> null_;          // after scaling
};

}  // namespace rossby::detail
