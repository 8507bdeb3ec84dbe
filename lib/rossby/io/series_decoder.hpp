#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/units.hpp"

namespace rossby::detail {

/// How the raw values of a variable become float32 in its units, NaN where missing: CF-1.8, chapters 2.5 and
/// 8.1, and appendix A of the NetCDF User Guide.
class Decoder {
 public:
  /// Throws UserError where scale_factor or add_offset is no number. Attributes that are read otherwise than
  /// they are written, or not at all, are named in `remarks`.
  Decoder(const ArrayFile& file, const NetcdfVariable& variable, std::optional<double> null_value,
          std::vector<std::string>& remarks);

  /// Raw is float or double. `center` is subtracted before the value becomes a float.
  template <class Raw>
  [[nodiscard]] float value(Raw raw, double center = 0) const {
    const double exact = number(raw);
    return std::isnan(exact) ? nan_value : static_cast<float>(exact - center);
  }

  /// The value itself, NaN where missing.
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
    if (!std::isfinite(value) || is_null(value) || is_missing(exact)) return nan_value;
    return converts_ ? exact * conversion_.factor + conversion_.offset : exact;
  }

  /// From now on values are in another unit; the null value stays one of the file's.
  void convert(const UnitConversion& conversion) {
    conversion_ = conversion;
    converts_ = !conversion.is_identity();
  }

  /// The marks of missing values, if values are as they are stored but for these (and what is not finite);
  /// none: each value goes through `value`.
  [[nodiscard]] std::optional<std::vector<float>> marks_alone() const;
  /// `value` of many, by these marks.
  static void read_row(const float* raw, Index count, const std::vector<float>& marks, float* out);
  /// The same in place: memory is written only where something is missing.
  static void read_row(float* values, Index count, const std::vector<float>& marks);

  /// Whether the values of a variable may be finer than float32: doubles, and integers of more than 24 bits
  /// or packed ones that are not unpacked in floats.
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

  /// Of −99.9 a file may have rounded the mark or the value to float32, and not the other.
  template <class Raw>
  static bool is_mark(Raw raw, double mark) {
    return raw == static_cast<Raw>(mark) ||
           (mark != std::round(mark) && static_cast<float>(raw) == static_cast<float>(mark));
  }
  [[nodiscard]] float in_floats(float raw) const {
    const float product = raw * static_cast<float>(scale_);
    return product + static_cast<float>(offset_);
  }
  /// Packed values are steps of `scale` apart: they are off by rounding where they mean the same.
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
  bool packed_ = false, in_float_ = false;  // the arithmetic, which makes the zeros that were packed
  bool finer_ = false;
  UnitConversion conversion_;
  bool converts_ = false;
  double wraps_ = 0;  // 2^bits of integers that _Unsigned says have no sign, −2^bits: have one; 0: as stored
  std::vector<double> missing_;         // as stored
  std::vector<double> missing_scaled_;  // of packed integers, in the units of the variable
  Range stored_, scaled_;               // that are valid, before and after scaling
  std::optional<double> null_;          // after scaling
};

}  // namespace rossby::detail
