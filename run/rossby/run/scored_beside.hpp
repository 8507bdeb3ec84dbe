#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/io/forecast_file.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/ksp_solver.hpp"
#include "rossby/run/evaluation_report.hpp"
#include "rossby/run/members.hpp"

namespace rossby {

/// Forecasters to score beside the model: the classical ones, which work in original units, and files.
struct ScoredBeside {
  std::vector<std::unique_ptr<Baseline>> baselines;
  std::vector<ForecastFile> files;
  std::string climatology_name = {};  // the baseline that forecast `climatology`
  const Baseline* fitted = nullptr;   // one of `baselines` that is fitted already; null: none

  /// Takes the configured baselines and these files. Throws UserError naming a file that does not fit.
  ScoredBeside(const Config& config, const KspSolver& solver, const Domain& domain, int threads,
               Index horizons, std::span<const std::string> paths);

  [[nodiscard]] Index size() const { return std::ssize(baselines) + std::ssize(files); }
  /// Returns keys of evaluation.json.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Forecasts with number k. A baseline must be fitted. Collective.
  void forecast(const Communicator& comm, const Domain& domain, Reducer& reducer, Index k,
                const Series& series, std::span<const Index> origins, Index horizons,
                const ForecastVisit& visit) const;
  /// Adds the errors in the test part to `errors`, and those of baselines in the validation part to
  /// `earlier`. Forecaster k has number k + 1 there. `chosen_by`: the split before train.refit, if there was
  /// one. Returns lines on forecasts that are missing in files. Collective.
  [[nodiscard]] std::string add_errors(const Communicator& comm, const Domain& domain, Reducer& reducer,
                                       const TestForecasts& test, const Series& series,
                                       const std::optional<Split>& chosen_by, HorizonErrors& errors,
                                       HorizonErrors& earlier) const;
  /// Makes the forecasts of forecaster k in the test part once more, some origins at a time, for hindcasts
  /// and maps. Collective.
  void visit_again(const Communicator& comm, const Domain& domain, Reducer& reducer,
                   const TestForecasts& test, const Series& series, Index k,
                   const std::function<void(const ScoredValues&)>& visit) const;
  /// Returns the values that anomalies are from, at all steps from the first target to the last one:
  /// forecasts of the baseline `cycle` or, without it, the nodes' means over the training part. If the
  /// baseline is one of `baselines`, it is `fitted` afterwards. Collective.
  [[nodiscard]] Series climatology(const Domain& domain, Reducer& reducer, const TestForecasts& test,
                                   const Series& series);
};

/// Returns the index of the forecaster `asked` (--against) in `names`, which begin with the model; −1 if none
/// is asked for. Throws UserError if it is not there.
[[nodiscard]] Index asked_baseline(const std::vector<std::string>& names, const std::string& asked);

}  // namespace rossby
