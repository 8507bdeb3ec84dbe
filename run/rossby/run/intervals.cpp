#include "rossby/run/intervals.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/average_file.hpp"
#include "rossby/run/forecast_store.hpp"

namespace rossby {
namespace {

/// Returns both arrays of the file.
std::vector<StateArray<double>> arrays_of(ConformalQuantiles& quantiles) {
  StateArray<double> spread{"spread",           Placement::rows,         1,
                            quantiles.features, quantiles.spread.data(), nullptr};
  StateArray<double> offsets{
      "offsets", Placement::replicated, 1, std::ssize(quantiles.offsets), quantiles.offsets.data(), nullptr};
  return {std::move(spread), std::move(offsets)};
}

}  // namespace

std::string intervals_file_of(const std::string& directory) {
  return directory + "/intervals.h5";
}

std::string forecaster_hash(const std::string& directory) {
  const bool average = is_average(directory);
  return hash_of({average ? AverageMember::Kind::file : AverageMember::Kind::run,
                  average ? average_file_of(directory) : directory, ""});
}

ConformalQuantiles no_quantiles(const Config& config, const Domain& domain, Index horizons) {
  ConformalQuantiles none;
  none.horizons = horizons;
  none.features = domain.info.features;
  none.transform = anomaly_spec(config.data, CycleKind::none).transform;
  none.centers = centers_of_rows(domain);
  return none;
}

Residuals take_residuals(const Communicator& comm, ConformalQuantiles quantiles, Index rows,
                         std::span<const Index> origins, const std::string& folder, Reducer& reducer,
                         const std::function<void(HorizonErrors&)>& add_errors) {
  const Index m = quantiles.features, horizons = quantiles.horizons, count = std::ssize(origins);
  auto store = agree(comm, [&] { return ForecastStore(folder, 1, horizons, count, rows * m); });
  HorizonErrors errors({"model"}, horizons);
  errors.watch([&](const ScoredValues& values) {
    const Index columns = std::ssize(values.steps);
    for (Index b = 0; b < columns; ++b) {
      const Index origin = values.steps[static_cast<std::size_t>(b)] - values.horizon;
      const auto o = std::lower_bound(origins.begin(), origins.end(), origin) - origins.begin();
      float* to = store.at(0, values.horizon, o) + values.first_row * m;
      for (Index k = 0; k < values.rows * m; ++k) {
        const Index at = (k / m * columns + b) * m + k % m;
        to[k] = static_cast<float>(
            quantiles.residual(values.forecast[at], values.observed[at], values.first_row * m + k));
      }
    }
  });
  add_errors(errors);
  const auto residuals = [&](Index horizon, Index origin) -> const float* {
    return store.at(0, horizon, origin);
  };
  quantiles.fit(residuals, rows, count, reducer);
  std::vector<Coverage> left_out = left_out_coverage(quantiles, residuals, rows, count, reducer);
  return {std::move(quantiles), count, std::move(left_out)};
}

void write_intervals(const Communicator& comm, const std::string& directory, const Domain& domain,
                     const ConformalQuantiles& quantiles, Index origins) {
  const std::string hash = broadcast(
      comm, agree(comm, [&] { return comm.rank() == 0 ? forecaster_hash(directory) : std::string(); }));
  nlohmann::ordered_json metadata{{"state", hash},
                                  {"horizons", quantiles.horizons},
                                  {"features", quantiles.features},
                                  {"levels", ConformalQuantiles::levels},
                                  {"validation_origins", origins}};
  if (!quantiles.dressing.empty()) metadata["dressing"] = quantiles.dressing;
  ConformalQuantiles values = quantiles;
  write_state<double>(comm, intervals_file_of(directory), domain.partition, arrays_of(values),
                      metadata.dump());
}

ConformalQuantiles read_intervals(const Communicator& comm, const std::string& directory,
                                  const Config& config, const Domain& domain) {
  const std::string path = intervals_file_of(directory), again = "Run rossby evaluate " + directory;
  const std::string text = broadcast(
      comm, agree(comm, [&] {
        if (comm.rank() != 0) return std::string();
        if (!std::filesystem::exists(path))
          user_error("{}: intervals need the residuals of the validation part, which are missing. {}", path,
                     again);
        return read_state_metadata(path);
      }));
  auto quantiles = agree(comm, [&] {
    const auto metadata = nlohmann::json::parse(text, nullptr, false);
    if (!metadata.is_object()) user_error("{}: the file is damaged. {}", path, again);
    if (comm.rank() == 0 && metadata.value("state", "") != forecaster_hash(directory))
      user_error("{}: the residuals do not belong to the current state of {}. {}", path, directory, again);
    const Index horizons = metadata.value("horizons", Index{0});
    if (horizons < 1 || horizons > 100'000 ||
        metadata.value("levels", Index{0}) != ConformalQuantiles::levels ||
        metadata.value("features", Index{0}) != domain.info.features)
      user_error("{}: the residuals are of other variables, or were written by another version. {}", path,
                 again);
    ConformalQuantiles found = no_quantiles(config, domain, horizons);
    found.spread.resize(domain.rows.size() * static_cast<std::size_t>(found.features));
    if (const auto dressing = metadata.find("dressing"); dressing != metadata.end()) {
      const bool numbers = dressing->is_array() && std::all_of(dressing->begin(), dressing->end(),
                                                               [](const auto& x) { return x.is_number(); });
      if (!numbers || std::ssize(*dressing) != horizons * found.features)
        user_error("{}: the file is damaged. {}", path, again);
      found.dressing = dressing->template get<std::vector<double>>();
    }
    found.offsets.resize(static_cast<std::size_t>(horizons * found.features * ConformalQuantiles::levels));
    return found;
  });
  read_state<double>(comm, path, domain.partition, arrays_of(quantiles));
  return quantiles;
}

}  // namespace rossby
