#pragma once

#include <memory>

#include "rossby/data/windows.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/model/architecture.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/run/base_forecast.hpp"
#include "rossby/run/device_ports.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/train/window_task.hpp"

namespace rossby {

/// Returns what train.recompute asks for.
[[nodiscard]] Recompute recompute_of(const Config& config);

/// A window model and all that it needs. A rank holds its rows at its time group's steps, in original units.
/// Windows are scaled as they are read.
template <class T>
class WindowRun final : public ModelRun<T> {
 public:
  /// `workers`: number of groups whose windows are trained on, each by one of the time groups; 0: as many as
  /// time groups. Collective.
  WindowRun(const ProcessGrid& grid, const Config& config, Domain domain, Purpose purpose,
            std::shared_ptr<const DataRecord> record, Index workers = 0);

  [[nodiscard]] std::span<Parameter<T>* const> parameters() const override { return model_->parameters(); }
  [[nodiscard]] std::unique_ptr<Task<T>> make_task() override { return make_window_task(forecast_view_); }
  [[nodiscard]] Traffic sent() const override;
  [[nodiscard]] Traffic brought() const override { return step_exchange_->sent(); }
  [[nodiscard]] int relations() const override { return block_.relations; }
  [[nodiscard]] Index entries() const override { return block_.entries(); }
  [[nodiscard]] std::size_t list_bytes() const override {
    return ModelRun<T>::list_bytes() + scaler_.bytes() + past_scaler_.bytes() + known_scaler_.bytes() +
           fixed_.size() * sizeof(float) + (ports_ ? ports_->kept_bytes() : 0) +
           (all_ports_ ? all_ports_->kept_bytes() : 0);
  }
  [[nodiscard]] std::string remarks() const override;
  [[nodiscard]] std::vector<LearnedRelation> learned_relations() const override {
    return model_->learned_relations();
  }
  [[nodiscard]] Index unseen_nodes() const override { return scaler_.unseen(); }
  void add_metadata(nlohmann::ordered_json& json) const override;
  [[nodiscard]] std::size_t start_bytes() const override;
  [[nodiscard]] std::vector<Index> usable(std::vector<Index> origins, Index horizons) const override;
  [[nodiscard]] std::vector<double> quantiles() const override;
  void know_ahead(Index origin, Index steps, const std::string& inputs) override;

 protected:
  void forecast_anomalies(std::span<const Index> origins, Index horizons, bool of_training,
                          const typename ModelRun<T>::Visit& visit) override;
  void forecast_anomaly_quantiles(std::span<const Index> origins, Index horizons,
                                  const typename ModelRun<T>::LevelVisit& visit) override;
  void add_anomaly_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons,
                          const std::function<ScoredUnits(Index)>& units) override;
  [[nodiscard]] std::vector<Scaler> scalers() const override {
    return {scaler_, past_scaler_, known_scaler_};
  }
  [[nodiscard]] std::vector<Index> training_origins(Index horizons) const override;
  [[nodiscard]] double training_anomaly(Index step, Index row, Index feature) const override {
    return store_->at(step + training_view_)[row * store_->features() + feature];
  }

