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
constexpr double pull = 10;       // targets that the pooled coefficients weigh as much as
constexpr double margin = 0.002;  // relative gain that a cycle needs over a simpler one

/// Forecast origins and leads at which candidates are compared.
struct Trials {
  std::vector<Index> origins, leads;
};

/// Returns the RMSE of AR forecasts about one cycle, in transformed units; NaN without an observed target.
/// Collective over `reducer`.
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

/// Returns anomalies about a candidate's cycle; for "none" about the node's mean, as AR models see them.
/// Throws UserError if the axis or the training part has no such cycle. Collective over `reducer`.
Series anomalies_of(const Series& values, const TimeAxis& axis, const Split& split, const AnomalySpec& spec,
                    std::span<const double> centers, int threads, Reducer& reducer) {
  const Index width = values.rows * values.features;
  const std::vector<Index> training = split.training_steps();
  Series anomalies(values.steps, values.rows, values.features);
  std::copy(values.values.begin(), values.values.end(), anomalies.values.begin());
  AnomalyMap::Training data;
  data.rows = values.rows;
  data.features = values.features;
  data.steps = data.own = training;
  data.at = [&](Index t) { return values.at(t); };
  data.centers = centers;
  data.threads = threads;
  std::vector<AnomalyMap::View> without, full;
  for (Index t = 0; t < values.steps; ++t)
    (split.is_training(t) ? without : full).push_back({t, anomalies.values.data() + t * width});
  (void)AnomalyMap::fit(data, axis, spec, without, full, reducer);
  if (spec.cycle.kind != CycleKind::none) return anomalies;
  const Scaler about_mean = Scaler::fit(
      {values.rows, values.features, training, [&](Index t) { return std::as_const(anomalies).at(t); }},
      {ScaleBy::node, ScaleBy::none, 1}, reducer);
  about_mean.apply(anomalies);
  return anomalies;
}

/// Returns the simplest candidate with nearly the smallest error. `errors` are in order of complexity.
CycleKind best_of(const std::vector<std::pair<CycleKind, double>>& errors) {
  const double least = std::min_element(errors.begin(), errors.end(), [](const auto& a, const auto& b) {
                         return a.second < b.second;
                       })->second;
  return std::find_if(errors.begin(), errors.end(),
                      [&](const auto& one) { return one.second <= (1 + margin) * least; })
      ->first;
}

}  // namespace

CycleChoice choose_cycle(const ProcessGrid& grid, const Config& config, const Domain& domain, int threads) {
  MpiReducer space(grid.space()), world(grid.world());
  const Split split = deciding_split(domain.split);
  const Index horizons = config.windows() ? config.window.outputs : config.evaluate.horizons;
  Trials trials;
  trials.origins =
      window_origins(split.origins(Role::validation, horizons), {lags, horizons}, horizons, split.breaks);
  for (const Index lead : {Index{1}, (horizons + 1) / 2, horizons})
    if (trials.leads.empty() || trials.leads.back() < lead) trials.leads.push_back(lead);
  const std::string line = "cycle     data.cycle = \"auto\" is ";
  if (trials.origins.empty())
    return {CycleKind::none, line + "none: the part for this choice is too short for a forecast\n"};

  Series values(std::max(split.train.last, split.validation.last), static_cast<Index>(domain.rows.size()),
                domain.info.features);
  std::vector<Index> every(static_cast<std::size_t>(values.steps));
  std::iota(every.begin(), every.end(), Index{0});
  agree(grid.world(), [&] { read_steps(grid.space(), config, domain, every, values.values.span()); });
  const std::vector<double> centers = centers_of_rows(domain);

  std::vector<std::pair<CycleKind, double>> errors;
  std::vector<std::string> tried;
  for (const CycleKind kind : all_cycle_kinds) try {
      const Series anomalies = anomalies_of(values, domain.info.time, split, anomaly_spec(config.data, kind),
                                            centers, threads, space);
      // All ranks use rank 0's error.
      double error = error_of(anomalies, split, trials, space);
      if (grid.world().rank() != 0) error = 0;
      world.sum(std::span<double>(&error, 1));
      if (std::isnan(error)) continue;
      errors.emplace_back(kind, error);
      tried.push_back(fmt::format("{} {:.4g}", name_of(kind), error));
    } catch (const UserError&) {  // on all ranks: the data have no such cycle
      if (kind == CycleKind::none) throw;
    }
  if (errors.empty())
    return {CycleKind::none, line + "none: the part for this choice has no observed value\n"};
  CycleChoice choice{best_of(errors), ""};
  choice.remark = fmt::format(
      "{}{}: RMSE of AR({}) forecasts of {} with each cycle: {}\n", line, name_of(choice.kind), lags,
      domain.split.validation.empty() ? "the last fifth of the training part" : "the validation part",
      fmt::join(tried, ", "));
  return choice;
}

}  // namespace rossby
