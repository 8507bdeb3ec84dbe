#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// Returns the cost of a graph entry in units of a row's time (parallel.entry_cost). It is a least-squares
/// fit to predictions of parts of the graph: 8 and 16 parts of equal rows, so that rows and entries vary.
/// `load` makes the configuration with further settings. Returns 0 if the graph has no sparse relations, or
/// equally many entries in every row. Not collective.
[[nodiscard]] double predict_entry_cost(
    const MeasuredMachine& machine, const Job& job,
    const std::function<Config(const std::vector<std::string>& settings)>& load, WholeGraph& whole);

}  // namespace rossby
