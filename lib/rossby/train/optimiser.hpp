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

/// What happens to a parameter the present losses do not depend on, once some earlier loss has depended on
/// it.
enum class Absent {
  zero,  // it is updated with gradient zero: counts, moments and decay go on (the reference STNN code)
  skip   // it is left alone
};

struct OptimiserOptions {
  OptimiserKind kind = OptimiserKind::adam;
  double beta1 = 0;
  double beta2 = 0.999;
  double epsilon = 1e-9;
  double momentum = 0.9;
  Absent absent = Absent::zero;
  bool fuse =
      false;  // fusable parameters are updated inside backward (Adam, AdamW) and have no gradient array
  std::uint64_t seed = 1;  // of the rounding of what is held in bf16
};

/// The sink of a fusable parameter: its gradient goes into the update at once.
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

/// Updates the trained parameters of a rank; rates and decays come with each parameter. A parameter that no
/// loss has depended on so far is left alone, its count stays 0.
///
/// Fused parameters (OptimiserOptions::fuse) are updated while backward runs, with what begin_step was given.
/// Their Σ gradient² is known after that only, so that clipping by the global norm reaches them one step
/// late: the caller passes the factor of the last step that had them. Parameter::clips_late says which others
/// take that factor.
template <class T>
class Optimiser {
 public:
  /// With a device it moves the parameters and their moments there.
  Optimiser(const OptimiserOptions& options, std::span<Parameter<T>* const> parameters,
            Device* device = nullptr);
  Optimiser(Optimiser&&) noexcept = default;
  Optimiser& operator=(Optimiser&&) = delete;
  ~Optimiser();

  /// Before the forward of every step: learning rate and gradient factor of fused parameters. Forgets which
  /// rows the last step reached.
  void begin_step(double lr, double gradient_scale);
  /// After backward: whether fused parameters, or others that are clipped late, were in the step; Σ gradient²
  /// of the fused ones on this rank.
  [[nodiscard]] bool fused_in_step() const;
  [[nodiscard]] double fused_squares() const;

  /// One update with learning rate `lr` (times each parameter's lr_scale) of gradients times
  /// `gradient_scale`; then the gradients are zero and no parameter is in the step. Returns what it cost.
  Cost update(const Exec& exec, double lr, double gradient_scale);

  /// Makes all late updates: before anything but a step reads parameters.
  Cost settle(const Exec& exec);
  /// The same for moments of rows that a step's gradient did not reach alone: before anything but a step
  /// reads them. Their bits do not depend on when it is done.
  void settle_rows(const Exec& exec);

  /// Moments and count of one parameter, for checkpoints and tests. Empty buffers where the optimiser keeps
  /// none.
  struct State {
    Parameter<T>* parameter;
    Twin<T> first;           // m, or the velocity
    Twin<T> second;          // v
    bool has_first = false;  // also where this rank holds no values of the parameter
    bool has_second = false;
    Index count = 0;
    std::unique_ptr<Bf16Books> bf16;          // in place of first and second
    std::unique_ptr<UpdateSink<T>> sink;      // of a fused parameter
    bool clips_late = false;                  // without one
    std::unique_ptr<UpdateLedger<T>> ledger;  // of Adam and AdamW
  };
  /// Between two steps: all that is not an array (State::first, State::second, the values).
  [[nodiscard]] std::vector<ParameterBooks> books() const;
  /// Puts what other time groups know of split tables into books that this one has made. Collective over
  /// groups, whose ranks with these rows `groups` sums over.
  void gather_books(std::span<ParameterBooks> books, Reducer& groups) const;
  /// Takes it back, when the arrays are what they were then, and forgets a step that was begun. Throws
  /// UserError where the books are of other parameters.
  void restore(const Exec& exec, std::span<const ParameterBooks> books);

  /// Brings parameters and moments home from the device, or takes them there: around all that the host does
  /// with them. Nothing happens where there is no device.
  void fetch();
  void send();
  /// The parameters alone: all that a validation reads.
  void fetch_values();

  [[nodiscard]] std::span<State> states() { return states_; }
  [[nodiscard]] std::span<const State> states() const { return states_; }

 private:
  Cost update(const Exec& exec, State& state, double lr, double gradient_scale) const;
  /// Whether each of a table's rows has updates of its own.
  [[nodiscard]] static bool kept_by_rows(const State& state) {
    return state.ledger && state.parameter->by_rows;
  }
  /// Arrays of a state that have a copy on the device.
  static void each_twin(State& state, const auto& what) {
    if (state.parameter->stream) return;
    what(state.first);
    what(state.second);
    if (state.bf16) what(state.bf16->first), what(state.bf16->second);
  }
  [[nodiscard]] AdamStep adam_step(const State& state, double lr, double gradient_scale) const;

  OptimiserOptions options_;
  double late_scale_ = 1;  // of begin_step
  std::vector<Parameter<T>*> parameters_;
  Device* device_;
  std::vector<State> states_;
};

}  // namespace rossby
