#pragma once

#include <string>
#include <vector>

#include "rossby/io/calendar.hpp"

namespace rossby::detail {

/// Throws UserError if numbers are ascending dates whose digits are in another order than YYYYMMDD: DDMMYYYY,
/// MMDDYYYY, or YYMMDD. Call it for numbers that are no dates in the usual order: some fit both.
void refuse_other_date_orders(const std::vector<double>& values, Calendar calendar,
                              const std::string& origin);

}  // namespace rossby::detail
