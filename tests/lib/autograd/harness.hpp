#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rossby/autograd/ops.hpp"
#include "rossby/base/random.hpp"

namespace rossby::test {

/// The parameters of one case; their values depend only on their order.
template <class T>
class Bank {
 public:
  Parameter<T>& make(const std::string& name, std::vector<Index> shape, double low = -1, double high = 1) {
    all_.push_back(std::make_unique<Parameter<T>>(name, Placement::replicated, std::move(shape)));
    const Random stream = Random(11, "parameters").at(all_.size());
    for (Index k = 0; k < all_.back()->size(); ++k)
      all_.back()->value[k] = static_cast<T>(stream.uniform(static_cast<std::uint64_t>(k), low, high));
    return *all_.back();
  }

  [[nodiscard]] std::vector<Parameter<T>*> all() const {
    std::vector<Parameter<T>*> pointers;
    for (const auto& p : all_) pointers.push_back(p.get());
    return pointers;
  }

  void clear_gradients() {
    for (const auto& p : all_) std::fill(p->gradient.begin(), p->gradient.end(), T{0});
  }

  [[nodiscard]] std::vector<T> gradients() const {
    std::vector<T> values;
    for (const auto& p : all_) values.insert(values.end(), p->gradient.begin(), p->gradient.end());
    return values;
  }

 private:
  std::vector<std::unique_ptr<Parameter<T>>> all_;
};

struct Shape {
  Index rows, cols, channels;
};

/// Runs the ops of a case forward and returns the loss; recorded backward closures fill the bank's gradients.
template <class T>
using Graph = std::function<double(Tape<T>&)>;

/// Makes a case's parameters and returns its graph.
template <class T>
struct Case {
  std::string name;
  std::function<Graph<T>(Bank<T>&, Shape)> build;
};

/// A parameter's value and gradient as a leaf of the graph, in the layout that `view` makes from a data
/// pointer.
template <class T, class View>
Var<T> leaf(Tape<T>& tape, Parameter<T>& p, const View& view) {
  Var<T> var = Tape<T>::constant(view(p.value.data()));
  T* gradient = tape.recording() ? p.gradient_target() : nullptr;
  if (gradient) var.gradient = view(gradient);
  return var;
}

template <class T>
Var<T> packed_leaf(Tape<T>& tape, Parameter<T>& p, Shape s) {
  return leaf(tape, p, [s](T* data) { return NodeView<T>(data, s.rows, s.cols, s.channels); });
}

/// The same numbers stored time by time, like Z (T, n, d): no single stride leads from entry to entry.
template <class T>
Var<T> time_major_leaf(Tape<T>& tape, Parameter<T>& p, Shape s) {
  return leaf(tape, p, [s](T* data) {
    return NodeView<T>(data, s.rows, s.cols, s.channels, s.channels, s.rows * s.channels);
  });
}

/// 0.3·Σ (y − c)² with constants c, so that every entry of y gets a different gradient.
template <class T>
double distinct_loss(Tape<T>& tape, const Var<T>& y) {
  const Random random(5, "targets");
  const auto values = tape.arena().template take<T>(y.value.size());
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<T>(random.uniform(k, -1, 1));
  double sum = 0;
  const NodeView<T> constants(values.data(), y.rows(), y.cols(), y.channels());
  squared_difference(tape, y, Tape<T>::constant(constants), 0.3, &sum);
  return 0.3 * sum;
}

/// Every op, alone and in combinations that share or slice values: tests/lib/autograd/cases.cpp.
template <class T>
std::vector<Case<T>> all_cases();

}  // namespace rossby::test
