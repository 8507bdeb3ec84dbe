#pragma once

#include <optional>
#include <span>
#include <string>

namespace rossby {

/// What `rossby data inspect FILE` prints: for each variable shape, units, range, share missing and
/// never-observed nodes; the time axis (first, last, step, gaps); edges; memory of the series a rank at 1, 2,
/// 4, 8 and 16 ranks. `variables` empty: all that fit. Values that equal `null_value` count as missing.
/// Values are read in pieces of bounded size. Of a file with a graph and no series: nodes, edges, weights.
/// Throws UserError as SeriesFile::open does.
[[nodiscard]] std::string inspect_series(const std::string& path, std::span<const std::string> variables = {},
                                         std::optional<double> null_value = {});

}  // namespace rossby
