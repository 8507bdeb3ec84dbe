#pragma once

#include <memory>
#include <span>
#include <vector>

#include "rossby/data/step_carrier.hpp"
#include "rossby/exchange/step_exchange.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// Steps (ascending, without duplicates) of every group of a process grid.
using StepLists = std::vector<std::vector<Index>>;

/// The time steps of a series that this rank's group holds, of the rank's rows, float32, original units: the
/// group's share, steps that neighbours' windows reach into held twice, and nothing else. Steps of other
/// groups come in for a batch (prefetch, arrive), or for good (rearrange).
class StepStore {
 public:
  /// `held` names the steps of every group; those of this one are then filled in through `values`. `exchange`
  /// must outlive the store. `idle`: who holds and fetches what is followed, and told to the exchange, but no
  /// value is brought: those of all steps here are the same zeros. `further`: values of a row and step that
  /// lie behind the features of all rows: inputs that are not forecast, which travel with them.
  StepStore(Index steps, Index rows, Index features, StepLists held, StepExchange& exchange,
            bool idle = false, Index further = 0);
  /// A transfer that is under way is ended.
  ~StepStore();
  StepStore(const StepStore&) = delete;
  StepStore& operator=(const StepStore&) = delete;

  [[nodiscard]] Index steps() const { return static_cast<Index>(at_.size()); }  // T
  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] Index features() const { return features_; }
  [[nodiscard]] int group() const { return exchange_->group(); }

  /// Values of a step: (rows, features), then (rows, further).
  [[nodiscard]] Index width() const { return width_; }
  /// Steps of this group, and their values (held, width).
  [[nodiscard]] std::span<const Index> held() const { return held_[static_cast<std::size_t>(group())]; }
  [[nodiscard]] std::span<float> values() { return values_.span(); }
  /// Those of them that no lower group holds: over all groups every step once.
  [[nodiscard]] std::vector<Index> counted() const;

  /// (rows, features) of a step that is here; behind it (rows, further).
  [[nodiscard]] const float* at(Index step) const {
    const float* values = at_[static_cast<std::size_t>(step)];
    require(values || width_ == 0, "a step that this group holds or has fetched");
    return values;
  }

  /// Starts to bring the steps that each group wants and does not hold, from the lowest group that holds
  /// them. Every rank gives the same lists. One transfer at a time. Collective.
  void prefetch(const StepLists& wanted);
  [[nodiscard]] bool on_the_way() const { return on_the_way_; }
  /// Ends it: the fetched steps are here until the next arrival. Collective.
  void arrive();

  /// For a device that does not keep the values: what a batch reads is sent ahead (StepCarrier).
  void carry_to(Device& device) { carrier_ = std::make_unique<StepCarrier>(device, width_); }
  [[nodiscard]] bool carries() const { return carrier_ != nullptr; }
  /// Starts to bring steps that are here; `turn`: the device reads those from now on.
  void send(std::span<const Index> steps) {
    carrier_->bring(steps, [this](Index step) { return at(step); });
  }
  void turn() { carrier_->turn(); }
  /// The values of a step that is here where kernels of `device` find them: brought ahead, kept there, or
  /// carried over now.
  [[nodiscard]] const float* on(Device& device, Index step) const {
    if (carrier_)
      if (const float* there = carrier_->at(step)) return there;
    return device.on_device(std::span<const float>(at(step), static_cast<std::size_t>(width_)));
  }

  /// Every group holds these steps from now on, and no others. Collective.
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
  std::vector<const float*> at_;  // of each step; null: not here
  std::vector<std::int32_t> holder_;
  Buffer<float> arriving_, arrived_;
  std::vector<Index> arriving_steps_, arrived_steps_;  // side by side in the buffers
  bool on_the_way_ = false;
  std::unique_ptr<StepCarrier> carrier_;
};

}  // namespace rossby
