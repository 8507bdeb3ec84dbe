#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/model/baselines/anomaly_series.hpp"

namespace rossby {

/// The regressors of a node, and the shrinkage of its coefficients towards those of all nodes.
struct OwnChoice {
  Index lags = 3;         // a(t), …, a(t − lags + 1)
  bool slow = false;      // exponential means over several spans of time
  bool seasonal = false;  // the target's anomaly one day, one week or one year earlier
  double pull = 10;       // weight of all nodes, in further targets; infinite: all nodes share coefficients
};

/// Direct regression of one node's anomaly `lead` steps ahead on its own past. Coefficients are fitted by
/// least squares over the training part and shrunk towards those of all nodes. Regressors read
/// AnomalySeries::known(); a missing target is left out. Lags do not cross a gap of the time axis.
class OwnRegression {
 public:
  /// Sums over all nodes for leads 1, …, `leads`. `anomalies` must outlive this object. Collective.
  OwnRegression(const AnomalySeries& anomalies, const Split& split, const TimeAxis& axis, CycleKind cycle,
                Index leads, int threads, Reducer& reducer);

  [[nodiscard]] static std::span<const OwnChoice> choices();

  /// Returns Σ squared errors of the forecasts from `origins` (steps after the training part), (leads,
  /// choices). `targets` receives the number of targets of each lead. Collective.
  [[nodiscard]] std::vector<double> errors(std::span<const Index> origins, std::vector<double>& targets,
                                           Reducer& reducer) const;

  /// Returns the training origins of a lead: their targets are training steps, without a gap between.
  [[nodiscard]] std::span<const Index> training_origins(Index lead) const {
    return origins_[static_cast<std::size_t>(lead - 1)];
  }
  /// Computes the residuals of one column (row·features + feature) at training origins, for leads `first`,
  /// first + 1, …, one lead per choice: out (leads, origins), NaN if the target is missing. `own_period`:
  /// residuals of anomalies from the cycle of all training steps, with the same coefficients.
  void training_residuals(Index column, Index first, std::span<const OwnChoice> choices, bool own_period,
                          std::span<const Index> origins, std::span<float> out) const;
  /// Forecasts from any origins with anomalies of the whole series, for leads `first`, first + 1, …, one lead
  /// per choice: out (leads, origins). `variance` (leads), if not empty, receives the variance of the
  /// residuals at all training origins.
  void forecasts(Index column, Index first, std::span<const OwnChoice> choices,
                 std::span<const Index> origins, std::span<float> out, std::span<double> variance) const;

  [[nodiscard]] Index columns() const { return anomalies_->full.rows * anomalies_->full.features; }

 private:
  struct Column;  // a node's series and means, and the products of its regressors
  struct Pooled {
    std::vector<double> gram, right;  // (features of a series, regressors, regressors), (…, regressors)
  };
  /// What all nodes share in a set of regressors; one for each lead, feature and set.
  struct Shared {
    std::vector<Index> used;           // regressors
    std::vector<double> coefficients;  // (used)
    std::vector<double> penalty;       // (used, used), of a node's deviation; empty: all regressors are 0
  };
  void load(Index column, bool training, Column& work) const;
  void regressors(const Column& work, Index lead, std::span<const Index> origins,
                  std::vector<double>& out) const;
  void products(Column& work, Index column, Index lead) const;
  /// Needs products() of the column and lead; writes work.coefficients.
  void coefficients(Column& work, Index column, Index lead, const OwnChoice& choice) const;
  [[nodiscard]] Shared shared(Index lead, Index feature, const OwnChoice& choice) const;
  [[nodiscard]] static Index set_of(const OwnChoice& choice);
  [[nodiscard]] std::vector<Index> regressors_of(const OwnChoice& choice) const;
  [[nodiscard]] Index count() const;

  const AnomalySeries* anomalies_;
  int threads_;
  std::vector<Index> begin_;       // (T): first step of the gap-free stretch that holds each step
  std::vector<double> halflives_;  // steps
  std::vector<std::vector<Index>>
      earlier_;  // (periods, T): the step a day, a week or a year before; −1: none
  std::vector<std::vector<Index>> origins_;  // (leads)
  std::vector<Pooled> pooled_;               // (leads)
  std::vector<std::vector<Shared>> shared_;  // (leads · features, sets of regressors)
};

}  // namespace rossby
