#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rossby/exchange/reducer.hpp"
#include "rossby/train/metrics.hpp"

namespace rossby {

/// Weighted sums over pairs of forecast and observation, from which scores are computed. f' and o' are
/// anomalies from a climatology.
struct ScoreMoments {
  double weight = 0, number = 0;
  double error = 0, square = 0, absolute = 0;   // of forecast − observation
  double f = 0, o = 0, ff = 0, oo = 0, fo = 0;  // of f', o' and their products

  static constexpr Index size = 10;
  void add(double weight_, double forecast, double observed, double climatology);
  ScoreMoments& operator+=(const ScoreMoments& other);

  // NaN without observations, or if a forecast is not finite.
  [[nodiscard]] double rmse() const;
  [[nodiscard]] double mae() const;
  [[nodiscard]] double bias() const;
  /// Returns the anomaly correlation coefficient, centred: Pearson's correlation of f' and o'. NaN if f' or
  /// o' does not vary.
  [[nodiscard]] double acc() const;
};

/// Returns the reference of anomalies, values (rows, features) at a step of the time axis.
using Climatology = std::function<const float*(Index step)>;

/// A subset of the targets that is scored separately.
struct Slice {
  std::string kind, name;  // "season", "DJF"
};

/// Subsets by time and by region, and weights of rows.
struct Slices {
  std::vector<double> weights;  // (rows); empty: 1 each
  std::string time_kind;        // "season", "month" or "hour"; empty: none
  std::vector<std::string> times;
  std::vector<std::int32_t> time_of_step;  // index into `times` for each step of the time axis
  std::vector<std::string> regions;
  std::vector<std::vector<std::uint8_t>> inside;  // (regions, rows)

  /// Returns all targets, then the subsets of `times`, then the subsets of `regions`.
  [[nodiscard]] std::vector<Slice> all() const;
};

/// Moments of several forecasters at every horizon, by slice and part (HorizonErrors).
class Verification {
 public:
  /// `slices` must outlive this object.
  Verification(Index forecasters, Index horizons, std::vector<Index> part_features, const Slices& slices,
               Climatology climatology);

  void add(const ScoredValues& values);
  /// Sums over all ranks. Collective.
  void reduce(Reducer& reducer);

  [[nodiscard]] const ScoreMoments& at(Index slice, Index part, Index forecaster, Index horizon) const {
    return sums_[place(slice, part, forecaster, horizon)];
  }
  [[nodiscard]] Index horizons() const { return horizons_; }

 private:
  [[nodiscard]] std::size_t place(Index slice, Index part, Index forecaster, Index horizon) const {
    return static_cast<std::size_t>(((slice * parts_ + part) * forecasters_ + forecaster) * horizons_ +
                                    horizon - 1);
  }
  Index forecasters_, horizons_, parts_;
  std::vector<Index> part_of_;  // part of each feature
  const Slices* slices_;
  Climatology climatology_;
  Index times_, slice_count_;
  std::vector<ScoreMoments> sums_, of_row_;
};

/// Moments of one forecaster for each node of this rank, for maps.
class NodeMoments {
 public:
  NodeMoments(Index rows, Index horizons, Index features, Climatology climatology);

  void add(const ScoredValues& values);
  [[nodiscard]] const ScoreMoments& at(Index horizon, Index row, Index feature) const {
    return sums_[static_cast<std::size_t>(((horizon - 1) * rows_ + row) * features_ + feature)];
  }

 private:
  Index rows_, features_;
  Climatology climatology_;
  std::vector<ScoreMoments> sums_;
};

/// Returns 1 − RMSE / RMSE of the reference.
[[nodiscard]] double skill_against(double rmse, double reference);

}  // namespace rossby
