#include "rossby/io/suspect_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <fmt/core.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/series_decoder.hpp"

namespace rossby {

void SuspectValues::look_at(float value) {
  if (value > -999.0F && value < huge) return;  // fast path for nearly all values
  constexpr auto sign = 0x80000000U, beyond = std::bit_cast<std::uint32_t>(detail::beyond_float);
  if ((std::bit_cast<std::uint32_t>(value) & ~sign) == beyond) ++counts_.back();
  if (std::abs(value) >= huge) ++counts_.back();
  for (std::size_t k = 0; k < marks.size(); ++k)
    if (value == marks[k]) ++counts_[k];
}

bool SuspectValues::any() const {
  return std::any_of(counts_.begin(), counts_.end(), [](double count) { return count > 0; });
}

std::string SuspectValues::text() const {
  std::string text;
  for (std::size_t k = 0; k < counts_.size(); ++k) {
    if (counts_[k] == 0) continue;
    text += fmt::format("{}{:.0f}{} {} {}", text.empty() ? "" : ", ", counts_[k],
                        !text.empty()     ? ""
                        : counts_[k] == 1 ? " value"
                                          : " values",
                        counts_[k] == 1 ? "is" : "are",
                        k < marks.size() ? fmt::format("{:g}", marks[k]) : "1e15 or more in size");
  }
  return text;
}

void require_float_range(std::string_view of, std::string_view units, double variation) {
  constexpr double least = 1e-15;
  if (!(variation > 0) || variation >= least) return;
  const std::string unit = units.empty() ? "" : fmt::format(" {}", units);
  user_error(
      "{} varies by only {:.2g}{}, and float32 cannot hold the square of this number. Multiply the values by "
      "1e{:.0f}, and adapt the attribute units (with xarray: ds[name] * 1e{:.0f})",
      of, variation, unit, -std::floor(std::log10(variation)), -std::floor(std::log10(variation)));
}

}  // namespace rossby
