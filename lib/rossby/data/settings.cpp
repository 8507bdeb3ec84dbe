#include "rossby/data/settings.hpp"

namespace rossby {

std::span<const Key<DataSettings>> data_keys() {
  static constexpr Key<DataSettings> table[] = {
      key<&DataSettings::file>(
          "data.file", "\"\"", "",
          "NetCDF-4/CF file or Zarr store with the series; in several files: a list of them, a "
          "pattern (\"sst_*.nc\"), or a "
          "text file (*.txt) with a path a line"),
      key<&DataSettings::variables>("data.variables", "[]", "",
                                    "variables to read, one a feature; empty: the only one that fits"),
      key<&DataSettings::inputs>(
          "data.inputs", "[]", "",
          "further variables that models of windows read at their input steps and do not forecast")
          .read_by("windows")
          .added(),
      key<&DataSettings::known_inputs>(
          "data.known_inputs", "[]", "",
          "further variables that are known ahead, such as tides, planned works or a weather forecast: dcrnn "
          "and gru read them at the steps that they forecast, too")
          .read_by("windows")
          .added(),
      key<&DataSettings::fixed>(
          "data.static", "[]", "",
          "what models of windows read of a node at every step: variables of the nodes alone, latitude, "
          "longitude; brought to mean 0 and standard deviation 1 over all nodes")
          .read_by("windows")
          .added(),
      key<&DataSettings::fixed_file>(
          "data.static_file", "\"\"", "",
          "file with data.static: comma-separated values by node id, or NetCDF; empty: data.file")
          .read_by("windows")
          .added(),
      key<&DataSettings::nodes>("data.nodes", "\"observed\"", "",
                                "observed: drop nodes that are never observed; all: keep them")
          .one_of("observed|all"),
      key<&DataSettings::first_step>("data.first_step", "0", "steps", "first time step that is used")
          .at_least(0),
      key<&DataSettings::last_step>("data.last_step", "-1", "steps",
                                    "one past the last time step that is used; -1: to the end")
          .at_least(-1),
      key<&DataSettings::null_value>("data.null_value", "\"\"", "",
                                     "a number that stands for a missing value, such as \"0\", beside "
                                     "_FillValue and missing_value, of what is forecast; empty: none"),
      key<&DataSettings::fill_steps>(
          "data.fill_steps", "false", "",
          "put steps that a regular time axis lacks in as steps of missing values, so that "
          "windows may reach over its gaps")
          .added(),
      key<&DataSettings::center>("data.center", "\"none\"", "",
                                 "subtract the mean of the training part: per node, over all nodes, or not")
          .one_of("none|node|global"),
      key<&DataSettings::spread>(
          "data.spread", "\"none\"", "",
          "divide by the standard deviation of the training part: per node, over all nodes, or not")
          .one_of("none|node|global"),
      key<&DataSettings::factor>("data.factor", "1", "", "factor on the scaled series, as the model sees it")
          .range(1e-30, 1e+30),
      key<&DataSettings::transform>(
          "data.transform", "\"none\"", "",
          "models see sqrt, log or asinh of (value + data.transform_offset), before all that follows")
          .one_of("none|sqrt|log|asinh")
          .added(),
      key<&DataSettings::transform_offset>("data.transform_offset", "0", "",
                                           "added to values before data.transform, in their units")
          .range(-1e30, 1e30)
          .added(),
      key<&DataSettings::point>("data.point", "\"mean\"", "",
                                "with data.transform, what a forecast is in original units: the mean (for "
                                "RMSE) or the median (for MAE)")
          .one_of("mean|median")
          .may_change()
          .added(),
      key<&DataSettings::trend>("data.trend", "\"none\"", "",
                                "subtract the linear trend of each node's training part, which goes on "
                                "behind it")
          .one_of("none|linear")
          .added(),
      key<&DataSettings::cycle>(
          "data.cycle", "\"none\"", "",
          "subtract what the training part has at the same time of the day, day type, week or year, so that "
          "models see anomalies; auto: what helps an AR model on the validation part")
          .one_of("none|auto|time_of_day|day_type|time_of_week|month|day_of_year")
          .added(),
      key<&DataSettings::cycle_harmonics>("data.cycle_harmonics", "3", "",
                                          "annual harmonics of data.cycle = \"day_of_year\"")
          .range(1, 12)
          .added(),
      key<&DataSettings::cycle_shrink>(
          "data.cycle_shrink", "1", "periods",
          "values of as many days (or years) that the coarser cycle counts as against a node's own")
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
                                 "training part: a count of steps, a share of all steps (below 1), the date "
                                 "it ends before, or rest: all that the others leave"),
      key<&SplitSettings::validation>(
          "split.validation", "\"0\"", "",
          "validation part behind it: a count, a share or the date it ends before"),
      key<&SplitSettings::test>("split.test", "\"rest\"", "",
                                "test part behind that: a count, a share, a date or the rest"),
      key<&SplitSettings::folds>(
          "split.folds", "0", "",
          "blocked cross-validation: folds inside the training part, 2 or more; 0: none")
          .range(0, 1000),
      key<&SplitSettings::fold>("split.fold", "0", "", "the fold that is held out as validation part")
          .range(0, 999),
      key<&SplitSettings::fold_order>(
          "split.fold_order", "\"blocked\"", "",
          "blocked: trains on both sides of the fold; forward: only on the steps before it, and the first of "
          "folds + 1 blocks is no fold. Choose a trend by forward folds, since blocked ones interpolate it")
          .one_of("blocked|forward")
          .added(),
      key<&SplitSettings::gap>("split.gap", "0", "steps",
                               "steps beside the fold that are neither trained on nor validated on")
          .range(0, 1000000000)
          .added(),
  };
  return table;
}

