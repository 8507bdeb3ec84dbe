#include "rossby/kernels/softmax.hpp"

#include <cmath>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

/// One block per row.
template <class T>
void softmax_relu_forward(const Exec& exec, MatrixView<T> a, std::span<std::uint8_t> positive) {
  std::uint8_t* passes = positive.data();
  for_each_block<SumShared>(exec, a.rows, [=] ROSSBY_ON_DEVICE(const Block& block, SumShared& shared) {
    T* row = a.row(block.index);
    std::uint8_t* through = passes + block.index * a.cols;
    PerThread<double, 1> largest;
    block.each([&](int t) {
      double mine = 0;
      for (Index w = t; w < a.cols; w += block_threads) {
        through[w] = row[w] > T(0) ? 1 : 0;
        mine = static_cast<double>(row[w]) > mine ? static_cast<double>(row[w]) : mine;
      }
      shared.value[t] = mine;
    });
    for (int half = block_threads / 2; half > 0; half /= 2)
      block.each([&](int t) {
        if (t < half && shared.value[t + half] > shared.value[t]) shared.value[t] = shared.value[t + half];
      });
    block.each([&](int t) { largest[t][0] = shared.value[0]; });
    block.each([&](int t) {
      double sum = 0;
      for (Index w = t; w < a.cols; w += block_threads) {
        const bool counts = row[w] > T(0) || row[w] != row[w];
        const double power = std::exp((counts ? static_cast<double>(row[w]) : 0.0) - largest[t][0]);
        row[w] = static_cast<T>(power);
        sum += power;
      }
      shared.value[t] = sum;
    });
    fold(block, shared);
    block.each([&](int t) {
      for (Index w = t; w < a.cols; w += block_threads)
        row[w] = static_cast<T>(static_cast<double>(row[w]) / shared.value[0]);
    });
  });
}

template <class T>
void softmax_relu_backward(const Exec& exec, MatrixView<T> d, MatrixView<const T> a,
                           std::span<const std::uint8_t> positive) {
  const std::uint8_t* passes = positive.data();
  for_each_block<SumShared>(exec, d.rows, [=] ROSSBY_ON_DEVICE(const Block& block, SumShared& shared) {
    T* row = d.row(block.index);
    const T* value = a.row(block.index);
    const std::uint8_t* through = passes + block.index * d.cols;
    block.each([&](int t) {
      double sum = 0;
      for (Index w = t; w < d.cols; w += block_threads)
        sum += static_cast<double>(value[w]) * static_cast<double>(row[w]);
      shared.value[t] = sum;
    });
    fold(block, shared);
    block.each([&](int t) {
      for (Index w = t; w < d.cols; w += block_threads)
        row[w] = through[w] != 0 ? static_cast<T>(static_cast<double>(value[w]) *
                                                  (static_cast<double>(row[w]) - shared.value[0]))
                                 : T(0);
    });
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(softmax_relu_forward, softmax_relu_backward)
