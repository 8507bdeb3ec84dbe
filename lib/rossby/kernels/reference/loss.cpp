#include "rossby/kernels/loss.hpp"

#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void masked_error_sum(const Exec&, MaskedError kind, NodeView<const T> prediction,
                      NodeView<const float> target, double* to) {
  long double sum = 0;  // exact for many small values
  for_each_entry(prediction, [&](Index i, Index b, Index c) {
    const double x = entry(target, i, b, c);
    if (std::isnan(x)) return;
    const double error = double{entry(prediction, i, b, c)} - x;
    sum += kind.value(error);
  });
  *to += static_cast<double>(sum);
}

template <class T>
void masked_error_backward(const Exec&, MaskedError kind, NodeView<T> dprediction,
                           NodeView<const T> prediction, NodeView<const float> target, double scale) {
  for_each_entry(prediction, [&](Index i, Index b, Index c) {
    const double x = entry(target, i, b, c);
    if (std::isnan(x)) return;
    const double error = double{entry(prediction, i, b, c)} - x;
    T& to = entry(dprediction, i, b, c);
    to = static_cast<T>(to + scale * kind.gradient(error));
  });
}

template <class T>
void squared_difference_sum(const Exec&, NodeView<const T> a, NodeView<const T> b, double* to) {
  double sum = 0;
  for_each_entry(a, [&](Index i, Index t, Index c) {
    const double difference = double{entry(a, i, t, c)} - double{entry(b, i, t, c)};
    sum += difference * difference;
  });
  *to += sum;
}

template <class T>
void squared_difference_gradients(const Exec& exec, const GradientOut<T>& da, const GradientOut<T>& db,
                                  NodeView<const T> a, NodeView<const T> b, double scale, double* sum) {
  reference::squared_difference_sum(exec, a, b, sum);
  const auto give = [](const GradientOut<T>& d, Index i, Index t, Index c, double gradient) {
    if (!d.to.data) return;
    T& to = entry(d.to, i, t, c);
    to = static_cast<T>(d.add ? to + gradient : gradient);
  };
  for_each_entry(a, [&](Index i, Index t, Index c) {
    const double gradient = 2 * scale * (double{entry(a, i, t, c)} - double{entry(b, i, t, c)});
    give(da, i, t, c, gradient);
    give(db, i, t, c, -gradient);
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, masked_error_sum, masked_error_backward, squared_difference_sum,
                 squared_difference_gradients)
