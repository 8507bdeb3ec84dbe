#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// Origins (ascending) of the forecasts of model.base_forecast.
struct BaseOrigins {
  std::vector<Index> training;  // of training windows
  std::vector<Index> others;    // may reach the end of the data
};

/// A base forecast of one origin and horizon (1, 2, …).
struct BaseForecast {
  bool of_training = false;
  Index origin = 0, horizon = 0;
  const float* values = nullptr;  // (rows, features), in the units of read_series
  const float* truth = nullptr;   // the target, NaN if missing
};

struct BaseFit {
  std::string chosen;  // Baseline::chosen()
  std::string remark;
};

/// Forecasts window.outputs steps from all origins by the baseline model.base_forecast, which the training
/// part fits. Its settings are those of model.base_chosen or, if that is empty, selected as in evaluate.
/// Training origins are forecast by the same fit: forecasts held out by five blocks gave models larger
/// validation errors on each of four series, by 0.1 to 3 percent.
/// Memory during the call: three copies of the rows' series, five if values are missing. Collective.
BaseFit make_base_forecasts(const Communicator& comm, const Config& config, const Domain& domain, int threads,
                            const BaseOrigins& origins, const std::function<void(const BaseForecast&)>& take);

}  // namespace rossby
