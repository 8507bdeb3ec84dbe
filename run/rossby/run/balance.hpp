#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// What an entry of the graph takes, in units of a row's time (parallel.entry_cost): least squares over
/// predictions of parts of the graph, equal rows in 8 and in 16 of them, so that rows and entries vary
/// (`load`: the configuration with further settings). 0: the graph has no sparse relations, or as many
/// entries in every row. Not collective.
[[nodiscard]] double predict_entry_cost(
    const MeasuredMachine& machine, const Job& job,
    const std::function<Config(const std::vector<std::string>& settings)>& load, WholeGraph& whole);

}  // namespace rossby
