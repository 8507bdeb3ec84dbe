#pragma once

#include <memory>
#include <string>

#include "rossby/kernels/dense_choice.hpp"
#include "rossby/kernels/update_place.hpp"
#include "rossby/run/device_ports.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/train/stnn_task.hpp"

namespace rossby {

/// An STNN and all it depends on.
template <class T>
class StnnRun final : public ModelRun<T> {
 public:
  /// Reads the series (scaled in place), and builds the relations and the initial model. Collective.
  StnnRun(const ProcessGrid& grid, const Config& config, Domain domain, Purpose purpose,
          std::shared_ptr<const DataRecord> record);

  [[nodiscard]] std::span<Parameter<T>* const> parameters() const override { return model_->parameters(); }
  [[nodiscard]] std::unique_ptr<Task<T>> make_task() override;
  [[nodiscard]] Traffic sent() const override;
  [[nodiscard]] int relations() const override { return model_->relations().bank().relations(); }
  [[nodiscard]] Index entries() const override { return model_->relations().entries(); }
  [[nodiscard]] std::size_t list_bytes() const override {
    return ModelRun<T>::list_bytes() + scaler_.bytes() + model_->list_bytes() +
           (ports_ ? ports_->kept_bytes() : 0);
  }
  [[nodiscard]] std::size_t start_bytes() const override;
  [[nodiscard]] std::string remarks() const override;
  [[nodiscard]] std::vector<LearnedRelation> learned_relations() const override {
    return model_->relations().learned();
  }
  [[nodiscard]] Index unseen_nodes() const override { return scaler_.unseen(); }
  void add_metadata(nlohmann::ordered_json& json) const override;
  [[nodiscard]] const GlobalEdges& edges(const Parameter<T>& parameter) const override {
    return model_->relations().edges(parameter);
  }
  [[nodiscard]] std::vector<Index> usable(std::vector<Index> origins, Index) const override {
    return origins;
  }

 protected:
  void forecast_anomalies(std::span<const Index> origins, Index horizons, bool of_training,
                          const typename ModelRun<T>::Visit& visit) override;
  void add_anomaly_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons,
                          const std::function<ScoredUnits(Index)>& units) override;
  [[nodiscard]] std::vector<Scaler> scalers() const override { return {scaler_}; }
  [[nodiscard]] std::vector<Index> training_origins(Index horizons) const override;
  [[nodiscard]] double training_anomaly(Index step, Index row, Index feature) const override {
    return scaler_.to_value(static_cast<double>(series_.at(step, row, feature)), row, feature);
  }

 private:
  void read(Purpose purpose);
  void fit(Purpose purpose);
  void fit_anomalies(const std::vector<Index>& own, Purpose purpose, const FittedValues* kept);
  [[nodiscard]] Series training_series();
  void check_validation() const;
  [[nodiscard]] bool validation_fits() const;
  void join(Relations<T>& relations);
  void make_model(std::unique_ptr<Relations<T>> relations, Purpose purpose);
  [[nodiscard]] DataHash hash_data() const;
  [[nodiscard]] ObservedAround observed_around();
  [[nodiscard]] bool exchanges_factors(const Parameter<T>& parameter) const;
  void choose_dense(Relations<T>& relations);
  void choose_update_place();
  void start(Purpose purpose);
  void start_low_rank_at_eofs();
  void roll(std::span<const Index> origins, Index horizons, const typename ModelRun<T>::Visit& visit);

  using ModelRun<T>::grid_;
  using ModelRun<T>::config_;
  using ModelRun<T>::domain_;
  using ModelRun<T>::reducer_;
  using ModelRun<T>::groups_reducer_;
  using ModelRun<T>::exec_;
  using ModelRun<T>::training_exec_;
  using ModelRun<T>::kept_;
  using ModelRun<T>::anomalies_;
  MpiReducer space_reducer_;  // over this group's ranks
  BatchOptions batches_;
  StepRange held_;         // this group's steps
  bool validates_ = true;  // validation starts from this group's latents
  Series series_;          // anomalies, if the run has any, scaled
  Series truth_;           // anomalies about the whole cycle at all steps, for scores of forecasts
  Scaler scaler_;
  DenseChoice dense_choice_;
  UpdatePlaceChoice update_place_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<DevicePorts> ports_;
  std::unique_ptr<RowLink> link_;
  std::unique_ptr<GroupGather> gather_;
  std::unique_ptr<Stnn<T>> model_;
};

}  // namespace rossby
