#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/model/losses.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/train/optimiser.hpp"
#include "rossby/train/step_seconds.hpp"
#include "rossby/train/under_way.hpp"

namespace rossby {

/// Votes of a rank in a step. If any rank casts a vote, all ranks act on it after the step.
enum Vote : unsigned {
  vote_finish = 1,  // end the training: validation, best state
  vote_save = 2,    // write a checkpoint
  vote_pause = 4,   // write a checkpoint and leave, to be resumed
  vote_late = 8     // the time limit of the training is reached: as vote_finish
};

/// A loss or gradient is not finite. Gradients are unchanged unless steps had run ahead.
class NotFinite : public UserError {
 public:
  using UserError::UserError;
};

/// Throws NotFinite if the total is not finite.
void check_finite(const Losses& losses);

/// The time groups of a process grid. Each group holds all parameters except its part of split ones
/// (Parameter::split). Gradients of owned parameters are summed over groups, so that copies stay equal.
struct TimeGroups {
  Reducer* reducer = nullptr;  // over the ranks with the same row block; null: one group
  bool first = true;           // true for the group whose copies count in a norm
};

/// One training step, the same for every model. Order of operations:
///
///     losses (forward; ghosts travel inside ops) → backward (ghost gradients travel inside ops), per part
///         (relations that are updated in backward change here, clipped by the norm of the last step)
///       → sums of dW over time groups, if there are several
///       → one allreduce {dΘ of replicated parameters, loss sums, Σ‖g‖² of owned rows, votes}
///       → gradient norm → optimiser
///
/// On a device, the host waits once, before the allreduce. If the host needs no result, steps may run ahead
/// of it: all work is enqueued, gradients stay on the device, and the losses arrive when a caller settles.
/// Several ranks run ahead if their sums are enqueued, too (Reducer::enqueues); the hosts then share only
/// votes. Clipping then uses the norm on the device (clip_by_norm).
template <class T>
class Step {
 public:
  Step(std::span<Parameter<T>* const> parameters, Optimiser<T>& optimiser, Reducer& reducer, double clip,
       TimeGroups groups = {});

  struct Result {
    double loss = 0;
    double gradient_norm = 0;  // before clipping; 0 if clipping is off
    unsigned votes = 0;        // Vote: union of all ranks' votes
    bool ahead = false;        // the device is not done: losses and their total are still unknown
  };

  /// Allows steps on a device to run ahead of the host. The caller then keeps each step's losses in place
  /// until `settle` and checks them: `run` does not throw for these steps.
  void allow_ahead() { may_run_ahead_ = true; }
  /// Sums losses of settled steps that ran ahead over all ranks, in one round. Collective.
  void share_losses(std::span<Losses* const> of_steps);

  /// `forward` records the losses on the tape. On return, `losses` holds global sums. Throws NotFinite on
  /// every rank if the loss, a gradient of a replicated parameter or the gradient norm is not finite, or
  /// if the tape's check (OpCheck) on any rank has found a fault. In that case, only fused parameters
  /// (OptimiserOptions::fuse) have changed, in backward. Collective.
  Result run(Tape<T>& tape, double lr, unsigned votes, Losses& losses, const std::function<void()>& forward) {
    return run(
        tape, lr, votes, losses, [&forward](Index) { forward(); }, 1);
  }
  /// The same for a batch in parts, each with its own forward and backward. `forward(part)` records the
  /// losses of one part.
  Result run(Tape<T>& tape, double lr, unsigned votes, Losses& losses,
             const std::function<void(Index part)>& forward, Index parts);

  /// Returns the seconds of the last completed step.
  [[nodiscard]] const StepSeconds& seconds() const { return seconds_; }

  /// Clipping factor of the last step with fused parameters: the only value that one step passes to the next.
  [[nodiscard]] double fused_scale() const { return fused_scale_; }
  void set_fused_scale(double scale) { fused_scale_ = scale; }

 private:
  void add_squares(const Exec& exec, const Parameter<T>& parameter, double* squares);
  void add_owned_squares(const Exec& exec, double* squares);
  void sum_over_groups(BlockTrace* trace);
  void agree_on(const OpCheck<T>& check);
  [[nodiscard]] bool could_run_ahead(const Exec& exec) const;
  [[nodiscard]] bool runs_ahead(const Exec& exec) const;
  void share_ahead(const Exec& exec, BlockTrace* trace, Losses& losses, unsigned votes, Result& result);
  void clip_ahead(const Exec& exec, Losses& losses);
  void share(const Exec& exec, BlockTrace* trace, Losses& losses, unsigned votes, Result& result);
  void allreduce(const Exec& exec, Losses& losses, unsigned votes, Result& result);
  void fetch_gradients();
  [[nodiscard]] std::span<T> gradient_at_home(std::size_t i);
  [[nodiscard]] double replicated_squares(const Exec& exec);

  std::vector<Parameter<T>*> replicated_;
  std::vector<Parameter<T>*> owned_;
  Optimiser<T>* optimiser_;
  Reducer* reducer_;
  TimeGroups groups_;
  double clip_;
  bool may_run_ahead_ = false;
  bool all_could_ = false;  // true if all ranks could run ahead; each step that waits updates it
  UnderWay under_way_;
  double owned_squares_ = 0;
  StepSeconds seconds_;
  double fused_scale_ = 1;  // clipping factor of the last step with fused parameters
  std::vector<double> fused_;
  std::vector<std::span<T>> gradients_;
  std::vector<Buffer<T>> fetched_;  // pinned: gradients of replicated_ that lie on a device
};

}  // namespace rossby
