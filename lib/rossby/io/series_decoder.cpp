#include "rossby/io/series_decoder.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby::detail {
namespace {

constexpr float largest = std::numeric_limits<float>::max();

bool is_real_type(const NetcdfVariable& variable) {
  return variable.type == NetcdfType::float32 || variable.type == NetcdfType::float64;
}

/// Reports numbers that a file stores as text, because another program may have ignored them.
void remark_on_text(const ArrayFile& file, const NetcdfVariable& variable,
                    std::vector<std::string>& remarks) {
  for (const char* name : {"scale_factor", "add_offset", "_FillValue", "missing_value", "valid_range",
                           "valid_min", "valid_max"}) {
    const auto text = file.text(variable, name);
    if (!text || text->empty()) continue;
    const std::vector<double> values = file.numbers(variable, name);
    remarks.push_back(values.empty()
                          ? fmt::format("{}: attribute {} = \"{}\" is text, not a number, and is ignored",
                                        variable.name, name, *text)
                          : fmt::format("{}: attribute {} = \"{}\" is text, and is read as the number {}",
                                        variable.name, name, *text, fmt::join(values, ", ")));
  }
}

/// Reports attributes whose names nearly match relevant ones. Files have them by mistake; values are then
/// read as stored.
void remark_on_names(const ArrayFile& file, const NetcdfVariable& variable,
                     std::vector<std::string>& remarks) {
  struct Near {
    const char *name, *right;
  };
  for (const auto& [name, right] : {Near{"FillValue", "_FillValue"},    {"_fillvalue", "_FillValue"},
                                    {"_Fillvalue", "_FillValue"},       {"fillvalue", "_FillValue"},
                                    {"fill_value", "_FillValue"},       {"_fill_value", "_FillValue"},
                                    {"Fill_Value", "_FillValue"},       {"_FILLVALUE", "_FillValue"},
                                    {"missing-value", "missing_value"}, {"missingvalue", "missing_value"},
                                    {"MissingValue", "missing_value"},  {"Missing_Value", "missing_value"},
                                    {"MISSING_VALUE", "missing_value"}, {"_missing_value", "missing_value"},
                                    {"nodata", "missing_value"},        {"NoData", "missing_value"},
                                    {"scale-factor", "scale_factor"},   {"Scale_Factor", "scale_factor"},
                                    {"SCALE_FACTOR", "scale_factor"},   {"scalefactor", "scale_factor"},
                                    {"scaleFactor", "scale_factor"},    {"scale", "scale_factor"},
                                    {"multiplier", "scale_factor"},     {"offset", "add_offset"},
                                    {"addOffset", "add_offset"},        {"_FillVal", "_FillValue"},
                                    {"fillValue", "_FillValue"},        {"undef", "missing_value"},
                                    {"missing", "missing_value"},       {"slope", "scale_factor"},
                                    {"Slope", "scale_factor"},          {"add-offset", "add_offset"},
                                    {"Add_Offset", "add_offset"},       {"ADD_OFFSET", "add_offset"},
                                    {"addoffset", "add_offset"},        {"intercept", "add_offset"},
                                    {"Intercept", "add_offset"}})
    if (file.has(variable, name) && !file.has(variable, right))
      remarks.push_back(
          fmt::format("{}: attribute {} is ignored. If {} is meant, rename the attribute (ncrename -a {},{})",
                      variable.name, name, right, name, right));
}

}  // namespace

Decoder::Decoder(const ArrayFile& file, const NetcdfVariable& variable, std::optional<double> null_value,
                 std::vector<std::string>& remarks)
    : null_(null_value) {
  if (const int bits = file.bits_of_other_sign(variable); bits != 0)
    wraps_ = std::copysign(std::exp2(std::abs(bits)), bits);
  read_packing(file, variable, remarks);
  read_missing(file, variable);
  read_ranges(file, variable);
  remark_on_text(file, variable, remarks);
  remark_on_names(file, variable, remarks);
}

void Decoder::read_packing(const ArrayFile& file, const NetcdfVariable& variable,
                           std::vector<std::string>& remarks) {
  for (const char* name : {"scale_factor", "add_offset"}) {
    const std::vector<double> values = file.numbers(variable, name);
    if (values.empty() && file.has(variable, name))
      user_error(
          "{}: variable {}: {} = \"{}\" is not a number, so its values cannot be unpacked. Write a number, "
          "or remove the attribute (ncatted -a {},{},…)",
          file.path(), variable.name, name, file.text(variable, name).value_or(""), name, variable.name);
    if (const auto text = file.text(variable, name); text && values.size() > 1)  // mostly a decimal comma
      user_error(
          "{}: variable {}: {} = \"{}\" is text with {} numbers, so its values cannot be unpacked. Write "
          "one number, such as 0.1 (ncatted -a {},{},o,d,0.1 …)",
          file.path(), variable.name, name, *text, values.size(), name, variable.name);
    if (values.size() > 1)
      remarks.push_back(fmt::format("{}: attribute {} has {} numbers. The first, {}, is used", variable.name,
                                    name, values.size(), values.front()));
  }
  const auto factor = file.number(variable, "scale_factor"), shift = file.number(variable, "add_offset");
  packed_ = factor || shift;
  if (!std::isfinite(factor.value_or(1)) || !std::isfinite(shift.value_or(0)))
    user_error(
        "{}: variable {}: scale_factor = {}, add_offset = {}: no value can be unpacked with these "
        "attributes. Write finite numbers, or remove the attributes",
        file.path(), variable.name, factor.value_or(1), shift.value_or(0));
  if (factor == 0.0)
    user_error(
        "{}: variable {}: scale_factor = 0 makes all values equal. Write the right factor, or remove the "
        "attribute",
        file.path(), variable.name);
  in_float_ = packed_ && file.unpacks_to_float(variable);
  scale_ = factor.value_or(1);
  offset_ = shift.value_or(0);
  finer_ = !in_float_ && (variable.type != NetcdfType::float32);
}

