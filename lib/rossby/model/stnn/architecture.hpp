#pragma once

#include "rossby/model/architecture.hpp"

namespace rossby {

/// Keys model.* that an STNN reads.
struct StnnSettings {
  Index latent = 0;
  std::string activation;
  Index layers = 0;
  Index hidden = 0;
  double dropout_z = 0;
  double dropout_dynamics = 0;
  double lambda = 0;
  double l2_z = 0;
  double l1_rel = 0;
  std::string decoder;
  std::string start;
  double z_range = 0;
  std::string dynamics_start;
};

/// An STNN with its hyperparameters.
class StnnArchitecture final : public Architecture {
 public:
  explicit StnnArchitecture(const KeyValues& values);

  [[nodiscard]] std::string_view name() const override { return "stnn"; }
  [[nodiscard]] double entry_cost(int relations) const override {
    return 1 / ((static_cast<double>(relations) + 1) * static_cast<double>(settings_.latent));
  }
  [[nodiscard]] const StnnSettings& settings() const { return settings_; }

 private:
  StnnSettings settings_;
};

}  // namespace rossby
