#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/model/baselines/own_regression.hpp"

namespace rossby {

/// The cycle with the smallest forecast error, and the own regressions of each lead about it. Baselines that
/// search alike share one object.
class CycleSearch {
 public:
  /// Returns the error about a cycle on the deciding splits, and the best own regressions. Throws UserError
  /// on all ranks if the axis has no such cycle.
  using ErrorOf =
      std::function<double(const AnomalySpec&, std::span<const Split> deciding, std::vector<OwnChoice>&)>;

  /// Tries all cycles with the transform of `form`, and with `trend` a linear trend as well, unless the last
  /// search had the same series and split. Collective.
  void run(const AnomalySpec& form, bool trend, const Series& series, const Split& split,
           std::span<const Split> deciding, Reducer& reducer, const ErrorOf& error_of);

  [[nodiscard]] static std::string text_of(const AnomalySpec& spec);

  AnomalySpec about;
  std::vector<OwnChoice> choices;  // of each lead
  std::string tried;               // cycles and their errors

 private:
  void try_about(const AnomalySpec& spec, std::span<const Split> deciding, const ErrorOf& error_of);
  void try_trend(const Split& behind, bool lent, const ErrorOf& error_of);

  double best_ = std::numeric_limits<double>::infinity();  // error about the best cycle
  std::uint64_t input_ = 0;                                // hash of this rank's series and of the split
};

}  // namespace rossby
