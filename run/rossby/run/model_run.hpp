#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/scaler.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/model/learned_relations.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/data_record.hpp"
#include "rossby/run/device_choice.hpp"
#include "rossby/run/device_ports.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/metrics.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

class WholeGraph;

/// What a run is made for: training holds the steps that it trains and validates on, and no others; so does
/// tracing, whose steps are written down and, where devices can run the model, not computed: it reads no
/// series, all values are zero. Timing computes such steps, on made-up values. Resuming is training from a
/// checkpoint.
enum class Purpose { training, resuming, forecasting, tracing, timing };

/// Whether the series is read: else values and what is fitted to them are made up.
[[nodiscard]] constexpr bool reads_series(Purpose purpose) {
  return purpose != Purpose::tracing && purpose != Purpose::timing;
}

/// Fills `values` with numbers around 0 that differ, for Purpose::timing.
void make_up(std::span<float> values);

/// Whether starts and weights are refused at which a training makes no sense: what was trained before that
/// was checked goes on, and is of use.
[[nodiscard]] constexpr bool checks_starts(Purpose purpose) {
  return purpose == Purpose::training || !reads_series(purpose);
}

[[nodiscard]] constexpr bool trains(Purpose purpose) {
  return purpose == Purpose::training || purpose == Purpose::resuming;
}

/// A model and all it stands on, on this rank, built from a configuration: data → scaler → graph → exchange →
/// model. Values flow one way: nothing changes after construction but the model's parameters. Subcommands
/// know models by this alone.
template <class T>
class ModelRun {
 public:
  virtual ~ModelRun() = default;
  ModelRun(const ModelRun&) = delete;
  ModelRun& operator=(const ModelRun&) = delete;

  [[nodiscard]] const ProcessGrid& grid() const { return grid_; }
  [[nodiscard]] const Domain& domain() const { return domain_; }
  /// Over all ranks.
  [[nodiscard]] Reducer& reducer() { return reducer_; }
  /// The same for a training's steps, whose gradients may lie on devices.
  [[nodiscard]] Reducer& step_reducer() {
    if (world_sums_) return world_sums_->reducer();
    return reducer_;
  }
  [[nodiscard]] TimeGroups time_groups() {
    Reducer* reducer = group_ports_ ? &group_ports_->reducer() : &groups_reducer_;
    return {grid_.groups() > 1 ? reducer : nullptr, grid_.group() == 0};
  }
  /// Of the host: what models start from.
  [[nodiscard]] const Exec& exec() const { return exec_; }
  /// Of training steps and forecasts, on the device where there is one.
  [[nodiscard]] const Exec& training_exec() const { return training_exec_; }
  /// Null: the host trains and forecasts.
  [[nodiscard]] Device* device() const { return device_.device.get(); }
  [[nodiscard]] bool uses_nccl() const { return device_.nccl; }
  [[nodiscard]] const std::string& device_remark() const { return device_.remark; }
  /// A line on what the host rounds operands of products to; empty: parallel.products asks for nothing.
  [[nodiscard]] const std::string& products_remark() const { return products_remark_; }
  /// What this rank has sent so far through all its ports; sums over devices by NCCL are not counted.
  [[nodiscard]] virtual Traffic sent() const;
  /// Of it: time steps that other groups wanted.
  [[nodiscard]] virtual Traffic brought() const { return {}; }
  /// Tells this data from other data; the same at every rank count.
  [[nodiscard]] const std::string& data_hash() const { return data_hash_.all; }
  /// The same of the training part alone.
  [[nodiscard]] const std::string& training_hash() const { return data_hash_.training; }

  [[nodiscard]] virtual std::span<Parameter<T>* const> parameters() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Task<T>> make_task() = 0;
  /// Relations or supports, and their non-zeros on this rank.
  [[nodiscard]] virtual int relations() const = 0;
  [[nodiscard]] virtual Index entries() const = 0;
  /// Memory of the lists that it keeps beside the arrays that a training works on (those a device holds).
  [[nodiscard]] virtual std::size_t list_bytes() const;
  /// That its start takes for a moment, before steps take memory.
  [[nodiscard]] virtual std::size_t start_bytes() const { return 0; }
  /// What the start of a training says beside data, split and parameters; empty: nothing. Rank 0's.
  [[nodiscard]] virtual std::string remarks() const { return ""; }
  /// One a variable of domain().variables(), of the values of the training part on all ranks.
  [[nodiscard]] const std::vector<ValueSummary>& summaries() const { return summaries_; }
  /// What models see instead of values, with data.cycle = "auto" as it was decided.
  [[nodiscard]] AnomalySpec anomalies_asked() const { return anomaly_spec(config_->data, cycle_); }
  /// Nodes of this rank that have a feature without a value in the training part.
  [[nodiscard]] virtual Index unseen_nodes() const = 0;
  /// What states and checkpoints say beside what every model's do.
  virtual void add_metadata(nlohmann::ordered_json& json) const;
  /// The entries behind a parameter of placement `entries`.
  [[nodiscard]] virtual const GlobalEdges& edges(const Parameter<T>&) const {
    bug("a model without learned entries has no edges behind a parameter");
  }

