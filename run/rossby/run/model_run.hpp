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

/// The purpose of a run. Training holds only the steps that it trains and validates on. So does tracing:
/// its steps are recorded and, on devices that can run the model, not computed. Tracing reads no series; all
/// values are zero. Timing computes such steps on synthetic values. Resuming is training from a checkpoint.
enum class Purpose { training, resuming, forecasting, tracing, timing };

/// True if the series is read. Otherwise values, and quantities fitted to values, are synthetic.
[[nodiscard]] constexpr bool reads_series(Purpose purpose) {
  return purpose != Purpose::tracing && purpose != Purpose::timing;
}

/// Fills `values` with different numbers around 0, for Purpose::timing.
void make_up(std::span<float> values);

/// True if senseless starts and weights are refused. A model that was trained before this check existed is
/// still useful, and may go on.
[[nodiscard]] constexpr bool checks_starts(Purpose purpose) {
  return purpose == Purpose::training || !reads_series(purpose);
}

[[nodiscard]] constexpr bool trains(Purpose purpose) {
  return purpose == Purpose::training || purpose == Purpose::resuming;
}

/// A model and all it depends on, on this rank, built from a configuration: data → scaler → graph → exchange
/// → model. After construction only the model's parameters change. Subcommands know models by this class
/// only.
template <class T>
class ModelRun {
 public:
  virtual ~ModelRun() = default;
  ModelRun(const ModelRun&) = delete;
  ModelRun& operator=(const ModelRun&) = delete;

  [[nodiscard]] const ProcessGrid& grid() const { return grid_; }
  [[nodiscard]] const Domain& domain() const { return domain_; }
  /// Reducer over all ranks.
  [[nodiscard]] Reducer& reducer() { return reducer_; }
  /// False if no target of the validation part is observed.
  [[nodiscard]] bool validation_seen() const { return validation_seen_; }
  /// Reducer of a training's steps, whose gradients may lie on devices.
  [[nodiscard]] Reducer& step_reducer() {
    if (world_sums_) return world_sums_->reducer();
    return reducer_;
  }
  [[nodiscard]] TimeGroups time_groups() {
    Reducer* reducer = group_ports_ ? &group_ports_->reducer() : &groups_reducer_;
    return {grid_.groups() > 1 ? reducer : nullptr, grid_.group() == 0};
  }
  /// On the host: initial values are computed here.
  [[nodiscard]] const Exec& exec() const { return exec_; }
  /// For training steps and forecasts, on the device if there is one.
  [[nodiscard]] const Exec& training_exec() const { return training_exec_; }
  /// Null if the host trains and forecasts.
  [[nodiscard]] Device* device() const { return device_.device.get(); }
  [[nodiscard]] bool uses_nccl() const { return device_.nccl; }
  [[nodiscard]] const std::string& device_remark() const { return device_.remark; }
  /// Line on how the host rounds product operands; empty if parallel.products asks for no rounding.
  [[nodiscard]] const std::string& products_remark() const { return products_remark_; }
  /// Messages that this rank has sent through all its ports; sums over devices by NCCL are not counted.
  [[nodiscard]] virtual Traffic sent() const;
  /// The part of sent() that brought time steps to other groups.
  [[nodiscard]] virtual Traffic brought() const { return {}; }
  /// Identifies the data; the same at every rank count.
  [[nodiscard]] const std::string& data_hash() const { return data_hash_.all; }
  /// Identifies the training part.
  [[nodiscard]] const std::string& training_hash() const { return data_hash_.training; }

  [[nodiscard]] virtual std::span<Parameter<T>* const> parameters() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Task<T>> make_task() = 0;
  /// Number of relations or supports, and their non-zeros on this rank.
  [[nodiscard]] virtual int relations() const = 0;
  [[nodiscard]] virtual Index entries() const = 0;
  /// Bytes of lists beside the arrays that a training works on (the arrays that a device would hold).
  [[nodiscard]] virtual std::size_t list_bytes() const;
  /// Temporary bytes of the start, released before steps allocate memory.
  [[nodiscard]] virtual std::size_t start_bytes() const { return 0; }
  /// Text for the start of a training, besides data, split and parameters; may be empty. Rank 0 only.
  [[nodiscard]] virtual std::string remarks() const { return ""; }
  /// One summary per variable of domain().variables(), over the training part and all ranks.
  [[nodiscard]] const std::vector<ValueSummary>& summaries() const { return summaries_; }
  /// The anomalies that models see, with data.cycle = "auto" resolved.
  [[nodiscard]] AnomalySpec anomalies_asked() const { return anomaly_spec(config_->data, cycle_); }
  /// Number of this rank's nodes with a feature that has no value in the training part.
  [[nodiscard]] virtual Index unseen_nodes() const = 0;
  /// Adds metadata of this kind of model to states and checkpoints.
  virtual void add_metadata(nlohmann::ordered_json& json) const;
  /// Returns the entries behind a parameter of placement `entries`.
  [[nodiscard]] virtual const GlobalEdges& edges(const Parameter<T>&) const {
    bug("a model without learned entries has no edges behind a parameter");
  }

