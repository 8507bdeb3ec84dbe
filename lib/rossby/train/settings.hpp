#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/key.hpp"

// Settings of this room, read from the configuration; settings.cpp describes each one.

namespace rossby {

/// Keys optimiser.*
struct OptimiserSettings {
  std::string name;
  double lr = 0;
  std::string lr_scaling;
  Index reference_batch = 0;
  double lr_z = 0;
  double lr_relation = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double momentum = 0;
  double decay = 0;
  double decay_z = 0;
  double decay_relation = 0;
  double decay_low_rank = 0;
  double clip = 0;
};
[[nodiscard]] std::span<const Key<OptimiserSettings>> optimiser_keys();

/// Keys schedule.*: the learning rate over epochs.
struct ScheduleSettings {
  std::string name;
  std::string metric;
  Index patience = 0;
  double ratio = 0;
  std::vector<Index> milestones;
  double threshold = 0;
  double min_lr = 0;
  double hold = 0;
  double final = 0;
  Index warmup = 0;
  Index length = 0;
};
[[nodiscard]] std::span<const Key<ScheduleSettings>> schedule_keys();

/// Keys train.*
struct TrainSettings {
  std::string sampling;
  Index pairs = 0;
  Index slab_steps = 0;
  Index lanes = 0;
  bool joint = false;
  Index epochs = 0;
  Index seed = 0;
  Index early_stop = 0;
  double max_seconds = 0;
  std::string keep;
  std::string absent;
  std::string loss = "mae";
  std::string loss_units = "data";
  double huber_delta = 1;
  double quantile = 0.5;
  std::vector<Index> quantiles;
  std::string from;
  bool refit = false;
  std::string recompute;
  std::string stop_after;
  std::string on_nan;
  std::string check;
  Index rollbacks = 0;
  double rollback_lr = 0;
  std::string updates = "synchronous";
  Index max_staleness = 0;
  std::string stale = "drop";
  std::string staleness_lr = "none";
  double momentum_correction = 0;
  std::string uneven = "wait";
};
[[nodiscard]] std::span<const Key<TrainSettings>> train_keys();

/// Keys checkpoint.*
struct CheckpointSettings {
  double every_minutes = 0;
  Index every_steps = 0;
  Index keep = 0;
};
[[nodiscard]] std::span<const Key<CheckpointSettings>> checkpoint_keys();

/// Keys validation.*
struct ValidationSettings {
  Index every = 0;
  std::string kind;
  std::string metric = "mae";
};
[[nodiscard]] std::span<const Key<ValidationSettings>> validation_keys();

/// Keys evaluate.*: scores on the test part.
struct EvaluateSettings {
  Index horizons = 0;
  std::vector<std::string> report;
  std::string kind;
  Index first_origin = 0;
  Index last_origin = 0;
  double filter_lambda = 0;
  bool baselines = false;
  Index lim_modes = 0;
  std::string var_solver;
  double ridge = 0;
};
[[nodiscard]] std::span<const Key<EvaluateSettings>> evaluate_keys();

/// Keys parallel.*: ranks, devices and kernels.
struct ParallelSettings {
  std::string partition;
  double entry_cost = 0;
  std::string row_order;
  Index time_groups = 0;
  Index stages = 0;
  std::vector<Index> stage_layers;
  Index threads = 0;
  std::string device;
  std::string device_memory;
  std::string transport;
  std::string products;
  bool cuda_graphs = false;
  std::string isa;
  std::string dense_kernel;
  std::string sparse_products;
  double watchdog_seconds = 0;
};
[[nodiscard]] std::span<const Key<ParallelSettings>> parallel_keys();

/// Keys log.*
struct LogSettings {
  double seconds = 0;
};
[[nodiscard]] std::span<const Key<LogSettings>> log_keys();

}  // namespace rossby
