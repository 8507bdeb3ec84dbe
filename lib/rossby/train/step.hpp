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

/// What a rank votes with a step. What any rank votes, all ranks do after the step.
enum Vote : unsigned {
  vote_finish = 1,  // end the training: validation, best state
  vote_save = 2,    // write a checkpoint
  vote_pause = 4,   // write a checkpoint and leave, to be resumed
  vote_late = 8     // the training's own time is used up: as vote_finish
};

/// A loss or gradient that is not finite. Gradients still hold what they held, unless steps had run ahead.
class NotFinite : public UserError {
 public:
  using UserError::UserError;
};

/// Throws NotFinite where the total is not.
void check_finite(const Losses& losses);

/// The time groups of a process grid, each of which holds all parameters but split ones
/// (Parameter::split). Their gradients of owned parameters are summed, so that copies stay copies.
struct TimeGroups {
  Reducer* reducer = nullptr;  // over the ranks with one row block; null: one group
  bool first = true;           // whether this is the group whose copies count in a norm
};

/// One training step, the same for every model. Precedences:
///
///     losses (forward; ghosts travel inside ops) → backward (ghost gradients travel inside ops), for every
///     part
///         (relations that are updated in backward change here, clipped by the norm of the last step)
///       → sums over time groups of dW, where there are several
///       → one allreduce {dΘ of replicated parameters, loss sums, Σ‖g‖² of owned rows, votes}
///       → gradient norm → optimiser
///
/// On a device the host waits for it once, before the allreduce. Where nothing there is for the host to know
/// steps may run ahead of it: all is enqueued, gradients never leave the device, and the losses come home
/// when somebody settles. Several ranks do so where their sums are enqueued, too (Reducer::enqueues): the
/// hosts share their votes alone. Clipping then takes the norm where it is (clip_by_norm).
template <class T>
class Step {
 public:
  Step(std::span<Parameter<T>* const> parameters, Optimiser<T>& optimiser, Reducer& reducer, double clip,
       TimeGroups groups = {});

  struct Result {
    double loss = 0;
    double gradient_norm = 0;  // before clipping; 0 where clipping is off
    unsigned votes = 0;        // Vote: those that any rank cast
    bool ahead = false;        // the device has not come so far: losses and their total are not known yet
  };

  /// Whether steps on a device may run ahead of it. Who allows it keeps the losses of each where they are
  /// until `settle`, and looks at them then: `run` does not throw for those.
  void allow_ahead() { may_run_ahead_ = true; }
  /// Makes losses of steps that ran ahead, which have come home, sums over all ranks, in one round.
  /// Collective.
  void share_losses(std::span<Losses* const> of_steps);

  /// `forward` records the losses on the tape. On return `losses` holds global sums. Throws NotFinite on
  /// every rank where the loss, its gradient of a replicated parameter or the gradient's norm is not: no
  /// parameter has been changed then but fused ones
  /// (OptimiserOptions::fuse), which backward has updated. The same where the tape's check (OpCheck) of a
  /// rank has found something. Collective.
  Result run(Tape<T>& tape, double lr, unsigned votes, Losses& losses, const std::function<void()>& forward) {
    return run(
        tape, lr, votes, losses, [&forward](Index) { forward(); }, 1);
  }
  /// The same for a batch in parts, whose forward and backward follow each other: `forward(part)` records the
  /// losses of one of them.
  Result run(Tape<T>& tape, double lr, unsigned votes, Losses& losses,
             const std::function<void(Index part)>& forward, Index parts);

  /// Of the last step that went through.
  [[nodiscard]] const StepSeconds& seconds() const { return seconds_; }

  /// Clipping factor of the last step with fused parameters: all that one step hands to the next.
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
  bool all_could_ = false;  // run ahead, of several ranks: each step that waits asks them
  UnderWay under_way_;
  double owned_squares_ = 0;
  StepSeconds seconds_;
  double fused_scale_ = 1;  // clipping factor of the last step with fused parameters
  std::vector<double> fused_;
  std::vector<std::span<T>> gradients_;
  std::vector<Buffer<T>> fetched_;  // in pinned memory: gradients of replicated_ that lie on a device
};

}  // namespace rossby
