#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

template <class T>
struct Parameter;

/// Where in a step a number was not finite for the first time.
struct NotFiniteOp {
  Index moment = 0;       // ops of the step before it, forward and backward
  std::string op, block;  // block: of the model, "decoder/cell 1"; empty: outside of every one
  bool gradient = false;  // of what the op's backward gets, or adds to; otherwise a value that it made
  bool arrives = false;   // the gradient came from an op behind it
  std::string parameter;  // whose gradient it is; empty: a value's on the tape
  Index rows = 0;         // of the array that it is in; 0: a parameter that is not of rows, `channel` counts
  Index row = 0;          // and where in it
  Index column = 0, channel = 0;
};

/// Looks at every value that an op of a tape makes and at every gradient that its backward writes
/// (train.check = "ops"). It only reads: a step gives the same bits with it and without. A relation that its
/// op updates in backward has no gradient to look at: its values are seen in the next step.
template <class T>
class OpCheck {
 public:
  explicit OpCheck(const Exec& exec) : exec_(exec) {}

  /// The first number that was not finite since the step began.
  [[nodiscard]] const std::optional<NotFiniteOp>& found() const { return found_; }

  // The rest is the tape's and its blocks'.

  void begin_step();
  void enter(std::string_view block);
  void leave();

  /// What the op that is recorded next makes, and what its backward adds to.
  void makes(const NodeView<T>& value, const NodeView<T>& gradient);
  void adds_to(const NodeView<T>& gradient);
  void adds_to(const Parameter<T>& parameter);

  /// An op has been computed; `kept`: with a backward to come. Throws BugError if the op has not said what it
  /// makes: its values would go unseen.
  void computed(std::string_view op, bool kept);
  /// Gradients that its forward wrote.
  void look_at_gradient(std::string_view op, const NodeView<T>& gradient);
  /// Around the backward of the op that was kept last and is still to come.
  void begin_backward(std::string_view op);
  void end_backward(std::string_view op);

 private:
  struct Entry {
    int block = -1;  // of names_
    NodeView<T> value, gradient;
    std::vector<NodeView<T>> to;
    std::vector<const Parameter<T>*> parameters;
  };
  void look(const NodeView<T>& view, std::string_view op, int block, bool gradient, bool arrives);
  void look(const Parameter<T>& parameter, std::string_view op, int block);

  Exec exec_;
  Index moment_ = 0;
  std::optional<NotFiniteOp> found_;
  std::vector<std::string> names_;  // of blocks of this step
  std::vector<int> open_;           // blocks that are entered
  Entry next_;                      // of the op that is recorded next,
  bool said_ = false;               // once it has said what it makes
  std::vector<Entry> kept_;         // with a backward to come
  std::vector<Entry> running_;      // whose backward runs; several where parts are computed again
};

}  // namespace rossby
