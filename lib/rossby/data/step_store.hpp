#pragma once

#include <memory>
#include <span>
#include <vector>

#include "rossby/data/step_carrier.hpp"
#include "rossby/exchange/step_exchange.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// Steps of every group of a process grid, ascending, without duplicates.
using StepLists = std::vector<std::vector<Index>>;

/// The time steps of a series that this rank's group holds, for the rank's rows, float32, in original units.
/// It holds the group's share and the steps that neighbours' windows reach, which are held twice. Steps of
/// other groups arrive for a batch (prefetch, arrive), or permanently (rearrange).
class StepStore {
 public:
  /// `held` lists the steps of every group; fill in those of this group through `values`. `exchange` must
  /// outlive the store. `idle`: tracks holders and transfers, with calls of the exchange, but holds no
  /// values; all steps share the same zeros. `further`: values per row and step after the features of all
  /// rows. They are inputs that are not forecast, and travel with the features.
  StepStore(Index steps, Index rows, Index features, StepLists held, StepExchange& exchange,
            bool idle = false, Index further = 0);
  /// Completes a transfer in progress.
  ~StepStore();
  StepStore(const StepStore&) = delete;
  StepStore& operator=(const StepStore&) = delete;

  [[nodiscard]] Index steps() const { return static_cast<Index>(at_.size()); }  // T
  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] Index features() const { return features_; }
  [[nodiscard]] int group() const { return exchange_->group(); }

  /// Values per step: (rows, features), then (rows, further).
  [[nodiscard]] Index width() const { return width_; }
  /// Steps of this group, and their values (held, width).
  [[nodiscard]] std::span<const Index> held() const { return held_[static_cast<std::size_t>(group())]; }
  [[nodiscard]] std::span<float> values() { return values_.span(); }
  /// Held steps that no lower group holds. Over all groups, every step appears once.
  [[nodiscard]] std::vector<Index> counted() const;

  /// (rows, features) of a step that is here, followed by (rows, further).
  [[nodiscard]] const float* at(Index step) const {
    const float* values = at_[static_cast<std::size_t>(step)];
    require(values || width_ == 0, "a step that this group holds or has fetched");
    return values;
  }

  /// Starts to fetch the steps that each group wants but does not hold, from the lowest group that holds
  /// them. Every rank passes the same lists. One transfer at a time. Collective.
  void prefetch(const StepLists& wanted);
  [[nodiscard]] bool on_the_way() const { return on_the_way_; }
  /// Completes the transfer. The fetched steps are available until the next arrival. Collective.
  void arrive();

  /// For a device that does not keep the values: copies each batch's steps ahead (StepCarrier).
  void carry_to(Device& device) { carrier_ = std::make_unique<StepCarrier>(device, width_); }
  [[nodiscard]] bool carries() const { return carrier_ != nullptr; }
  /// Starts to copy available steps. After `turn`, the device reads them.
  void send(std::span<const Index> steps) {
    carrier_->bring(steps, [this](Index step) { return at(step); });
  }
  void turn() { carrier_->turn(); }
  /// Address of a step's values for kernels of `device`: copied ahead, kept there, or copied now.
  [[nodiscard]] const float* on(Device& device, Index step) const {
    if (carrier_)
      if (const float* there = carrier_->at(step)) return there;
    return device.on_device(std::span<const float>(at(step), static_cast<std::size_t>(width_)));
  }

  /// From now on every group holds exactly these steps. Collective.
  void rearrange(StepLists held);

 private:
  [[nodiscard]] int holder(Index step) const;
  void start(const StepLists& wanted, std::span<float> to);
  [[nodiscard]] std::vector<Index> missing(std::span<const Index> wanted, int group) const;
  void place();

  Index rows_, features_, width_;
  StepLists held_;
  StepExchange* exchange_;
  bool idle_;
  Buffer<float> values_;
  std::vector<const float*> at_;  // by step; null: not here
  std::vector<std::int32_t> holder_;
  Buffer<float> arriving_, arrived_;
  std::vector<Index> arriving_steps_, arrived_steps_;  // in the order of the buffers
  bool on_the_way_ = false;
  std::unique_ptr<StepCarrier> carrier_;
};

}  // namespace rossby
