#include "rossby/io/date_order.hpp"

#include <cmath>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby::detail {
namespace {

struct Order {
  const char *name, *form;  // as people and Python write it
};

/// Day number of a date with these digits; none if there is no such date.
std::optional<std::int64_t> day_of(std::int64_t year, std::int64_t month, std::int64_t in_month,
                                   Calendar calendar) {
  if (year < 1500 || year > 2500 || month < 1 || month > 12 || in_month < 1) return std::nullopt;
  const auto m = static_cast<int>(month), d = static_cast<int>(in_month);
  if (d > days_in_month(year, m, calendar)) return std::nullopt;
  return days_from_civil(year, m, d, calendar);
}

std::optional<std::int64_t> day_in(std::int64_t digits, const Order& order, Calendar calendar) {
  const std::int64_t a = digits / 1'000'000, b = digits / 10'000 % 100;
  switch (order.form[1]) {
    case 'd':
      return day_of(digits % 10'000, b, a, calendar);
    case 'm':
      return day_of(digits % 10'000, a, b, calendar);
    default:
      return a > 0 ? std::nullopt : day_of(2000 + b, digits / 100 % 100, digits % 100, calendar);
  }
}

/// True if all numbers are such dates, ascending, of different months.
bool all_in(const std::vector<double>& values, const Order& order, Calendar calendar) {
  std::optional<std::int64_t> first, last;
  for (const double value : values) {
    if (value != std::floor(value) || value < 10'000 || value >= 1e8) return false;
    const auto number = day_in(static_cast<std::int64_t>(value), order, calendar);
    if (!number || (last && *number <= *last)) return false;
    last = number;
    if (!first) first = number;
  }
  constexpr std::int64_t longest_month = 31;
  return first && *last - *first >= longest_month;
}

}  // namespace

void refuse_other_date_orders(const std::vector<double>& values, Calendar calendar,
                              const std::string& origin) {
  for (const Order& order : {Order{"DDMMYYYY", "%d%m%Y"}, {"MMDDYYYY", "%m%d%Y"}, {"YYMMDD", "%y%m%d"}})
    if (all_in(values, order, calendar)) {
      const int width = order.form[1] == 'y' ? 6 : 8;
      user_error(
          "{}: its numbers ({:0{}.0f} to {:0{}.0f}) look like dates ({}), which are read only as YYYYMMDD. "
          "Write dates, with xarray: ds[\"time\"] = "
          "pd.to_datetime([f\"{{x:0{}}}\" for x in ds.time.values], format=\"{}\")",
          origin, values.front(), width, values.back(), width, order.name, width, order.form);
    }
}

}  // namespace rossby::detail
