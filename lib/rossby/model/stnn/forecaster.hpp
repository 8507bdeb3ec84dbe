#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/autograd/tape.hpp"
#include "rossby/model/stnn/stnn.hpp"
#include "rossby/tensor/twin.hpp"

namespace rossby {

/// Forecasts of an STNN from given origins. Θ and W are fixed, and no value after an origin is used.
///
/// The latents at a training step are the learned ones. From there, they are filtered forward, step by step,
/// in closed form. With the prediction p = φ(g(context(z_{t−1}))), z_t = argmin |D z − x_t|² + λ |z − p|² = p
/// + Dᵀ (D Dᵀ + λ I)⁻¹ (x_t − D p). Features that are missing at t are left out of D (all missing: z_t = p).
/// λ = 0 takes the limit, the smallest correction that meets the observation.
///
/// Relations and dynamics run where the tape's ops run, and the model must be on the same device. The filter
/// runs on the host.
template <class T>
class Forecaster {
 public:
  /// Forecasts use and reset `tape`, which must outlive this object. `series` is scaled as in training;
  /// `learned[t]` is true if the latents of step t were trained. Steps before the first learned one start
  /// from p = 0. `together`: largest number of origins that are rolled forward at once.
  Forecaster(Tape<T>& tape, Stnn<T>& model, const Series& series, std::vector<bool> learned,
             double filter_lambda, Index together = most_together);
  static constexpr Index most_together = 64;  // bounds memory, still one pass over W for many

  /// Receives the index of the first origin of a group, the horizon h = 1, 2, … and the scaled predictions
  /// (rows, origins of the group, m) for steps origin + h, in host memory.
  using Visit = std::function<void(Index first, Index horizon, NodeView<const T> predictions)>;

  /// Forecasts `horizons` steps from each origin (ascending). Groups of origins are rolled forward with one
  /// pass over W per group and horizon. The model may be trained between two runs. Collective.
  void run(std::span<const Index> origins, Index horizons, const Visit& visit);

  /// Forecasts to be traced by one call of each kind.
  struct Traced {
    Index origins = 0, horizons = 0;  // horizons of each origin
    Index filtered = 0;               // total number of steps over which latents are filtered
    Index together = most_together;
  };
  /// Called after each call with the number of such calls in the forecasts, and with the predictions of one
  /// horizon (none for a filter step).
  using Made = std::function<void(Index times, NodeView<const T> predictions)>;
  /// Traces the calls on a device that holds no memory. Collective.
  static void trace(Tape<T>& tape, Stnn<T>& model, Index rows, const Traced& forecasts, const Made& made);
  /// Returns the number of steps over which latents are filtered for forecasts from `origins` (ascending).
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
  Buffer<T> lined_up_;           // (origins, rows, d): the latest latents, not yet among the columns
  Twin<T> columns_;              // (rows, group, d)
  Buffer<T> home_;               // predictions copied from a device
};

}  // namespace rossby
