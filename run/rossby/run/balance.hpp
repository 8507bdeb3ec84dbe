#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// What a step takes a rank: fixed + row · its rows + entry · its entries, in seconds.
struct RowTimes {
  double fixed = 0, row = 0, entry = 0;
  double error = 0;  // mean absolute relative error over the parts that it was fitted to
  /// In units of a row's time: parallel.entry_cost.
  [[nodiscard]] double entry_cost() const;
};

/// Least squares over predictions of parts of the graph, equal rows in 8 and in 16 of them, so that rows and
/// entries vary (`load`: the configuration with further settings). As the layer-time models of the
/// literature, but of predicted times. Empty: the graph has no sparse relations, or as many entries in every
/// row. Not collective.
[[nodiscard]] std::vector<RowTimes> fit_row_times(
    const MeasuredMachine& machine, const Job& job,
    const std::function<Config(const std::vector<std::string>& settings)>& load, WholeGraph& whole);

}  // namespace rossby
