#pragma once

#include <functional>
#include <span>
#include <string>

#include "rossby/mpi/domain.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/conformal.hpp"

namespace rossby {

/// Returns the path of intervals.h5, in which a run or an average keeps quantiles of the residuals of its
/// validation part. It is a state file (state_file.hpp) with
///
///     /arrays/spread/value    (1, nodes, features) of ConformalQuantiles
///     /arrays/offsets/value   (1, 1, horizons · features · levels)
///
/// and metadata: the hash of the forecaster, and the dressing of an average.
[[nodiscard]] std::string intervals_file_of(const std::string& directory);

/// Returns a hash of the forecaster in a directory: of a run's state, or of average.json. On rank 0.
[[nodiscard]] std::string forecaster_hash(const std::string& directory);

/// Returns quantiles without spread and offsets, with which residuals of these data are taken.
[[nodiscard]] ConformalQuantiles no_quantiles(const Config& config, const Domain& domain, Index horizons);

struct Residuals {
  ConformalQuantiles quantiles;
  Index origins = 0;
  std::vector<Coverage> left_out = {};  // left_out_coverage()
};

/// Fits `quantiles` to residuals of forecasts from these origins (ascending). `add_errors` adds the
/// forecasts' errors. Many residuals lie in an unnamed file of `folder`. Collective.
[[nodiscard]] Residuals take_residuals(const Communicator& comm, ConformalQuantiles quantiles, Index rows,
                                       std::span<const Index> origins, const std::string& folder,
                                       Reducer& reducer,
                                       const std::function<void(HorizonErrors&)>& add_errors);

/// Writes intervals.h5. Collective.
void write_intervals(const Communicator& comm, const std::string& directory, const Domain& domain,
                     const ConformalQuantiles& quantiles, Index origins);

/// Reads intervals.h5. Throws UserError naming the command that makes the file if it is missing or belongs to
/// another state. Collective.
[[nodiscard]] ConformalQuantiles read_intervals(const Communicator& comm, const std::string& directory,
                                                const Config& config, const Domain& domain);

}  // namespace rossby
