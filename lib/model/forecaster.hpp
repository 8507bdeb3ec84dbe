#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/autograd/tape.hpp"
#include "rossby/model/stnn.hpp"

namespace rossby {

/// Forecasts of an STNN from given origins, with Θ and W fixed and nothing used that lies behind an origin.
///
/// The latents at a training step are the learned ones. From there they are filtered forward, step by step,
/// in closed form: with the prediction p = φ(g(context(z_{t−1}))), z_t = argmin |D z − x_t|² + λ |z − p|² = p
/// + Dᵀ (D Dᵀ + λ I)⁻¹ (x_t − D p), features that are missing at t left out of D (all missing: z_t = p). λ =
/// 0 takes the limit, the smallest correction that meets the observation.
template <class T>
class Forecaster {
 public:
  /// `series` is scaled as in training; `learned[t]` says whether the latents of step t were trained. Steps
  /// before the first learned one start from p = 0.
  Forecaster(const Exec& exec, Stnn<T>& model, const Series& series, std::vector<bool> learned,
             double filter_lambda);

  /// Called with the index of the first origin of a group, the horizon h = 1, 2, … and the scaled predictions
  /// (rows, origins of the group, m) for steps origin + h.
  using Visit = std::function<void(Index first, Index horizon, NodeView<const T> predictions)>;

  /// Forecasts `horizons` steps from each origin (ascending). Origins are rolled forward together in groups,
  /// one pass over W a group and horizon. Collective.
  void run(std::span<const Index> origins, Index horizons, const Visit& visit);

 private:
  void latents_at(Index step);
  void filter_step(Index step);
  void correct(Index row, Index step, T* z) const;
  void roll(Index first, Index count, Index horizons, const Visit& visit);

  Tape<T> tape_;
  Stnn<T>* model_;
  const Series* series_;
  std::vector<bool> learned_;
  double lambda_;
  std::vector<double> decoder_;  // D (m, d)
  std::vector<double> gain_;     // Dᵀ (D Dᵀ + λ I)⁻¹ (d, m) for fully observed nodes
  Index at_ = -2;                // step of z_; −2: none
  Buffer<T> z_;                  // (rows, d)
  Buffer<T> columns_;            // (rows, group, d)
};

}  // namespace rossby
