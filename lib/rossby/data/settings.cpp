#include "rossby/data/settings.hpp"

namespace rossby {

std::span<const Key<DataSettings>> data_keys() {
  static constexpr Key<DataSettings> table[] = {
      key<&DataSettings::file>(
          "data.file", "\"\"", "",
          "NetCDF-4/CF file or Zarr store with the series. Several files: a list of paths, a pattern "
          "(\"sst_*.nc\"), or a text file (*.txt) with one path per line"),
      key<&DataSettings::variables>(
          "data.variables", "[]", "",
          "variables to read, each as one feature; empty: the only variable that fits"),
      key<&DataSettings::inputs>(
          "data.inputs", "[]", "",
          "further variables that the model reads at its input steps and does not forecast")
          .read_by("windows")
          .added(),
      key<&DataSettings::known_inputs>(
          "data.known_inputs", "[]", "",
          "further variables that are known in advance, such as tides or a weather forecast; dcrnn and gru "
          "also read these variables at the forecast steps")
          .read_by("windows")
          .added(),
      key<&DataSettings::fixed>(
          "data.static", "[]", "",
          "properties of a node that the model reads at every step: variables without a time axis, latitude, "
          "longitude. These properties are scaled to mean 0 and standard deviation 1 over all nodes")
          .read_by("windows")
          .added(),
      key<&DataSettings::fixed_file>("data.static_file", "\"\"", "",
                                     "file that holds the variables of data.static: comma-separated values "
                                     "by node id, or NetCDF; empty: data.file")
          .read_by("windows")
          .added(),
      key<&DataSettings::nodes>("data.nodes", "\"observed\"", "",
                                "observed: drop nodes that are never observed; all: keep them")
          .one_of("observed|all"),
      key<&DataSettings::first_step>("data.first_step", "0", "steps", "first time step that is used")
          .at_least(0),
      key<&DataSettings::last_step>("data.last_step", "-1", "steps",
                                    "first time step that is no longer used; -1: all steps are used")
          .at_least(-1),
      key<&DataSettings::null_value>("data.null_value", "\"\"", "",
                                     "number that marks a missing value of the forecast variables, such as "
                                     "\"0\", in addition to _FillValue and missing_value; empty: none"),
      key<&DataSettings::fill_steps>("data.fill_steps", "false", "",
                                     "insert the missing steps of a regular time axis as steps of missing "
                                     "values, so that windows can cross gaps")
          .added(),
      key<&DataSettings::center>(
          "data.center", "\"none\"", "",
          "subtract the mean of the training part: of each node, of all nodes, or not at all")
          .one_of("none|node|global"),
      key<&DataSettings::spread>(
          "data.spread", "\"none\"", "",
          "divide by the standard deviation of the training part: of each node, of all nodes, or not at all")
          .one_of("none|node|global"),
      key<&DataSettings::factor>("data.factor", "1", "",
                                 "factor by which the scaled series is multiplied before the model reads it")
          .range(1e-30, 1e+30),
      key<&DataSettings::transform>("data.transform", "\"none\"", "",
                                    "transform values by sqrt, log or asinh of (value + "
                                    "data.transform_offset), before they are centred and scaled")
          .one_of("none|sqrt|log|asinh")
          .added(),
      key<&DataSettings::transform_offset>(
          "data.transform_offset", "0", "",
          "number that is added to values before data.transform, in their units")
          .range(-1e30, 1e30)
          .added(),
      key<&DataSettings::point>("data.point", "\"mean\"", "",
                                "with data.transform: forecasts in original units are means (best for RMSE) "
                                "or medians (best for MAE)")
          .one_of("mean|median")
          .may_change()
          .added(),
      key<&DataSettings::trend>("data.trend", "\"none\"", "",
                                "subtract the linear trend of each node in the training part; after this "
                                "part, the trend is extrapolated")
          .one_of("none|linear")
          .added(),
      key<&DataSettings::cycle>("data.cycle", "\"none\"", "",
                                "subtract the mean cycle of the training part, so that models see anomalies; "
                                "auto: the cycle with which an AR model forecasts the validation part best "
                                "(without one: the last fifth of the training part)")
          .one_of("none|auto|time_of_day|day_type|time_of_week|month|day_of_year")
          .added(),
      key<&DataSettings::cycle_harmonics>("data.cycle_harmonics", "3", "",
                                          "number of annual harmonics of data.cycle = \"day_of_year\"")
          .range(1, 12)
          .added(),
      key<&DataSettings::cycle_shrink>("data.cycle_shrink", "1", "periods",
                                       "shrink the cycle of a node towards a coarser cycle, which counts as "
                                       "much as this number of days (or years) of observations")
          .range(0, 1e6)
          .added(),
      key<&DataSettings::cycle_smooth>(
          "data.cycle_smooth", "10", "min",
          "standard deviation of the Gaussian that smooths a cycle over neighbouring times of day")
          .range(0, 1440)
          .added(),
  };
  return table;
}

std::span<const Key<SplitSettings>> split_keys() {
  static constexpr Key<SplitSettings> table[] = {
      key<&SplitSettings::train>("split.train", "\"0.7\"", "",
                                 "training part: number of steps, share of all steps (below 1), date before "
                                 "which the part ends, or rest: all steps that the other parts leave"),
      key<&SplitSettings::validation>("split.validation", "\"0\"", "",
                                      "validation part, after the training part: number of steps, share, or "
                                      "date before which the part ends"),
      key<&SplitSettings::test>(
          "split.test", "\"rest\"", "",
          "test part, after the validation part: number of steps, share, date, or rest"),
      key<&SplitSettings::folds>(
          "split.folds", "0", "",
          "number of folds of a cross-validation inside the training part, 2 or more; 0: no cross-validation")
          .range(0, 1000),
      key<&SplitSettings::fold>("split.fold", "0", "",
                                "fold that is held out as validation part, counted from 0")
          .range(0, 999),
      key<&SplitSettings::fold_order>(
          "split.fold_order", "\"blocked\"", "",
          "blocked: train on both sides of the fold; forward: train only on the steps before the fold, and "
          "never hold out the first of split.folds + 1 blocks. Compare values of data.trend with forward "
          "folds, because blocked folds interpolate the trend")
          .one_of("blocked|forward")
          .added(),
      key<&SplitSettings::gap>("split.gap", "0", "steps",
                               "steps next to the fold that are used neither for training nor for validation")
          .range(0, 1000000000)
          .added(),
  };
  return table;
}

std::span<const Key<WindowSettings>> window_keys() {
  static constexpr Key<WindowSettings> table[] = {
      key<&WindowSettings::inputs>("window.inputs", "12", "steps", "input steps of a window")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::outputs>("window.outputs", "12", "steps", "steps that a window forecasts")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::stride>("window.stride", "1", "steps",
                                   "steps between the starts of two training windows")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::batch>("window.batch", "64", "", "windows in a batch")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::micro_batches>(
          "window.micro_batches", "1", "",
          "parts of a batch that are computed one after the other; their gradients are added. More parts "
          "take less memory and keep pipeline stages busy. Batch normalisation uses the statistics of one "
          "part")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::sampling>(
          "window.sampling", "\"local\"", "",
          "windows that a time group trains on. local: windows of its own share of the time axis; global: "
          "any windows, with steps fetched from other groups; blocked: blocks of windows, assigned to groups "
          "anew in each epoch")
          .one_of("local|global|blocked")
          .read_by("windows"),
      key<&WindowSettings::lanes>(
          "window.lanes", "0", "",
          "blocked: number of lanes, which are queues of blocks. A batch takes equally many windows from "
          "each lane. Set a multiple of parallel.time_groups; 0: one lane per time group")
          .range(0, 65536)
          .read_by("windows"),
      key<&WindowSettings::blocks>("window.blocks", "8", "", "blocked: number of blocks in each lane")
          .range(1, 65536)
          .read_by("windows"),
      key<&WindowSettings::time_of_day>("window.time_of_day", "false", "",
                                        "add an input channel: the time of day, from 0 to 1")
          .read_by("windows"),
      key<&WindowSettings::day_of_week>(
          "window.day_of_week", "false", "",
          "add an input channel: the day of the week divided by 7, where Monday is 0")
          .read_by("windows"),
      key<&WindowSettings::day_of_year>("window.day_of_year", "false", "",
                                        "add two input channels: sine and cosine of the time of the year")
          .read_by("windows")
          .added(),
      key<&WindowSettings::holidays>("window.holidays", "[]", "",
                                     "days such as \"2019-02-05\": adds an input channel that is 1 on these "
                                     "days and 0 otherwise; empty: no such channel")
          .read_by("windows")
          .added(),
      key<&WindowSettings::known_times>(
          "window.known_times", "false", "",
          "dcrnn and gru also read the channels of time and holidays at the steps that they forecast")
          .read_by("windows")
          .added(),
      key<&WindowSettings::fill>("window.fill", "\"mean\"", "",
                                 "value of a missing input: mean: the mean that data.center subtracts (0 if "
                                 "data.center = \"none\"); zero: 0 in original units")
          .one_of("mean|zero")
          .read_by("windows"),
  };
  return table;
}

}  // namespace rossby
