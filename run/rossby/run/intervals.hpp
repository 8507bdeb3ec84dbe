#pragma once

#include <functional>
#include <span>
#include <string>

#include "rossby/mpi/domain.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/conformal.hpp"

namespace rossby {

/// Where a run or an average keeps the residuals of its validation part, as quantiles: intervals.h5 in its
/// directory, a state file (state_file.hpp) with
///
///     /arrays/spread/value    (1, nodes, features) of ConformalQuantiles
///     /arrays/offsets/value   (1, 1, horizons · features · levels)
///
/// and metadata that name the state they are of, and have the dressing of an average.
[[nodiscard]] std::string intervals_file_of(const std::string& directory);

/// What tells the forecaster in a directory from others: its state, or the content of an average. Rank 0's.
[[nodiscard]] std::string forecaster_hash(const std::string& directory);

/// Without spread and offsets: what residuals of these data are taken with.
[[nodiscard]] ConformalQuantiles no_quantiles(const Config& config, const Domain& domain, Index horizons);

struct Residuals {
  ConformalQuantiles quantiles;
  Index origins = 0;
};

/// Fits `quantiles` to residuals of forecasts from these origins (ascending), whose errors `add_errors` adds
/// up. If they are many they lie in an unnamed file of `folder`. Collective.
[[nodiscard]] Residuals take_residuals(const Communicator& comm, ConformalQuantiles quantiles, Index rows,
                                       std::span<const Index> origins, const std::string& folder,
                                       Reducer& reducer,
                                       const std::function<void(HorizonErrors&)>& add_errors);

/// Collective.
void write_intervals(const Communicator& comm, const std::string& directory, const Domain& domain,
                     const ConformalQuantiles& quantiles, Index origins);

/// Throws UserError that names the command which makes the file if it is not there, or if it is of another
/// state. Collective.
[[nodiscard]] ConformalQuantiles read_intervals(const Communicator& comm, const std::string& directory,
                                                const Config& config, const Domain& domain);

}  // namespace rossby
