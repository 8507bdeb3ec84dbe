#include "rossby/kernels/dropout.hpp"

#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void dropout_forward(const Exec&, NodeView<T> y, std::span<std::uint8_t> keep, NodeView<const T> x,
                     double rate, const Random& random, std::span<const Index> row_keys,
                     const ColumnKeys& col_keys) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    const auto counter = static_cast<std::uint64_t>(col_keys[b] * y.channels + c);
    const bool kept = random.at(static_cast<std::uint64_t>(row_keys[i])).uniform(counter) >= rate;
    keep[(i * y.cols + b) * y.channels + c] = kept;
    entry(y, i, b, c) = kept ? static_cast<T>(entry(x, i, b, c) / (1 - rate)) : T{0};
  });
}

template <class T>
void dropout_backward(const Exec&, NodeView<T> dx, NodeView<const T> dy, std::span<const std::uint8_t> keep,
                      double rate) {
  for_each_entry(dy, [&](Index i, Index b, Index c) {
    if (!keep[(i * dy.cols + b) * dy.channels + c]) return;
    entry(dx, i, b, c) = static_cast<T>(entry(dx, i, b, c) + entry(dy, i, b, c) / (1 - rate));
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, dropout_forward, dropout_backward)
