#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/autograd/tape.hpp"
#include "rossby/model/stnn/stnn.hpp"
#include "rossby/tensor/twin.hpp"

namespace rossby {

/// Forecasts of an STNN from given origins, with Θ and W fixed and nothing used that lies behind an origin.
///
/// The latents at a training step are the learned ones. From there they are filtered forward, step by step,
/// in closed form: with the prediction p = φ(g(context(z_{t−1}))), z_t = argmin |D z − x_t|² + λ |z − p|² = p
/// + Dᵀ (D Dᵀ + λ I)⁻¹ (x_t − D p), features that are missing at t left out of D (all missing: z_t = p). λ =
/// 0 takes the limit, the smallest correction that meets the observation.
///
/// Relations and dynamics are applied where the tape's ops run, of a model that is there; the filter is the
/// host's.
template <class T>
class Forecaster {
 public:
  /// Forecasts are made on `tape`, which it resets and outlives it. `series` is scaled as in training;
  /// `learned[t]` says whether the latents of step t were trained. Steps before the first learned one start
  /// from p = 0.
  /// `together`: origins that are rolled forward at once, at most.
  Forecaster(Tape<T>& tape, Stnn<T>& model, const Series& series, std::vector<bool> learned,
             double filter_lambda, Index together = most_together);
  static constexpr Index most_together = 64;  // bounds memory, still one pass over W for many

  /// Called with the index of the first origin of a group, the horizon h = 1, 2, … and the scaled predictions
  /// (rows, origins of the group, m) for steps origin + h, in memory of the host.
  using Visit = std::function<void(Index first, Index horizon, NodeView<const T> predictions)>;

  /// Forecasts `horizons` steps from each origin (ascending). Origins are rolled forward together in groups,
  /// one pass over W a group and horizon. The model may have been trained since the last run. Collective.
  void run(std::span<const Index> origins, Index horizons, const Visit& visit);

  /// Forecasts of which one call of each kind is made.
  struct Traced {
    Index origins = 0, horizons = 0;  // of each
    Index filtered = 0;               // steps over which latents are filtered, all in all
    Index together = most_together;
  };
  /// Called after each of them with how many like it the forecasts take, and with the predictions of one
  /// horizon (none of a step that is filtered).
  using Made = std::function<void(Index times, NodeView<const T> predictions)>;
  /// Makes them over a device of addresses alone. Collective.
  static void trace(Tape<T>& tape, Stnn<T>& model, Index rows, const Traced& forecasts, const Made& made);
  /// Steps over which latents are filtered for forecasts from `origins` (ascending).
  [[nodiscard]] static Index filtered_steps(std::span<const Index> origins, const Stnn<T>& model,
                                            const std::vector<bool>& learned);

 private:
  void begin();
  void latents_at(Index step);
  void filter_step(Index step);
  void correct(Index step, T* latents) const;
  void gather(std::span<const Index> origins);
  void roll(Index first, Index count, Index horizons, const Visit& visit);
  [[nodiscard]] static Cost filter_cost(const Stnn<T>& model, Index rows);
  [[nodiscard]] Device* device() const { return tape_->exec().device; }
  void bring_home(std::span<T> home, const T* values, Device* from) const;

  Tape<T>* tape_;
  Stnn<T>* model_;
  const Series* series_;
  std::vector<bool> learned_;
  double lambda_;
  Index together_;
  std::vector<double> decoder_;  // D (m, d)
  std::vector<double> gain_;     // Dᵀ (D Dᵀ + λ I)⁻¹ (d, m) for fully observed nodes
  Index at_ = -2;                // step of z_; −2: none
  Twin<T> z_;                    // (rows, d)
  Buffer<T> lined_up_;           // (origins, rows, d): the last few that are not among the columns yet
  Twin<T> columns_;              // (rows, group, d)
  Buffer<T> home_;               // predictions that a device made
};

}  // namespace rossby
