#pragma once

#include <span>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// Autoregression of anomalies a for one lead h: a(t+h) = Σ_l b_l·a(t−l), l = 0, …, lags−1. The coefficients
/// of each row and feature are fitted by least squares over training steps. They are shrunk towards the
/// coefficients of all nodes with the weight of `pull` further targets. A missing anomaly counts as 0 among
/// the lags and is left out as a target.
class DirectAr {
 public:
  /// `series` holds anomalies at all training steps. Collective.
  static DirectAr fit(const Series& series, const Split& split, Index lead, Index lags, double pull,
                      Reducer& reducer);

  /// Forecasts a(origin + lead), (rows, features). Steps before the series count as missing.
  void forecast(const Series& series, Index origin, std::span<double> out) const;

 private:
  Index lags_ = 0;
  std::vector<double> coefficient_;  // (rows, features, lags)
};

}  // namespace rossby
