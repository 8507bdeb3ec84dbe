#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rossby/run/forecast_store.hpp"
#include "rossby/run/members.hpp"
#include "rossby/train/dressing.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {

/// True if `directory` holds an average, as rank 0 sees it. Collective.
[[nodiscard]] bool averages(const Communicator& comm, const std::string& directory);

/// An opened average of forecasters, with the functions that evaluate and forecast use of a run.
class AverageRun {
 public:
  /// `output`: the requested file, in whose folder add_errors may make a file; empty: in `directory`. Throws
  /// UserError if a run was trained again, or a file was written again, after the average was made.
  /// Collective.
  AverageRun(const Communicator& comm, const std::string& directory, std::span<const std::string> sets,
             const std::string& device, const std::string& output);

  [[nodiscard]] Members& members() { return members_; }
  [[nodiscard]] const Config& config() const { return members_.config(); }
  [[nodiscard]] const Domain& domain() const { return members_.domain(); }
  [[nodiscard]] Reducer& reducer() { return members_.reducer(); }
  [[nodiscard]] const Exec& exec() const { return members_.exec(); }
  [[nodiscard]] Index horizons() const { return average_.horizons(); }
  [[nodiscard]] double weight(Index horizon, Index member) const {
    return average_.weights[static_cast<std::size_t>(horizon - 1)][static_cast<std::size_t>(member)];
  }
  /// "stacking of runs/a, direct_ridge".
  [[nodiscard]] std::string text() const;
  /// Returns a line on what usable() left out; empty: nothing.
  [[nodiscard]] const std::string& remark() const { return remark_; }
  /// Returns lines with the remarks of the members and the names of the members. On rank 0.
  [[nodiscard]] std::string remarks() const;

  [[nodiscard]] std::vector<Index> usable(std::vector<Index> origins, Index horizons);
  /// Adds the average's errors as forecaster number `as`. Members with a weight run one after the other.
  /// Their weighted sum of all origins is held in memory or, if it is large, in an unnamed file. Collective.
  void add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons, Index as = 0);

  /// Makes add_errors keep the forecasts of the members, for visit_members.
  void keep_members() { keeps_members_ = true; }
  /// Visits the members' forecasts of the last add_errors, origin by origin.
  void visit_members(const std::function<void(const MemberValues&)>& visit);
  /// Returns ConformalQuantiles::dressing of the members' forecasts. Collective.
  [[nodiscard]] std::vector<double> dressing(const ConformalQuantiles& quantiles);

  /// Returns √(mean variance of the members about their weighted mean) by horizon, for the forecasts of
  /// add_errors. Collective.
  [[nodiscard]] std::vector<double> spread();

  /// Returns the file that rank 0 writes: the requested output, or `usual` in the directory. Throws UserError
  /// if it may not be written, or would replace an input.
  [[nodiscard]] std::string output(const std::string& usual) const;

 private:
  std::string directory_, output_;
  Average average_;
  Members members_;
  std::string remark_;             // of usable()
  std::vector<double> variances_;  // (horizons, {sum, number}) of this rank
  bool keeps_members_ = false;
  std::optional<ForecastStore> made_;  // of the last add_errors: average, squares and, if kept, members
  std::vector<Index> made_from_;       // origins of made_
  Index made_horizons_ = 0;
  Series truth_;
};

}  // namespace rossby
