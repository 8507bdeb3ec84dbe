#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "rossby/data/anomaly_map.hpp"
#include "rossby/model/baselines/own_regression.hpp"

namespace rossby {

/// Candidate forms of the cross regression. If the data have few periods, a cycle without the own period is
/// noisy, and all nodes share this noise.
struct CrossForm {
  Index lags;
  bool own_period;  // trains on anomalies from the cycle of all training steps
};
inline constexpr CrossForm cross_forms[] = {{1, false}, {2, false}, {3, false}, {6, false},
                                            {1, true},  {2, true},  {3, true},  {6, true}};
inline constexpr double cross_ridges[] = {0.03, 0.1, 0.3, 1, 3, 10, 30};

/// The cross regression that corrects the own regressions at a lead time.
struct CrossChoice {
  int form = -1;   // index into cross_forms; −1: none
  int ridge = -1;  // index into cross_ridges
};

/// The settings that a direct linear baseline selects when it is fitted.
struct DirectChoices {
  AnomalySpec about;                    // cycle and trend of the anomalies
  std::vector<OwnChoice> own = {};      // by lead; empty: the cycle alone
  std::vector<CrossChoice> cross = {};  // by lead; empty: no cross regression

  /// Returns a text in one line: cycle, harmonics and trend; then of each lead lags, slow means, seasons,
  /// pull and, if there is a cross regression, its lags, own period and ridge.
  [[nodiscard]] std::string text() const;
  /// Reads such a text for `leads` leads. `settings`: transform, shrinkage and smoothing. Throws UserError if
  /// the text is not valid in this version.
  [[nodiscard]] static DirectChoices parse(const std::string& text, Index leads, const AnomalySpec& settings);
};

}  // namespace rossby