 private:
  [[nodiscard]] std::unique_ptr<WindowTask<T>> make_window_task(Index view);
  /// Returns the index of the point forecast in quantiles().
  [[nodiscard]] Index middle() const;
  void make_store(Purpose purpose);
  [[nodiscard]] StepLists training_steps_of_groups() const;
  void read_values();
  void read_values(std::span<const Index> steps, std::span<float> to);
  void set_times(std::vector<float> of_axis);
  void set_calendar();
  void fit(Purpose purpose);
  void fit_anomalies(std::span<const Index> read, std::span<const Index> training, const FittedValues* kept);
  [[nodiscard]] std::vector<Index> hashed_steps() const;
  void fit_inputs(const std::vector<Index>& training, const FittedValues* kept);
  void keep_steps(Device& device);
  void correct_base(Purpose purpose, bool data_changed);
  [[nodiscard]] bool corrects() const { return config_->model.corrects(); }
  /// Returns the number of values of a step besides those of model.base_forecast.
  [[nodiscard]] Index read_width() const {
    return store_->rows() * (store_->features() + domain_.inputs.channels());
  }
  [[nodiscard]] bool reads_ahead() const;
  [[nodiscard]] std::string input_remarks() const;
  [[nodiscard]] std::string embedding_remark() const;
  [[nodiscard]] bool sees_validation();
  [[nodiscard]] std::string lost_to_gaps() const;
  void make_graph(Purpose purpose);
  void choose_sparse();
  void make_model();
  [[nodiscard]] Pipeline pipeline();
  /// Returns the rank of a learned low-rank relation; 0 if there is none.
  [[nodiscard]] Index low_rank() const {
    return config_->relation.discover == "low_rank" ? config_->relation.rank : 0;
  }
  void start_low_rank_at_eofs();
  /// Returns what one unit of scaled error is in original units, on the mean. Collective.
  [[nodiscard]] double unit();
  [[nodiscard]] std::vector<Index> training_steps() const;
  void keep_data(Device& device);

  using ModelRun<T>::grid_;
  using ModelRun<T>::config_;
  using ModelRun<T>::domain_;
  using ModelRun<T>::reducer_;
  using ModelRun<T>::exec_;
  using ModelRun<T>::training_exec_;
  using ModelRun<T>::kept_;
  using ModelRun<T>::anomalies_;
  const WindowArchitecture& architecture_;
  WindowShape shape_;
  std::vector<Index> breaks_;                   // of the time axis
  std::vector<Index> windows_;                  // first steps of the training windows
  std::vector<std::vector<Index>> validation_;  // origins, of every group
  bool sees_validation_ = true;                 // some validation target is not missing
  double gradient_factor_ = 1;
  bool reads_zero_ = false;  // missing inputs become 0 in original units, because no mean is known
  TimeFeatures times_;
  EmbeddingShape embeddings_;
  CalendarTables calendar_;  // of the places of the store
  std::unique_ptr<WindowPlan> plan_;
  std::unique_ptr<StepExchange> step_exchange_;
  std::unique_ptr<StepStore> store_;
  // With a cycle, a step that training and forecasts read is held twice: as anomaly about a cycle without its
  // own day or year, and about the cycle of all training steps. The second copy is the step + span_.
  Index training_view_ = 0, forecast_view_ = 0;
  Index span_ = 0;  // T, plus in forecasts the steps after the data with known inputs
  StepLists held_;  // steps of every group when the store was made
  Scaler scaler_;
  Scaler past_scaler_, known_scaler_;     // of data.inputs and data.known_inputs
  std::vector<float> fixed_;              // data.static, scaled: (rows, inputs.fixed)
  BaseFit base_;                          // of model.base_forecast
  std::vector<Device::Copy> kept_steps_;  // the series on the device, if it is kept there
  std::unique_ptr<SeriesReader<T>> reader_;
  CsrBlock block_;  // supports
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<DevicePorts> ports_;
  Exchange* graph_exchange_ = nullptr;  // the one that diffusions use
  std::unique_ptr<Exchange> all_rows_;  // if a model relates all nodes to all, on several ranks
  std::unique_ptr<DevicePorts> all_ports_;
  std::unique_ptr<DeviceSums> plane_sums_;  // of statistics on the device
  MpiReducer plane_reducer_;                // over the ranks of this stage
  std::unique_ptr<DeviceSums> block_sums_;  // of statistics of one group, on the device
  MpiReducer block_reducer_;                // over the ranks with these times, of this stage
  MpiReducer stages_reducer_;               // over the ranks with these rows and times
  std::unique_ptr<RowLink> stage_link_;
  std::vector<int> stage_of_;  // of the model's layers
  SparseChoice sparse_choice_;
  std::string why_no_library_;
  std::shared_ptr<SparseLibrary<T>> sparse_library_;  // if it was chosen
  std::unique_ptr<WindowModel<T>> model_;
};

}  // namespace rossby
