#pragma once

#include <span>

#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// Port: sums over all ranks. Collective; every rank gets the same bits.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// values[i] = Σ over ranks, in place, in one message round however many values there are.
  virtual void sum(std::span<double> values) = 0;
  virtual void sum(std::span<float> values) = 0;
  /// The same while other work goes on: `values` stay untouched until sum_end, which ends all sums that have
  /// begun. Every rank begins the same sums in the same order.
  virtual void sum_begin(std::span<double> values) { sum(values); }
  virtual void sum_begin(std::span<float> values) { sum(values); }
  virtual void sum_end() {}
  /// The same without waiting: whether all sums that have begun have ended.
  [[nodiscard]] virtual bool sum_done() {
    sum_end();
    return true;
  }
  /// Sums of several arrays, all of the host or all of one device, together where the transport can; they
  /// need not have ended for the host where sums are enqueued.
  virtual void sum_each(std::span<const std::span<double>> arrays) { sum_all(arrays); }
  virtual void sum_each(std::span<const std::span<float>> arrays) { sum_all(arrays); }
  /// values[i] = largest over ranks.
  virtual void max(std::span<double> values) = 0;

  /// The sum in rank order 0, 1, …, P−1, whatever algorithm the library would choose: bit-equal from run to
  /// run and from machine to machine at one rank count. Slower: every rank receives every contribution.
  virtual void ordered_sum(std::span<double> values) = 0;

  /// Whether there is one rank, whose sums are what they were.
  [[nodiscard]] virtual bool alone() const { return false; }
  /// Whether sums of arrays on a device are enqueued there: kernels that follow read them, and no host waits.
  /// The same on all ranks.
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
