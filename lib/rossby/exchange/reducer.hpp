#pragma once

#include <span>

#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// Port: sums over all ranks. Collective; all ranks get bitwise the same result.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// values[i] = Σ over ranks, in place, in one message round for any number of values.
  virtual void sum(std::span<double> values) = 0;
  virtual void sum(std::span<float> values) = 0;
  /// Sums while other work continues. `values` must not be touched until sum_end, which completes all begun
  /// sums. Every rank begins the same sums in the same order.
  virtual void sum_begin(std::span<double> values) { sum(values); }
  virtual void sum_begin(std::span<float> values) { sum(values); }
  virtual void sum_end() {}
  /// Returns true if all begun sums are complete, without waiting.
  [[nodiscard]] virtual bool sum_done() {
    sum_end();
    return true;
  }
  /// Sums several arrays, all on the host or all on one device, together if the transport can. If sums are
  /// enqueued, they may still run on return.
  virtual void sum_each(std::span<const std::span<double>> arrays) { sum_all(arrays); }
  virtual void sum_each(std::span<const std::span<float>> arrays) { sum_all(arrays); }
  /// values[i] = largest over ranks.
  virtual void max(std::span<double> values) = 0;

  /// Sums in rank order 0, 1, …, P−1, independent of the library's algorithm: bitwise equal for every run and
  /// machine at one rank count. Slower, because every rank receives every contribution.
  virtual void ordered_sum(std::span<double> values) = 0;

  /// True if there is only one rank, so that sums change nothing.
  [[nodiscard]] virtual bool alone() const { return false; }
  /// True if sums of device arrays are enqueued on the device: later kernels read them, and the host does not
  /// wait. The same on all ranks.
  [[nodiscard]] virtual bool enqueues() const { return alone(); }

  [[nodiscard]] virtual Traffic sent() const = 0;

 private:
  template <class T>
  void sum_all(std::span<const std::span<T>> arrays) {
    for (const std::span<T> values : arrays) sum_begin(values);
    sum_end();
  }
};

}  // namespace rossby
