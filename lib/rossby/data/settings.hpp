#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/key.hpp"

// Settings of this room, read from the configuration. The tables in settings.cpp explain each one.

namespace rossby {

/// Keys data.*: input data and their scaling.
struct DataSettings {
  PathList file;
  std::vector<std::string> variables;
  std::vector<std::string> inputs;
  std::vector<std::string> known_inputs;
  std::vector<std::string> fixed;
  std::string fixed_file;
  std::string nodes;
  Index first_step = 0;
  Index last_step = 0;
  std::string null_value;
  bool fill_steps = false;
  std::string center;
  std::string spread;
  double factor = 0;
  std::string transform = "none";
  double transform_offset = 0;
  std::string point = "mean";
  std::string trend = "none";
  std::string cycle = "none";
  /// No key: training steps before the current data (TimeAxis::instant), whose values are missing.
  std::vector<double> earlier = {};
  std::string cycle_decided;  // no key: result of cycle = "auto" at the start of the run; empty: unknown
  Index cycle_harmonics = 3;
  double cycle_shrink = 1;
  double cycle_smooth = 10;
};
[[nodiscard]] std::span<const Key<DataSettings>> data_keys();

/// Keys split.*: the parts of the time axis. A part is a count of steps ("200"), a share of all steps with a
/// decimal point ("0.7"), an end date, exclusive ("1986-09"), or "rest".
struct SplitSettings {
  std::string train = "0.7";
  std::string validation = "0";
  std::string test = "rest";
  Index folds = 0;  // 0: no cross-validation
  Index fold = 0;
  std::string fold_order = "blocked";
  Index gap = 0;
};
[[nodiscard]] std::span<const Key<SplitSettings>> split_keys();

/// Keys window.*: windows and their batches.
struct WindowSettings {
  Index inputs = 0;
  Index outputs = 0;
  Index stride = 0;
  Index batch = 0;
  Index micro_batches = 0;
  std::string sampling;
  Index lanes = 0;
  Index blocks = 0;
  bool time_of_day = false;
  bool day_of_week = false;
  bool day_of_year = false;
  std::vector<std::string> holidays;
  bool known_times = false;
  std::string fill;
};
[[nodiscard]] std::span<const Key<WindowSettings>> window_keys();

}  // namespace rossby
