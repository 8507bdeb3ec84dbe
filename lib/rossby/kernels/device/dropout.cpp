#include "rossby/kernels/dropout.hpp"

#include "rossby/base/philox.hpp"
#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/few.hpp"
#include "rossby/kernels/device/launch.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void dropout_forward(const Exec& exec, NodeView<T> y, std::span<std::uint8_t> keep, NodeView<const T> x,
                     double rate, const Random& random, std::span<const Index> row_keys,
                     const ColumnKeys& col_keys) {
  const Index* row_key = exec.device->on_device(row_keys);
  const Few<Index, 128> windows(*exec.device, col_keys.windows);
  const Index count = std::ssize(col_keys.windows), steps = col_keys.steps, first = col_keys.first;
  std::uint8_t* kept = keep.data();
  const std::uint64_t key = random.key();
  for_each_entry(exec, numbered(y), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const auto counter =
        static_cast<std::uint64_t>((windows[b % count] * steps + first + b / count) * y.channels + c);
    const std::uint64_t row = philox::child(key, static_cast<std::uint64_t>(row_key[i]));
    const bool stays = philox::uniform(counter, row) >= rate;
    kept[(i * y.cols + b) * y.channels + c] = stays ? 1 : 0;
    y.at(i, b)[c] = stays ? x.at(i, b)[c] / static_cast<T>(1 - rate) : T(0);
  });
}

template <class T>
void dropout_backward(const Exec& exec, NodeView<T> dx, NodeView<const T> dy,
                      std::span<const std::uint8_t> keep, double rate) {
  const std::uint8_t* kept = keep.data();
  for_each_entry(exec, numbered(dx), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    if (kept[(i * dy.cols + b) * dy.channels + c] != 0)
      dx.at(i, b)[c] += dy.at(i, b)[c] / static_cast<T>(1 - rate);
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(dropout_forward, dropout_backward)