  /// Returns relations between nodes that the model has learned; may be empty.
  [[nodiscard]] virtual std::vector<LearnedRelation> learned_relations() const = 0;

  /// Provides the inputs of forecast steps that are known ahead: from the file `inputs`, or from the data if
  /// `inputs` is empty. Throws UserError if inputs are missing or the model reads none. Collective.
  virtual void know_ahead(Index origin, Index steps, const std::string& inputs) {
    (void)origin, (void)steps;
    if (!inputs.empty())
      user_error("--inputs {}: the run does not read data.known_inputs. Leave --inputs out", inputs);
  }
  /// Returns the origins from which the model can forecast `horizons` steps. Throws UserError if the model
  /// cannot forecast as many steps.
  [[nodiscard]] virtual std::vector<Index> usable(std::vector<Index> origins, Index horizons) const = 0;
  /// Receives forecasts (rows, origins of the group, features) in original units, for the origins from
  /// `first` on at horizon 1, 2, …. Collective.
  using Visit = std::function<void(Index first, Index horizon, NodeView<const T> forecast)>;
  void forecast(std::span<const Index> origins, Index horizons, const Visit& visit);
  /// Quantiles that the model forecasts at once, ascending; empty if it has no such outputs.
  [[nodiscard]] virtual std::vector<double> quantiles() const { return {}; }
  /// As Visit, for all quantiles one after the other. Collective.
  using LevelVisit = std::function<void(Index first, Index horizon, Index level, NodeView<const T> forecast)>;
  void forecast_quantiles(std::span<const Index> origins, Index horizons, const LevelVisit& visit);
  /// Adds the model's errors as forecaster 0. Collective.
  void add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons);

  /// Writes a training's arrays in global row order, and reads them on any grid. Collective.
  void write(const std::string& path, std::span<const NamedArray<T>> arrays, const std::string& metadata);
  void read(const std::string& path, std::span<const NamedArray<T>> arrays);
  /// Throws UserError if `write` would fail now: no space, or a file system that cannot be written. Grids of
  /// several groups or stages are not checked. Collective.
  void check_room(const std::string& path, std::span<const NamedArray<T>> arrays);
  /// Writes the model's parameters to `path`, in global row order, with `metadata`. Collective.
  void save(const std::string& path, const nlohmann::ordered_json& metadata);
  /// Writes the values that the run was fitted to beside its state (data_record.hpp). Collective.
  void save_record(const std::string& path);
  /// Reads the parameters back, at any rank count. Throws UserError if they were trained on data that differ
  /// from this run's training part, unless `accepts`; then the changes are returned. Warns if the state does
  /// not identify its data and the file is not that of the training. Afterwards a device has the arrays that
  /// forecasts read. Collective.
  DataChanges load(const std::string& path, bool other_file, bool accepts = false);
  /// Starts the training from the weights of another run: its directory or a state file. Latents are taken
  /// for the steps that both runs have. Returns a line for the log. Throws UserError if model or shapes
  /// differ, or if weights belong to nodes or steps that differ here. Collective.
  std::string start_from(const std::string& run);

 protected:
  /// `record`: of the training if its data may have changed, else null. Collective.
  ModelRun(const ProcessGrid& grid, const Config& config, Domain domain,
           std::shared_ptr<const DataRecord> record);

  /// Scalers of the target, of past and of known inputs; without features: none.
  [[nodiscard]] virtual std::vector<Scaler> scalers() const = 0;
  /// Returns the values that the training was fitted to, if its data have changed; nothing if they have not.
  /// `like` has the shapes. Collective.
  [[nodiscard]] std::optional<FittedValues> kept_fit(std::vector<Scaler> like) const;

  /// As `forecast`, but returns anomalies if `anomalies_` is on. With `of_training`, starts from the values
  /// that training reads.
  virtual void forecast_anomalies(std::span<const Index> origins, Index horizons, bool of_training,
                                  const Visit& visit) = 0;
  /// As forecast_anomalies, for all quantiles.
  virtual void forecast_anomaly_quantiles(std::span<const Index> origins, Index horizons,
                                          const LevelVisit& visit);
  /// Adds errors of anomaly forecasts, scored in these units. Collective.
  virtual void add_anomaly_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons,
                                  const std::function<ScoredUnits(Index horizon)>& units) = 0;
  /// Origins whose windows, or steps up to `horizons` ahead, lie in the training part.
  [[nodiscard]] virtual std::vector<Index> training_origins(Index horizons) const = 0;
  /// Anomaly that training reads at a training step, by row and feature.
  [[nodiscard]] virtual double training_anomaly(Index step, Index row, Index feature) const = 0;

  /// Sets the cycle that data.cycle names, or that "auto" chooses. Collective.
  void decide_cycle(Purpose purpose);
  [[nodiscard]] bool cycles() const { return cycle_ != CycleKind::none; }
  /// Line on what models see; empty if they see plain values.
  [[nodiscard]] std::string anomaly_remark() const;

  /// Opens the requested device; for tracing, a device that computes nothing. Collective.
  void open_device(Purpose purpose);
  /// Returns the link of all ranks if `comm` has all ranks in their order; else null: `comm` needs a link of
  /// its own.
  [[nodiscard]] std::shared_ptr<NcclLink> link_of(const Communicator& comm) const;
  /// Adds values of one step, (rows, features) followed by the domain's inputs, to `summaries_`. `centers` is
  /// (rows, features), or empty.
  void summarise(const float* values, Index rows, std::span<const double> centers);
  /// Sums `summaries_` over ranks. Collective.
  void complete_summaries(Reducer& reducer);
  /// Returns a line if values of the training part look like markers of missing values.
  [[nodiscard]] std::string suspects() const;
  /// Returns a line if data.spread = "none" leaves values far from 1.
  [[nodiscard]] std::string unscaled() const;
  /// Throws if the training part has no observed value.
  void require_observed(double observed) const;
  /// Throws if the training watches a validation part without an `observed` target.
  void require_validation(bool observed);

  ProcessGrid grid_;
  const Config* config_;
  Domain domain_;
  bool validation_seen_ = true;
  MpiReducer reducer_;         // over all ranks
  MpiReducer groups_reducer_;  // over the ranks with these rows and this stage
  Exec exec_;
  DataHash data_hash_;
  std::shared_ptr<const DataRecord> record_;
  AnomalyMap anomalies_;
  std::vector<ValueSummary> summaries_;
  DeviceChoice device_;
  Exec training_exec_;
  std::unique_ptr<DeviceSums> world_sums_;   // of device arrays, over all ranks; null: on the host
  std::unique_ptr<DeviceSums> group_ports_;  // of device arrays, over time groups
  std::vector<Device::Copy> kept_;           // arrays that do not change

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
  void check_units(const std::string& path, const nlohmann::json& metadata) const;
  [[nodiscard]] DataChanges accept_changes(const std::string& path, const nlohmann::json& metadata) const;
  CycleKind cycle_ = CycleKind::none;
  std::string cycle_remark_;
  std::string products_remark_;
  [[nodiscard]] std::vector<StateArray<T>> state_arrays(std::span<const NamedArray<T>> arrays) const;
  [[nodiscard]] std::vector<NamedArray<T>> values() const;
  void lend();
};

/// Makes the run that model.name asks for. For training, ranks form parallel.time_groups groups and
/// parallel.stages stages. Pretended ranks (for tracing) share `whole`, which must outlive the run. If the
/// data have changed, the run uses the values in the `record` of its training. `workers`: time groups whose
/// windows a recorded training used; 0 means those of the ranks. Collective.
template <class T>
[[nodiscard]] std::unique_ptr<ModelRun<T>> make_run(const Communicator& comm, const Config& config,
                                                    Purpose purpose, WholeGraph* whole = nullptr,
                                                    std::shared_ptr<const DataRecord> record = nullptr,
                                                    Index workers = 0);

/// OpenMP threads per rank: parallel.threads, or OMP_NUM_THREADS, or this host's cores divided by its ranks.
[[nodiscard]] int threads_per_rank(const Communicator& comm, const Config& config);

}  // namespace rossby
