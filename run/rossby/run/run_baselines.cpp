#include "rossby/run/run_baselines.hpp"

#include <algorithm>
#include <limits>

#include "rossby/mpi/centers.hpp"

namespace rossby {

BaselineSettings baseline_settings(const Config& config, const Domain& domain, Index horizons, int threads,
                                   const SpdSolver& solver) {
  return {.horizons = horizons,
          .anomalies = anomaly_spec(config.data, CycleKind::none),
          .median = config.data.point == "median",
          .threads = threads,
          .centers = centers_of_rows(domain),
          .lim_modes = config.evaluate.lim_modes,
          .ridge = config.evaluate.ridge,
          .var_solver = config.evaluate.var_solver,
          .solver = &solver};
}

void continue_by(Index steps, TimeAxis& axis, Split& split, Series& series) {
  std::vector<double> values = axis.values();
  const std::vector<double> more = axis.after(axis.size() - 1, steps).values();
  values.insert(values.end(), more.begin(), more.end());
  axis = TimeAxis::parse(std::move(values), axis.units(), axis.calendar(), "time axis");
  split.steps += steps;
  split.role.resize(static_cast<std::size_t>(split.steps), Role::unused);
  Series longer(series.steps + steps, series.rows, series.features);
  std::copy(series.values.begin(), series.values.end(), longer.values.begin());
  std::fill(longer.values.begin() + series.values.size(), longer.values.end(),
            std::numeric_limits<float>::quiet_NaN());
  series = std::move(longer);
}

std::vector<std::unique_ptr<Baseline>> run_baselines(const Config& config, const Domain& domain,
                                                     Index horizons, int threads, const SpdSolver& solver,
                                                     const TimeAxis& axis) {
  return classical_baselines(baseline_settings(config, domain, horizons, threads, solver), &axis);
}

}  // namespace rossby
