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

/// Whether `directory` holds an average, as rank 0 sees it. Collective.
[[nodiscard]] bool averages(const Communicator& comm, const std::string& directory);

/// An average of forecasters, opened: what evaluate and forecast ask a run for.
class AverageRun {
 public:
  /// `output`: the file that is asked for, in whose folder add_errors may make a file; empty: in `directory`.
  /// Throws UserError if a run was trained again, or a file was written again, after the average was made.
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
  /// What usable() left out, a line; empty: nothing.
  [[nodiscard]] const std::string& remark() const { return remark_; }
  /// What openings have to say, and who is averaged, a line each; rank 0's.
  [[nodiscard]] std::string remarks() const;

  [[nodiscard]] std::vector<Index> usable(std::vector<Index> origins, Index horizons);
  /// Adds the average's errors as forecaster number `as`. Members with a weight are run one after the other;
  /// their weighted sum of all origins is held, if it is large in an unnamed file. Collective.
  void add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons, Index as = 0);

  /// From now on add_errors keeps the forecasts of the members, for visit_members.
  void keep_members() { keeps_members_ = true; }
  /// Those that add_errors has made last, origin by origin.
  void visit_members(const std::function<void(const MemberValues&)>& visit);
  /// ConformalQuantiles::dressing by those. Collective.
  [[nodiscard]] std::vector<double> dressing(const ConformalQuantiles& quantiles);

  /// Of the forecasts that add_errors has made, by horizon: √(mean variance of the members about their
  /// weighted mean). Collective.
  [[nodiscard]] std::vector<double> spread();

  /// Where rank 0 writes: the output that is asked for, or `usual` in the directory. Throws UserError where
  /// that may not be written, or would replace what is read.
  [[nodiscard]] std::string output(const std::string& usual) const;

 private:
  std::string directory_, output_;
  Average average_;
  Members members_;
  std::string remark_;             // of usable()
  std::vector<double> variances_;  // (horizons, {sum, number}) of this rank
  bool keeps_members_ = false;
  std::optional<ForecastStore> made_;  // last: average, squares and, if they are kept, members
  std::vector<Index> made_from_;       // their origins
  Index made_horizons_ = 0;
  Series truth_;
};

}  // namespace rossby
