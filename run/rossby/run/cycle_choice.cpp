#include "rossby/run/cycle_choice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/windows.hpp"
#include "rossby/model/baselines/direct_ar.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/mpi_reducer.hpp"

namespace rossby {
namespace {

constexpr Index lags = 3;
constexpr double pull = 10;       // targets that the pooled coefficients count as
constexpr double margin = 0.002;  // by which a cycle has to beat a simpler one

/// The split whose validation part decides.
Split deciding(const Split& split) {
  if (!split.validation.empty()) return split;
  Split shorter = split;
  std::vector<Index> training = split.training_steps();
  const std::size_t kept = training.size() - training.size() / 5;
  for (std::size_t k = kept; k < training.size(); ++k)
    shorter.role[static_cast<std::size_t>(training[k])] = Role::validation;
  if (kept < training.size()) shorter.validation = {training[kept], training.back() + 1};
  shorter.train.last = training[kept - 1] + 1;
  return shorter;
}

/// Forecast origins and leads that candidates are compared at.
struct Trials {
  std::vector<Index> origins, leads;
};

/// RMSE of the AR forecasts about one cycle, in transformed units; NaN without an observed target. Collective
/// over `reducer`.
double error_of(const Series& anomalies, const Split& split, const Trials& trials, Reducer& reducer) {
  const Index width = anomalies.rows * anomalies.features;
  std::vector<double> forecast(static_cast<std::size_t>(width)), sums(2 * trials.leads.size());
  for (std::size_t k = 0; k < trials.leads.size(); ++k) {
    const DirectAr model = DirectAr::fit(anomalies, split, trials.leads[k], lags, pull, reducer);
    for (const Index origin : trials.origins) {
      model.forecast(anomalies, origin, forecast);
      const float* target = anomalies.at(origin + trials.leads[k]);
      for (Index c = 0; c < width; ++c) {
        if (std::isnan(target[c])) continue;
        const double error = forecast[static_cast<std::size_t>(c)] - static_cast<double>(target[c]);
        sums[2 * k] += error * error;
        sums[2 * k + 1] += 1;
      }
    }
  }
  reducer.ordered_sum(sums);
  double mean = 0;
  for (std::size_t k = 0; k < trials.leads.size(); ++k)
    mean += std::sqrt(sums[2 * k] / sums[2 * k + 1]) / static_cast<double>(trials.leads.size());
  return mean;
}

}  // namespace

CycleChoice choose_cycle(const ProcessGrid& grid, const Config& config, const Domain& domain, int threads) {
  MpiReducer space(grid.space());
  const Split split = deciding(domain.split);
  const bool own_part = !domain.split.validation.empty();
  const Index horizons = config.windows() ? config.window.outputs : config.evaluate.horizons;
  Trials trials;
  trials.origins =
      window_origins(split.origins(Role::validation, horizons), {lags, horizons}, horizons, split.breaks);
  for (const Index lead : {Index{1}, (horizons + 1) / 2, horizons})
    if (trials.leads.empty() || trials.leads.back() < lead) trials.leads.push_back(lead);
  if (trials.origins.empty())
    return {CycleKind::none,
            "cycle     data.cycle = \"auto\" is none: no forecast fits in the part that decides\n"};

  const Index last = std::max(split.train.last, split.validation.last);
  Series values(last, static_cast<Index>(domain.rows.size()), domain.info.features);
  std::vector<Index> every(static_cast<std::size_t>(last));
  std::iota(every.begin(), every.end(), Index{0});
  agree(grid.world(), [&] { read_steps(grid.space(), config, domain, every, values.values.span()); });
  const std::vector<Index> training = split.training_steps();
  const std::vector<double> centers = centers_of_rows(domain);

  std::vector<std::pair<CycleKind, double>> errors;
  std::vector<std::string> tried;
  for (const CycleKind kind : all_cycle_kinds) {
    Series anomalies(last, values.rows, values.features);
    std::copy(values.values.begin(), values.values.end(), anomalies.values.begin());
    AnomalyMap::Training data;
    data.rows = values.rows;
    data.features = values.features;
    data.steps = data.own = training;
    data.at = [&](Index t) { return std::as_const(values).at(t); };
    data.centers = centers;
    data.threads = threads;
    std::vector<AnomalyMap::View> without, full;
    for (Index t = 0; t < last; ++t)
      (split.is_training(t) ? without : full)
          .push_back({t, anomalies.values.data() + t * values.rows * values.features});
    AnomalySpec spec = anomaly_spec(config.data, kind);
    try {
      (void)AnomalyMap::fit(data, domain.info.time, spec, without, full, space);
    } catch (const UserError&) {  // of all ranks alike
      if (kind == CycleKind::none) throw;
      continue;
    }
    if (kind == CycleKind::none) {  // about the mean, as AR models are
      const std::vector<double> mean = [&] {
        const Scaler scaler = Scaler::fit(
            {values.rows, values.features, training, [&](Index t) { return std::as_const(anomalies).at(t); }},
            {ScaleBy::node, ScaleBy::none, 1}, space);
        return std::vector<double>(scaler.center().begin(), scaler.center().end());
      }();
      for (Index k = 0; k < anomalies.values.size(); ++k)
        anomalies.values[k] -=
            static_cast<float>(mean[static_cast<std::size_t>(k % (values.rows * values.features))]);
    }
    const double error = error_of(anomalies, split, trials, space);
    if (std::isnan(error)) continue;
    errors.emplace_back(kind, error);
    tried.push_back(fmt::format("{} {:.4g}", name_of(kind), error));
  }
  if (errors.size() < 2)
    return {CycleKind::none,
            "cycle     data.cycle = \"auto\" is none: the data have no cycle that can be tried\n"};
  const double best = std::min_element(errors.begin(), errors.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->second;
  CycleChoice choice;
  for (auto it = errors.rbegin(); it != errors.rend(); ++it)
    if (it->second <= (1 + margin) * best) choice.kind = it->first;
  // Rank 0's word counts.
  MpiReducer world(grid.world());
  double decided = grid.world().rank() == 0 ? static_cast<double>(choice.kind) : 0;
  world.sum(std::span<double>(&decided, 1));
  choice.kind = static_cast<CycleKind>(static_cast<int>(decided));
  choice.remark = fmt::format(
      "cycle     data.cycle = \"auto\" is {}: RMSE of AR({}) forecasts of {} about it: {}\n",
      name_of(choice.kind), lags, own_part ? "the validation part" : "the last fifth of the training part",
      fmt::join(tried, ", "));
  return choice;
}

}  // namespace rossby
