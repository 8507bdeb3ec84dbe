#include "rossby/run/late_metrics.hpp"

#include <cstdio>

#include <fmt/core.h>

#include "rossby/base/user_error.hpp"

namespace rossby {

void LateMetrics::write(const RunDirectory* directory, Index epoch, std::string line) {
  lines_.emplace_back(epoch, std::move(line));
  try {
    write_last(directory);
    told_ = false;
  } catch (const UserError& error) {
    if (!std::exchange(told_, true))
      fmt::print(stderr, "rossby: warning: {}; training goes on, and these lines are written later\n",
                 error.what());
  }
}

void LateMetrics::write_last(const RunDirectory* directory) {
  std::size_t done = 0;
  try {
    for (; done < lines_.size(); ++done) directory->append_metrics(lines_[done].second);
  } catch (const UserError&) {
    lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(done));
    throw;
  }
  lines_.clear();
}

void LateMetrics::cut(Index epoch) {
  std::erase_if(lines_, [&](const auto& line) { return line.first >= epoch; });
}

}  // namespace rossby
