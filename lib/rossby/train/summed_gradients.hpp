#pragma once

#include <span>
#include <vector>

#include "rossby/kernels/exec.hpp"
#include "rossby/train/handover.hpp"
#include "rossby/train/optimiser.hpp"

namespace rossby {

/// Sums gradients of sub-batches and makes one update from them.
template <class T>
class SummedGradients {
 public:
  explicit SummedGradients(MasterParameters<T>& masters);

  void clear();
  void add(const FinishedBatch<T>& batch, double factor);
  /// Sums of replicated parameters, to be summed over ranks and groups, and of this rank's rows, over groups.
  [[nodiscard]] std::vector<double>& replicated() { return replicated_; }
  [[nodiscard]] std::vector<double>& owned() { return owned_; }

  /// Gives the masters the gradients of the mean over `targets`, for parameters whose `in_step` is not 0 (one
  /// value each). Throws NotFinite if the loss (a sum over targets) or a gradient is not finite.
  void hand_over(Optimiser<T>& optimiser, double lr, double loss, double targets,
                 std::span<const double> in_step);
  /// Returns Σ gradient² of the masters: of this rank's rows, and of the replicated parameters.
  [[nodiscard]] double owned_squares(const Exec& exec) const { return squares(exec, false); }
  [[nodiscard]] double replicated_squares(const Exec& exec) const { return squares(exec, true); }

 private:
  struct Place {
    std::size_t at = 0, size = 0;
    bool replicated = true;
  };
  [[nodiscard]] std::vector<double>& of(const Place& place) {
    return place.replicated ? replicated_ : owned_;
  }
  [[nodiscard]] double squares(const Exec& exec, bool replicated) const;

  MasterParameters<T>* masters_;
  std::vector<Place> places_;  // of the trained parameters
  std::vector<double> replicated_, owned_;
};

/// Returns the clipping factor for a squared norm; 1 if `clip` is 0. Throws NotFinite if the norm is not
/// finite.
[[nodiscard]] double clipping_scale(double squares, double clip);

}  // namespace rossby
