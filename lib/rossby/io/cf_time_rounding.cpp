// Stamps that a file stores too coarsely: as float32, or with a few decimals.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "rossby/io/cf_time.hpp"

namespace rossby {
namespace {

bool all_floats(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double x) { return x == static_cast<double>(static_cast<float>(x)); });
}

/// The largest distance between neighbouring float32 numbers at the values.
double float_spacing(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  const auto x = static_cast<float>(largest);
  return static_cast<double>(std::nextafter(x, std::numeric_limits<float>::infinity()) - x);
}

/// The power of ten, 0.1 to 1e-6, of which all values are multiples. 0 if there is none, or if values are
/// whole.
double decimal_spacing(const std::vector<double>& values) {
  double scale = 1;
  for (int digits = 0; digits <= 6; ++digits, scale *= 10)
    if (std::all_of(values.begin(), values.end(), [&](double x) {
          return std::abs(x * scale - std::round(x * scale)) < std::max(1e-6, 1e-15 * std::abs(x) * scale);
        }))
      return digits == 0 ? 0 : 1 / scale;
  return 0;
}

}  // namespace

double TimeAxis::rounding() const {
  return all_floats(values_) ? float_spacing(values_) : 0;
}

/// Moves stamps onto a regular grid if all lie within the rounding of their numbers around it.
void TimeAxis::undo_rounding() {
  if (!dated_ || spacing_ != Spacing::duration || size() < 4 || (regular_ && !gaps_.empty())) return;
  std::vector<Milliseconds> distances;
  for (std::size_t t = 1; t < stamps_.size(); ++t) distances.push_back(stamps_[t] - stamps_[t - 1]);
  const auto [shortest, longest] = std::minmax_element(distances.begin(), distances.end());
  if (regular_ && *longest - *shortest <= 2) return;
  for (const double spacing : {rounding(), decimal_spacing(values_)}) {
    if (spacing <= 0) continue;
    const double error = 0.5 * spacing * unit_;
    const Milliseconds even = even_step(error);
    if (regular_ && (even == 0 || even == step_)) continue;
    if (!(even > 0 && snap(error, even)) && (regular_ || !snap(error, typical_distance(distances)))) continue;
    remark_ =
        fmt::format("its times are rounded to {:.4g} s, and are read as a step of {} from {} on (guessed)",
                    1e-3 * spacing * unit_, step_text(), text(0));
    return;
  }
}

/// The step of whole days, hours, minutes or seconds from the first stamp to the last without gaps, with each
/// stamp off by at most `error`. 0 if there is none.
Milliseconds TimeAxis::even_step(double error) const {
  const auto steps = static_cast<double>(size() - 1);
  const double mean = static_cast<double>(stamps_.back() - stamps_.front()) / steps;
  for (const double unit : {86'400'000.0, 3'600'000.0, 60'000.0, 1000.0}) {
    const double whole = std::round(mean / unit) * unit;
    if (whole > 0 && std::abs(mean - whole) <= (2 * error + 2) / steps) return std::llround(whole);
  }
  return 0;
}

bool TimeAxis::snap(double error, Milliseconds step) {
  if (!(static_cast<double>(step) > 2 * error)) return false;
  std::vector<Milliseconds> places;  // on the grid, from the first stamp
  double low = 0, high = 0;
  for (const Milliseconds stamp : stamps_) {
    const Milliseconds place = (stamp - stamps_[0] + step / 2) / step * step;
    if (!places.empty() && place <= places.back()) return false;
    places.push_back(place);
    const auto off = static_cast<double>(stamp - stamps_[0] - place);
    low = std::min(low, off);
    high = std::max(high, off);
  }
  if (high - low > 2 * error + 2) return false;
  // The first stamp is the roundest moment that all stamps allow.
  const double least = static_cast<double>(stamps_[0]) + high - error - 1,
               most = static_cast<double>(stamps_[0]) + low + error + 1;
  Milliseconds origin = std::llround(0.5 * (least + most));
  for (const double unit : {86'400'000.0, 3'600'000.0, 600'000.0, 60'000.0, 1000.0}) {
    const double whole = std::round(0.5 * (least + most) / unit) * unit;
    if (whole < least || whole > most) continue;
    origin = std::llround(whole);
    break;
  }
  for (std::size_t t = 0; t < stamps_.size(); ++t) {
    stamps_[t] = origin + places[t];
    values_[t] = to_value(stamps_[t]);
  }
  detect_spacing();
  return true;
}

}  // namespace rossby
