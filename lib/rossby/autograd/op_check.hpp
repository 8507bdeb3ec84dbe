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

/// The first place in a step where a number was not finite.
struct NotFiniteOp {
  Index moment = 0;       // number of ops before it in the step, forward and backward
  std::string op, block;  // block: of the model, "decoder/cell 1"; empty: outside every block
  bool gradient = false;  // true: in a gradient that the op's backward reads or adds to; false: in a value
  bool arrives = false;   // the gradient came from a later op
  std::string parameter;  // whose gradient it is; empty: a value on the tape
  Index rows = 0;         // of the array; 0: a parameter without rows, whose index is `channel`
  Index row = 0;          // its position
  Index column = 0, channel = 0;
};

/// Inspects every value that a tape's ops make, and every gradient that their backward writes (train.check =
/// "ops"). It only reads, so a step gives bitwise the same result with it and without. A relation that its op
/// updates in backward has no gradient to inspect; the next step inspects its values.
template <class T>
class OpCheck {
 public:
  explicit OpCheck(const Exec& exec) : exec_(exec) {}

  /// The first non-finite number since the step began.
  [[nodiscard]] const std::optional<NotFiniteOp>& found() const { return found_; }

  // The remaining members are for the tape and its blocks.

  void begin_step();
  void enter(std::string_view block);
  void leave();

  /// Declares what the next recorded op makes, and what its backward adds to.
  void makes(const NodeView<T>& value, const NodeView<T>& gradient);
  void adds_to(const NodeView<T>& gradient);
  void adds_to(const Parameter<T>& parameter);

  /// An op has been computed; `kept`: its backward will run. Throws BugError if the op did not declare what
  /// it makes, because its values would not be inspected.
  void computed(std::string_view op, bool kept);
  /// Inspects a gradient that the op's forward wrote.
  void look_at_gradient(std::string_view op, const NodeView<T>& gradient);
  /// Called around the backward of the most recently kept op.
  void begin_backward(std::string_view op);
  void end_backward(std::string_view op);

 private:
  struct Entry {
    int block = -1;  // index into names_
    NodeView<T> value, gradient;
    std::vector<NodeView<T>> to;
    std::vector<const Parameter<T>*> parameters;
  };
  void look(const NodeView<T>& view, std::string_view op, int block, bool gradient, bool arrives);
  void look(const Parameter<T>& parameter, std::string_view op, int block);

  Exec exec_;
  Index moment_ = 0;
  std::optional<NotFiniteOp> found_;
  std::vector<std::string> names_;  // names of this step's blocks
  std::vector<int> open_;           // stack of entered blocks
  Entry next_;                      // for the next recorded op
  bool said_ = false;               // next_ has been declared
  std::vector<Entry> kept_;         // waiting for their backward
  std::vector<Entry> running_;      // backward is running; several during recomputation
};

}  // namespace rossby
