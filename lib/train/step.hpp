#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/model/losses.hpp"
#include "rossby/train/optimiser.hpp"

namespace rossby {

/// One training step, the same for every model. Precedences:
///
///     losses (forward; ghosts travel inside ops) → backward (ghost gradients travel inside ops)
///         (relations that are updated in backward change here, clipped by the norm of the last step)
///       → one allreduce {dΘ of replicated parameters, loss sums, Σ‖g‖² of owned rows, stop votes}
///       → gradient norm → optimiser
template <class T>
class Step {
 public:
  Step(std::span<Parameter<T>* const> parameters, Optimiser<T>& optimiser, Reducer& reducer, double clip);

  struct Result {
    double loss = 0;
    double gradient_norm = 0;  // before clipping; 0 where clipping is off
    bool stop = false;         // some rank voted to stop
  };

  /// `forward` records the losses on the tape. On return `losses` holds global sums. Throws UserError on
  /// every rank where the loss is not finite: no parameter has been changed then but fused ones
  /// (OptimiserOptions::fuse), which backward has updated. Collective.
  Result run(Tape<T>& tape, double lr, bool vote_stop, Losses& losses, const std::function<void()>& forward);

 private:
  void allreduce(Losses& losses, bool vote_stop, Result& result);
  [[nodiscard]] double replicated_squares(const Exec& exec) const;

  std::vector<Parameter<T>*> replicated_;
  std::vector<Parameter<T>*> owned_;
  Optimiser<T>* optimiser_;
  Reducer* reducer_;
  double clip_;
  double owned_squares_ = 0;
  double fused_scale_ = 1;  // clipping factor of the last step with fused parameters
  std::vector<double> fused_;
};

}  // namespace rossby
