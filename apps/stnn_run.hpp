#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "rossby/data/scaler.hpp"
#include "rossby/io/config.hpp"
#include "rossby/kernels/dense_choice.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/reducer.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/train/optimiser.hpp"
#include "rossby/train/stnn_task.hpp"

namespace rossby {

/// An STNN and all it stands on, on this rank, built from a configuration: data → scaler → relations →
/// exchange → model. Values flow one way: nothing here changes after construction but the model's parameters.
template <class T>
class StnnRun {
 public:
  /// Collective. Reads the series (scaled in place), builds relations and the model at its start.
  StnnRun(const Communicator& comm, const Config& config, Domain domain);

  [[nodiscard]] const Domain& domain() const { return domain_; }
  [[nodiscard]] const Series& series() const { return series_; }  // scaled
  [[nodiscard]] const Scaler& scaler() const { return scaler_; }
  [[nodiscard]] Stnn<T>& model() { return *model_; }
  [[nodiscard]] Reducer& reducer() { return reducer_; }
  [[nodiscard]] const Exec& exec() const { return exec_; }
  /// Products of dense relations; the same on every rank.
  [[nodiscard]] const DenseChoice& dense_choice() const { return dense_choice_; }
  [[nodiscard]] std::unique_ptr<StnnTask<T>> make_task();
  /// Tells this data from other data; the same at every rank count.
  [[nodiscard]] const std::string& data_hash() const { return data_hash_; }
  /// A training's arrays as a state file takes them.
  [[nodiscard]] std::vector<StateArray<T>> state_arrays(std::span<const NamedArray<T>> arrays) const;

  /// Writes the model's parameters to `path`, in global row order, with `metadata`. Collective.
  void save(const std::string& path, const nlohmann::ordered_json& metadata);
  /// Reads them back, whatever the rank count that wrote them. Collective.
  void load(const std::string& path);

 private:
  [[nodiscard]] std::vector<NamedArray<T>> values() const;
  void choose_dense(Relations<T>& relations);
  void start();
  void start_low_rank_at_eofs();

  Communicator comm_;
  const Config* config_;
  Domain domain_;
  MpiReducer reducer_;
  Exec exec_;
  DenseChoice dense_choice_;
  Series series_;
  std::string data_hash_;
  Scaler scaler_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Stnn<T>> model_;
};

[[nodiscard]] OptimiserOptions optimiser_options(const Config& config);
[[nodiscard]] ScheduleOptions schedule_options(const Config& config);
[[nodiscard]] TrainerOptions trainer_options(const Config& config, bool has_validation);
[[nodiscard]] StnnTaskOptions task_options(const Config& config);
/// OpenMP threads a rank: parallel.threads, or OMP_NUM_THREADS, or this host's cores shared by the ranks on
/// it.
[[nodiscard]] int threads_per_rank(const Communicator& comm, const Config& config);

}  // namespace rossby
