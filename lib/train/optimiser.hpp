#pragma once

#include <memory>
#include <span>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/train/lazy_adam.hpp"

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
};

/// Updates the trained parameters of a rank; rates and decays come with each parameter. A parameter that no
/// loss has depended on so far is left alone, its count stays 0.
template <class T>
class Optimiser {
 public:
  Optimiser(const OptimiserOptions& options, std::span<Parameter<T>* const> parameters);

  /// One update with learning rate `lr` (times each parameter's lr_scale) of gradients times
  /// `gradient_scale`; then the gradients are zero and no parameter is in the step.
  void update(const Exec& exec, double lr, double gradient_scale);

  /// Makes up for the updates that rows of tables have missed: before anything but a step reads parameters.
  void settle(const Exec& exec);

  /// Moments and count of one parameter, for checkpoints and tests. Empty buffers where the optimiser keeps
  /// none.
  struct State {
    Parameter<T>* parameter;
    Buffer<T> first;   // m, or the velocity
    Buffer<T> second;  // v
    Index count = 0;
    std::unique_ptr<LazyAdam<T>> table;  // of a parameter that steps read by rows
  };
  [[nodiscard]] std::span<State> states() { return states_; }
  [[nodiscard]] std::span<const State> states() const { return states_; }

 private:
  OptimiserOptions options_;
  std::vector<State> states_;
};

}  // namespace rossby
