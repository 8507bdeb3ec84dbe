#include "rossby/run/profile_baselines.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/windows.hpp"
#include "rossby/mpi/ksp_solver.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/run_baselines.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {
namespace {

/// Makes values of the test part missing, so that no forecaster sees them.
void hide_test(Series& series, const Split& split) {
  for (Index t = 0; t < series.steps; ++t)
    if (series.rows > 0 && split.role[static_cast<std::size_t>(t)] == Role::test)
      std::fill_n(&series.at(t, 0, 0), series.rows * series.features,
                  std::numeric_limits<float>::quiet_NaN());
}

HorizonScores scores_of_fold(const Communicator& comm, const Config& config, Index folds, Index fold) {
  const Domain domain = make_domain(comm, config);
  const KspSolver solver(comm);
  MpiReducer reducer(comm);
  const int threads = threads_per_rank(comm, config);
  const Index horizons = config.evaluate.horizons;
  const auto baselines = run_baselines(config, domain, horizons, threads, solver, domain.info.time);
  Series series = read_series(comm, config, domain);
  hide_test(series, domain.split);
  const std::vector<Index> origins =
      window_origins(domain.split.origins(Role::validation, horizons), {config.window.inputs, horizons},
                     horizons, domain.split.breaks);
  std::vector<std::string> names;
  for (const auto& baseline : baselines) names.emplace_back(baseline->name());
  HorizonErrors errors(names, horizons, {}, threads);
  for (std::size_t k = 0; k < baselines.size(); ++k) {
    baselines[k]->fit(series, domain.split, reducer);
    if (origins.empty()) continue;
    baselines[k]->forecast(series, origins, horizons, reducer, [&](Index horizon, NodeView<const float> x) {
      errors.add<float>(static_cast<Index>(k), horizon, x, series, origins);
    });
  }
  HorizonScores scores = errors.reduce(reducer);
  if (names.empty() || scores.scored_horizons(0) == 0)
    user_error(
        "{}: {} has no observed value to compare forecasts with. {}", domain.info.path,
        folds > 0 ? fmt::format("fold {} of {} of the training part", fold, folds) : "the validation part",
        folds > 0 ? "Give fewer folds with --folds" : "Choose another validation part with split.validation");
  return scores;
}

}  // namespace

std::vector<ProfiledBaseline> profile_baselines(const Communicator& comm, const ProfileQuestion& question) {
  std::vector<ProfiledBaseline> all;
  const Index folds = std::max<Index>(question.folds, 1);
  for (Index fold = 0; fold < folds; ++fold) {
    const HorizonScores scores = scores_of_fold(comm, question.base_config(fold), question.folds, fold);
    for (std::size_t k = 0; k < scores.names.size(); ++k) {
      if (fold == 0) all.push_back({scores.names[k], 0, {}});
      all[k].error += scores.mean_rmse(static_cast<Index>(k)) / static_cast<double>(folds);
    }
  }
  return all;
}

}  // namespace rossby
