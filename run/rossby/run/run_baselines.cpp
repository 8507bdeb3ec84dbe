#include "rossby/run/run_baselines.hpp"

#include "rossby/mpi/centers.hpp"

namespace rossby {

std::vector<std::unique_ptr<Baseline>> run_baselines(const Config& config, const Domain& domain,
                                                     Index horizons, int threads, const SpdSolver& solver,
                                                     const TimeAxis& axis) {
  return classical_baselines({.horizons = horizons,
                              .anomalies = anomaly_spec(config.data, CycleKind::none),
                              .median = config.data.point == "median",
                              .threads = threads,
                              .centers = centers_of_rows(domain),
                              .lim_modes = config.evaluate.lim_modes,
                              .ridge = config.evaluate.ridge,
                              .var_solver = config.evaluate.var_solver,
                              .solver = &solver},
                             &axis);
}

}  // namespace rossby
