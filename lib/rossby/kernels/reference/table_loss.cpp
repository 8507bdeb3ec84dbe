#include "rossby/kernels/table_loss.hpp"

#include <cmath>
#include <vector>

namespace rossby::reference {
namespace {

/// Entry (i, c) of the table's row for column b.
template <class T>
T& at(T* table, std::span<const Index> times, Index n, Index d, Index i, Index b, Index c) {
  return table[(times[static_cast<std::size_t>(b)] * n + i) * d + c];
}

/// Writes a column's gradient, in column order.
template <class T>
void give(const TableGradient<T>& dz, Index n, Index d, Index i, Index b, Index c, double gradient) {
  if (!dz.to) return;
  T& to = at(dz.to, dz.times, n, d, i, b, c);
  const bool begins = !dz.begins.empty() && dz.begins[static_cast<std::size_t>(b)] != 0;
  to = static_cast<T>(begins ? gradient : to + gradient);
}

}  // namespace

template <class T>
void table_difference(const Exec&, const TableGradient<T>& dz, const GradientOut<T>& dx,
                      const TableColumns<T>& z, NodeView<const T> x, bool through_tanh, double scale,
                      double* sum) {
  const Index n = x.rows, d = x.channels;
  double total = 0;
  for (Index i = 0; i < n; ++i)
    for (Index b = 0; b < x.cols; ++b)
      for (Index c = 0; c < d; ++c) {
        const double value = x.at(i, b)[c], predicted = through_tanh ? std::tanh(value) : value;
        const double difference = double{at(z.table, z.times, n, d, i, b, c)} - predicted;
        total += difference * difference;
        const double gradient = 2 * scale * difference;
        give(dz, n, d, i, b, c, gradient);
        if (dx.to.data) {
          T& to = dx.to.at(i, b)[c];
          to = static_cast<T>((dx.add ? double{to} : 0.0) -
                              gradient * (through_tanh ? 1 - predicted * predicted : 1));
        }
      }
  *sum += total;
}

template <class T>
void table_decoded_error(const Exec&, const TableGradient<T>& dz, T* dweight, const TableColumns<T>& z,
                         MatrixView<const T> weight, const TableColumns<float>& x, Index rows, Index channels,
                         double scale, double* sum, std::span<T>) {
  const Index d = channels, m = weight.data ? weight.rows : d;
  double total = 0;
  std::vector<double> slope(static_cast<std::size_t>(m));
  for (Index i = 0; i < rows; ++i)
    for (Index b = 0; b < std::ssize(z.times); ++b) {
      const auto latent = [&](Index c) { return double{at(z.table, z.times, rows, d, i, b, c)}; };
      const auto w = [&](Index o, Index c) {
        return weight.data ? double{weight.row(o)[c]} : c == o ? 1.0 : 0.0;
      };
      for (Index o = 0; o < m; ++o) {
        double decoded = 0;
        for (Index c = 0; c < d; ++c) decoded += w(o, c) * latent(c);
        const double target = at(x.table, x.times, rows, m, i, b, o);
        const double error = std::isnan(target) ? 0 : decoded - target;
        total += error * error;
        slope[static_cast<std::size_t>(o)] = 2 * scale * error;
        for (Index c = 0; dweight && c < d; ++c) {
          T& to = dweight[o * d + c];
          to = static_cast<T>(to + slope[static_cast<std::size_t>(o)] * latent(c));
        }
      }
      for (Index c = 0; c < d; ++c) {
        double gradient = 0;
        for (Index o = 0; o < m; ++o) gradient += slope[static_cast<std::size_t>(o)] * w(o, c);
        give(dz, rows, d, i, b, c, gradient);
      }
    }
  *sum += total;
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, table_difference, table_decoded_error)
