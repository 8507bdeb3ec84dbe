#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/average_run.hpp"
#include "rossby/run/intervals.hpp"

namespace rossby {

/// Returns residuals of the run's forecasts for its validation part, in `folder` if they are many; nullopt
/// without such a part, or for a rollout. An AverageRun adds its dressing. Collective.
template <class Run>
std::optional<Residuals> residuals_of(const Communicator& comm, const Config& config, Run& run,
                                      Index horizons, const std::string& folder) {
  if (config.evaluate.kind == "rollout") return std::nullopt;
  std::vector<Index> origins = run.domain().split.origins(Role::validation, horizons);
  if (origins.empty()) return std::nullopt;
  try {
    agree(comm, [&] { origins = run.usable(origins, horizons); });
  } catch (const UserError&) {  // none of them has a known window
    return std::nullopt;
  }
  constexpr bool ensemble = std::is_same_v<Run, AverageRun>;
  if constexpr (ensemble) run.keep_members();
  Residuals found = take_residuals(
      comm, no_quantiles(config, run.domain(), horizons), std::ssize(run.domain().rows), origins, folder,
      run.reducer(),
      [&](HorizonErrors& errors) { in_exchanges(comm, [&] { run.add_errors(errors, origins, horizons); }); });
  if constexpr (ensemble) found.quantiles.dressing = run.dressing(found.quantiles);
  return found;
}

}  // namespace rossby