void Decoder::read_missing(const ArrayFile& file, const NetcdfVariable& variable) {
  for (const char* name : {"_FillValue", "missing_value"})
    for (const double value : file.numbers(variable, name)) {
      if (std::isnan(value)) continue;
      // An integer cannot be -99.9: the mark refers to the unpacked value.
      if (packed_ && !is_real_type(variable) && value != std::round(value))
        missing_scaled_.push_back(value);
      else
        missing_.push_back(file.is_real(variable, name) ? value : with_sign(value));
    }
  if (const auto fill = file.default_fill(variable); fill && !file.number(variable, "_FillValue"))
    missing_.push_back(with_sign(*fill));
}

void Decoder::read_ranges(const ArrayFile& file, const NetcdfVariable& variable) {
  const bool real = is_real_type(variable);
  // For integers that stand for real numbers, a real bound refers to the unpacked values: NetCDF User Guide,
  // appendix A.
  const auto bound = [&](const char* name, std::size_t place, bool is_high) {
    const auto values = file.numbers(variable, name);
    if (place >= values.size()) return;
    Range& range = packed_ && !real && file.is_real(variable, name) ? scaled_ : stored_;
    // Compare in the type of the data: 1.1 in double is no bound for 1.1 in float.
    const double value = variable.type == NetcdfType::float32
                             ? static_cast<double>(static_cast<float>(values[place]))
                         : file.is_real(variable, name) ? values[place]
                                                        : with_sign(values[place]);
    if (!std::isnan(value)) (is_high ? range.high : range.low) = value;
  };
  if (file.numbers(variable, "valid_range").size() == 2) {
    bound("valid_range", 0, false);
    bound("valid_range", 1, true);
  }
  bound("valid_min", 0, false);
  bound("valid_max", 0, true);
}

std::optional<std::vector<float>> Decoder::marks_alone() const {
  const auto open = [](const Range& range) { return std::isinf(range.low) && std::isinf(range.high); };
  if (wraps_ != 0 || packed_ || converts_ || !missing_scaled_.empty() || !open(stored_) || !open(scaled_))
    return std::nullopt;
  std::vector<float> marks;
  for (const double mark : missing_) marks.push_back(static_cast<float>(mark));
  if (null_) marks.push_back(static_cast<float>(*null_));
  return marks;
}

void Decoder::read_row(float* values, Index count, const std::vector<float>& marks) {
  if (marks.size() > 2) return read_row(values, count, marks, values);
  const float a = marks.empty() ? nan_value : marks.front(), b = marks.empty() ? nan_value : marks.back();
  constexpr Index block = 1024;
  for (Index first = 0; first < count; first += block) {
    float* some = values + first;
    const Index n = std::min(block, count - first);
    int bad = 0;
    for (Index i = 0; i < n; ++i) bad |= !(std::fabs(some[i]) <= largest) | (some[i] == a) | (some[i] == b);
    if (bad != 0) read_row(some, n, marks, some);
  }
}

void Decoder::read_row(const float* raw, Index count, const std::vector<float>& marks, float* out) {
  if (marks.size() <= 2) {  // one pass, without branches
    const float a = marks.empty() ? nan_value : marks.front(), b = marks.empty() ? nan_value : marks.back();
    for (Index i = 0; i < count; ++i) {
      const float x = raw[i];
      const bool good = (std::fabs(x) <= largest) & (x != a) & (x != b);
      out[i] = good ? x : nan_value;
    }
    return;
  }
  for (Index i = 0; i < count; ++i) {
    bool good = std::fabs(raw[i]) <= largest;
    for (const float mark : marks) good = good && raw[i] != mark;
    out[i] = good ? raw[i] : nan_value;
  }
}

/// Interprets an integer's sign as its attribute _Unsigned says (NetCDF User Guide, appendix A).
double Decoder::with_sign(double value) const {
  const bool turns = wraps_ > 0 ? value < 0 : value >= -wraps_ / 2;
  return turns ? value + wraps_ : value;
}

}  // namespace rossby::detail