std::span<const Key<WindowSettings>> window_keys() {
  static constexpr Key<WindowSettings> table[] = {
      key<&WindowSettings::inputs>("window.inputs", "12", "steps",
                                   "steps that a window's forecast is made from")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::outputs>("window.outputs", "12", "steps", "steps that are forecast")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::stride>("window.stride", "1", "steps", "distance of training windows")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::batch>("window.batch", "64", "", "windows a batch")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::micro_batches>(
          "window.micro_batches", "1", "",
          "parts of a batch that are computed one after the other and whose gradients add up: they take less "
          "memory, and keep the stages of a pipeline busy; batch normalisation is of one of them, any other "
          "model may go on with another number")
          .range(1, 1000000)
          .read_by("windows"),
      key<&WindowSettings::sampling>("window.sampling", "\"local\"", "",
                                     "windows of a time group: of its own share; any, their steps fetched "
                                     "from other groups; blocks dealt out anew each epoch")
          .one_of("local|global|blocked")
          .read_by("windows"),
      key<&WindowSettings::lanes>(
          "window.lanes", "0", "",
          "blocked: queues that make up a batch in equal parts, a multiple of the time groups; 0: as many")
          .range(0, 65536)
          .read_by("windows"),
      key<&WindowSettings::blocks>("window.blocks", "8", "", "blocked: blocks a lane")
          .range(1, 65536)
          .read_by("windows"),
      key<&WindowSettings::time_of_day>("window.time_of_day", "false", "",
                                        "the fraction of the day as a further input channel")
          .read_by("windows"),
      key<&WindowSettings::day_of_week>("window.day_of_week", "false", "",
                                        "the day of the week, Monday 0, over 7 as a further input channel")
          .read_by("windows"),
      key<&WindowSettings::day_of_year>(
          "window.day_of_year", "false", "",
          "sine and cosine of the time of the year as two further input channels")
          .read_by("windows")
          .added(),
      key<&WindowSettings::holidays>(
          "window.holidays", "[]", "",
          "days such as \"2019-02-05\" on which a further input channel is 1, else 0; empty: no such channel")
          .read_by("windows")
          .added(),
      key<&WindowSettings::known_times>(
          "window.known_times", "false", "",
          "dcrnn and gru read these further channels of the steps that they forecast, too")
          .read_by("windows")
          .added(),
      key<&WindowSettings::fill>(
          "window.fill", "\"mean\"", "",
          "what a missing input is read as: data.center's mean (with center none, 0), or 0 in original units")
          .one_of("mean|zero")
          .read_by("windows"),
  };
  return table;
}

}  // namespace rossby
