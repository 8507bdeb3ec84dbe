#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/base/random.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/twin.hpp"
#include "rossby/train/update_ledger.hpp"

namespace rossby {

enum class OptimiserKind {
  adam,   // Kingma, Ba, ICLR 2015; weight decay added to the gradient, as the reference STNN code
  adamw,  // Loshchilov, Hutter, ICLR 2019; decoupled decay
  sgd     // Nesterov momentum
};

/// Treatment of a parameter that the present losses do not depend on, although some earlier loss did.
enum class Absent {
  zero,  // update with gradient zero: counts, moments and decay go on (the reference STNN code)
  skip   // leave it alone
};

struct OptimiserOptions {
  OptimiserKind kind = OptimiserKind::adam;
  double beta1 = 0;
  double beta2 = 0.999;
  double epsilon = 1e-9;
  double momentum = 0.9;
  Absent absent = Absent::zero;
  bool fuse = false;  // update fusable parameters inside backward (Adam, AdamW), without a gradient array
  std::uint64_t seed = 1;  // of the rounding of bf16 values
};

/// The gradient sink of a fusable parameter. Its gradient goes into the update at once.
template <class T>
class UpdateSink final : public GradientSink<T> {
 public:
  [[nodiscard]] T* accumulate() override {
    bug("a parameter that is updated in backward has no gradient: switch fusing off for batches of pairs");
  }
  [[nodiscard]] DenseUpdate<T>* update() override { return &update_; }

 private:
  DenseUpdate<T> update_;
};

/// Updates the trained parameters of a rank. Each parameter has its own rate and decay. A parameter that no
/// loss has depended on so far is left alone; its count stays 0.
///
/// Fused parameters (OptimiserOptions::fuse) are updated while backward runs, with the values given to
/// begin_step. Their Σ gradient² is known only afterwards, so clipping by the global norm reaches them one
/// step late: the caller passes the factor of the last step with fused parameters. Parameter::clips_late
/// marks the other parameters that take this factor.
template <class T>
class Optimiser {
 public:
  /// Moves parameters and moments to the device, if there is one.
  Optimiser(const OptimiserOptions& options, std::span<Parameter<T>* const> parameters,
            Device* device = nullptr);
  Optimiser(Optimiser&&) noexcept = default;
  Optimiser& operator=(Optimiser&&) = delete;
  ~Optimiser();

  /// Call before the forward pass of every step. Sets learning rate and gradient factor of fused parameters.
  /// Clears the list of rows that the last step reached.
  void begin_step(double lr, double gradient_scale);
  /// Call after backward. True if fused parameters, or others that are clipped late, were in the step; Σ
  /// gradient² of the fused ones on this rank.
  [[nodiscard]] bool fused_in_step() const;
  [[nodiscard]] double fused_squares() const;

  /// Makes one update with learning rate `lr` (times each parameter's lr_scale) of gradients times
  /// `gradient_scale`. Afterwards the gradients are zero and no parameter is in the step. Returns the cost.
  Cost update(const Exec& exec, double lr, double gradient_scale);

  /// Makes all late updates. Call before any code outside a step reads parameters.
  Cost settle(const Exec& exec);
  /// Makes late updates of moments in rows that no gradient reached. Call before any code outside a step
  /// reads moments. Their bits do not depend on the time of the call.
  void settle_rows(const Exec& exec);

  /// Moments and count of one parameter, for checkpoints and tests. Buffers that the optimiser does not need
  /// are empty.
  struct State {
    Parameter<T>* parameter;
    Twin<T> first;           // m, or the velocity
    Twin<T> second;          // v
    bool has_first = false;  // also true if this rank holds no values of the parameter
    bool has_second = false;
    Index count = 0;
    std::unique_ptr<Bf16Books> bf16;          // in place of first and second
    std::unique_ptr<UpdateSink<T>> sink;      // null if the parameter is not fused
    bool clips_late = false;                  // takes the late factor without being fused
    std::unique_ptr<UpdateLedger<T>> ledger;  // Adam and AdamW only
  };
  /// Returns all state between two steps that is not an array (State::first, State::second, the values).
  [[nodiscard]] std::vector<ParameterBooks> books() const;
  /// Adds to `books`, made by this optimiser, the state of split tables in other time groups. Collective over
  /// groups; `groups` sums over the ranks with the same rows.
  void gather_books(std::span<ParameterBooks> books, Reducer& groups) const;
  /// Restores `books` after the caller has restored the arrays. Forgets a step that was begun. Throws
  /// UserError if the books belong to other parameters.
  void restore(const Exec& exec, std::span<const ParameterBooks> books);

  /// Copies parameters and moments from the device to the host, or back. The host works on them between the
  /// two calls. Does nothing without a device.
  void fetch();
  void send();
  /// Fetches only the parameters: a validation reads nothing else.
  void fetch_values();

  [[nodiscard]] std::span<State> states() { return states_; }
  [[nodiscard]] std::span<const State> states() const { return states_; }

 private:
  Cost update(const Exec& exec, State& state, double lr, double gradient_scale) const;
  /// True if each row of a table has updates of its own.
  [[nodiscard]] static bool kept_by_rows(const State& state) {
    return state.ledger && state.parameter->by_rows;
  }
  /// Calls `what` for the arrays of a state that have a copy on the device.
  static void each_twin(State& state, const auto& what) {
    if (state.parameter->stream) return;
    what(state.first);
    what(state.second);
    if (state.bf16) what(state.bf16->first), what(state.bf16->second);
  }
  [[nodiscard]] AdamStep adam_step(const State& state, double lr, double gradient_scale) const;

  OptimiserOptions options_;
  double late_scale_ = 1;  // set by begin_step
  std::vector<Parameter<T>*> parameters_;
  Device* device_;
  std::vector<State> states_;
};

}  // namespace rossby