  /// Relations between nodes that the model has learned; none if it learns none.
  [[nodiscard]] virtual std::vector<LearnedRelation> learned_relations() const = 0;

  /// Makes the inputs of a forecast's steps known that are known ahead: those of the file `inputs`, or if
  /// that is empty of the data. Throws UserError where they are missing or the model reads none. Collective.
  virtual void know_ahead(Index origin, Index steps, const std::string& inputs) {
    (void)origin, (void)steps;
    if (!inputs.empty())
      user_error("--inputs {}: the run does not read data.known_inputs. Leave it out", inputs);
  }
  /// Those of the origins that the model can forecast `horizons` steps from. Throws UserError where it cannot
  /// forecast so many.
  [[nodiscard]] virtual std::vector<Index> usable(std::vector<Index> origins, Index horizons) const = 0;
  /// Forecasts (rows, origins of the group, features) in original units, for the origins from `first` on at
  /// horizon 1, 2, …. Collective.
  using Visit = std::function<void(Index first, Index horizon, NodeView<const T> forecast)>;
  void forecast(std::span<const Index> origins, Index horizons, const Visit& visit);
  /// Quantiles that the model forecasts at once, ascending; empty: it has no such outputs.
  [[nodiscard]] virtual std::vector<double> quantiles() const { return {}; }
  /// The same of all quantiles, one after the other. Collective.
  using LevelVisit = std::function<void(Index first, Index horizon, Index level, NodeView<const T> forecast)>;
  void forecast_quantiles(std::span<const Index> origins, Index horizons, const LevelVisit& visit);
  /// Adds the model's errors as forecaster 0. Collective.
  void add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons);

  /// Writes a training's arrays, in global row order, and reads them back, whatever the grid that wrote them.
  /// Collective.
  void write(const std::string& path, std::span<const NamedArray<T>> arrays, const std::string& metadata);
  void read(const std::string& path, std::span<const NamedArray<T>> arrays);
  /// Throws UserError if `write` would fail now for want of room or of a file system that can be written.
  /// Grids of several groups or stages are not asked. Collective.
  void check_room(const std::string& path, std::span<const NamedArray<T>> arrays);
  /// Writes the model's parameters to `path`, in global row order, with `metadata`. Collective.
  void save(const std::string& path, const nlohmann::ordered_json& metadata);
  /// Writes what the run was fitted to beside its state (data_record.hpp). Collective.
  void save_record(const std::string& path);
  /// Reads them back, whatever the rank count that wrote them. Throws UserError where they were trained on
  /// other data than this run's training part holds, unless changes are accepted, which are returned; warns
  /// where they do not say, and the file is another one than that of the training. What forecasts on a device
  /// read is there afterwards. Collective.
  DataChanges load(const std::string& path, bool other_file, bool accepts = false);
  /// Has the training start from the weights of another run's state, `run` being its directory or a state
  /// file; of latents those of the steps that both have. Returns a line that says so. Throws UserError if
  /// model or shapes differ, or if weights belong to nodes or steps that are others here. Collective.
  std::string start_from(const std::string& run);

 protected:
  /// `record`: of the training, if its data may have changed; else null. Collective.
  ModelRun(const ProcessGrid& grid, const Config& config, Domain domain,
           std::shared_ptr<const DataRecord> record);

  /// Scalers of the target, of past and of known inputs; without features: none.
  [[nodiscard]] virtual std::vector<Scaler> scalers() const = 0;
  /// What the training was fitted to, where its data have changed; nothing: they are as they were, and what
  /// is fitted to them is the same. `like` has the shapes. Collective.
  [[nodiscard]] std::optional<FittedValues> kept_fit(std::vector<Scaler> like) const;

  /// Forecasts as `forecast` hands them out, but of anomalies where `anomalies_` is on; with `of_training`
  /// from what training reads.
  virtual void forecast_anomalies(std::span<const Index> origins, Index horizons, bool of_training,
                                  const Visit& visit) = 0;
  /// The same of all quantiles.
  virtual void forecast_anomaly_quantiles(std::span<const Index> origins, Index horizons,
                                          const LevelVisit& visit);
  /// Adds their errors, scored in these units. Collective.
  virtual void add_anomaly_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons,
                                  const std::function<ScoredUnits(Index horizon)>& units) = 0;
  /// Origins whose windows or steps up to `horizons` further on are all of training.
  [[nodiscard]] virtual std::vector<Index> training_origins(Index horizons) const = 0;
  /// What training reads at a training step, (rows, features) of anomalies.
  [[nodiscard]] virtual double training_anomaly(Index step, Index row, Index feature) const = 0;

  /// The cycle that data.cycle names, or what "auto" comes to. Collective.
  void decide_cycle(Purpose purpose);
  [[nodiscard]] bool cycles() const { return cycle_ != CycleKind::none; }
  /// A line on what models see; empty: values as they are.
  [[nodiscard]] std::string anomaly_remark() const;

  /// Opens the device that is asked for, or one that does nothing where steps are traced.
  /// Collective.
  void open_device(Purpose purpose);
  /// The link of all ranks where `comm` is of them, in their order; else null: it needs one of its own.
  [[nodiscard]] std::shared_ptr<NcclLink> link_of(const Communicator& comm) const;
  /// Adds values of one step, (rows, features) and behind these the domain's inputs, to `summaries_`;
  /// `centers` is (rows, features), or empty.
  void summarise(const float* values, Index rows, std::span<const double> centers);
  /// Sums them over ranks. Collective.
  void complete_summaries(Reducer& reducer);
  /// A line where values of the training part look like marks of missing ones.
  [[nodiscard]] std::string suspects() const;
  /// Throws where the training part has no observed value.
  void require_observed(double observed) const;
  /// Throws where the training watches a validation part of which no target is `observed`.
  void require_validation(bool observed) const;

  ProcessGrid grid_;
  const Config* config_;
  Domain domain_;
  MpiReducer reducer_;         // over all ranks
  MpiReducer groups_reducer_;  // over the ranks with these rows and this stage
  Exec exec_;
  DataHash data_hash_;
  std::shared_ptr<const DataRecord> record_;
  AnomalyMap anomalies_;
  std::vector<ValueSummary> summaries_;
  DeviceChoice device_;
  Exec training_exec_;
  std::unique_ptr<DeviceSums> world_sums_;   // of arrays on the device, over all ranks; null: by the host
  std::unique_ptr<DeviceSums> group_ports_;  // of arrays on the device, over time groups
  std::vector<Device::Copy> kept_;           // of what does not change

 private:
  [[nodiscard]] std::vector<double> residual_variance(Index horizons);
  [[nodiscard]] NodeView<const T> values_of(NodeView<const T> x, std::span<const Index> origins,
                                            Index horizon, std::span<const double> variance,
                                            Buffer<T>& values) const;
  void know_cycle(std::span<const Index> origins, Index horizons);
  [[nodiscard]] bool data_changed() const {
    return record_ && record_->training != data_hash_.training &&
           record_->goes_with(data_hash_, domain_.info.time);
  }
  [[nodiscard]] DataChanges accept_changes(const std::string& path, const nlohmann::json& metadata) const;
  CycleKind cycle_ = CycleKind::none;
  std::string cycle_remark_;
  std::string products_remark_;
  [[nodiscard]] std::vector<StateArray<T>> state_arrays(std::span<const NamedArray<T>> arrays) const;
  [[nodiscard]] std::vector<NamedArray<T>> values() const;
  void lend();
};

/// The run that model.name asks for, with parallel.time_groups groups and parallel.stages stages of ranks
/// where it is for training. Of pretended ranks (for tracing): out of `whole`, which outlives it. With the
/// `record` of its training the run stands on what was fitted then, if its data have changed. `workers`:
/// time groups whose windows are trained on, of a recorded training; 0: those of the ranks. Collective.
template <class T>
[[nodiscard]] std::unique_ptr<ModelRun<T>> make_run(const Communicator& comm, const Config& config,
                                                    Purpose purpose, WholeGraph* whole = nullptr,
                                                    std::shared_ptr<const DataRecord> record = nullptr,
                                                    Index workers = 0);

/// OpenMP threads a rank: parallel.threads, or OMP_NUM_THREADS, or this host's cores shared by the ranks on
/// it.
[[nodiscard]] int threads_per_rank(const Communicator& comm, const Config& config);

}  // namespace rossby
