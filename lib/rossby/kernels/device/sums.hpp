#pragma once

#include "rossby/kernels/device/launch.hpp"

// Sums in a fixed order that depends on the shape alone.

namespace rossby::ROSSBY_DEVICE {

struct SumShared {
  double value[block_threads];
};

/// Adds a block's values pair by pair; afterwards the sum is value[0].
ROSSBY_ON_DEVICE inline void fold(const Block& block, SumShared& shared) {
  for (int half = block_threads / 2; half > 0; half /= 2)
    block.each([&](int t) {
      if (t < half) shared.value[t] += shared.value[t + half];
    });
}

/// *out (device) = Σ over k in [0, size) of term(k), in double; *out += the same with `accumulate`.
template <class Term>
void sum_terms(const Exec& exec, Index size, const Term& term, double* out, bool accumulate = false) {
  constexpr Index piece = 8192, most = 1024;
  const Index pieces = std::clamp((size + piece - 1) / piece, Index{1}, most);
  const Index each = (size + pieces - 1) / pieces;
  double* partial = exec.device->scratch<double>(pieces);
  for_each_block<SumShared>(exec, pieces, [=] ROSSBY_ON_DEVICE(const Block& block, SumShared& shared) {
    const Index end = (block.index + 1) * each < size ? (block.index + 1) * each : size;
    block.each([&](int t) {
      double sum = 0;
      for (Index k = block.index * each + t; k < end; k += block_threads) sum += term(k);
      shared.value[t] = sum;
    });
    fold(block, shared);
    block.each([&](int t) {
      if (t == 0) partial[block.index] = shared.value[0];
    });
  });
  for_each_block<SumShared>(exec, 1, [=] ROSSBY_ON_DEVICE(const Block& block, SumShared& shared) {
    block.each([&](int t) {
      double sum = 0;
      for (Index k = t; k < pieces; k += block_threads) sum += partial[k];
      shared.value[t] = sum;
    });
    fold(block, shared);
    block.each([&](int t) {
      if (t == 0) *out = (accumulate ? *out : 0.0) + shared.value[0];
    });
  });
}

/// *host += Σ over k in [0, size) of term(k), when the device settles.
template <class Term>
void sum_later(const Exec& exec, Index size, const Term& term, double* host) {
  sum_terms(exec, size, term, exec.device->later(host), true);
}

/// *host += Σ over entries of term(i, b, c), when the device settles.
template <class Term>
void sum_entries_later(const Exec& exec, const Entries& entries, const Term& term, double* host) {
  sum_later(
      exec, entries.size(), [=] ROSSBY_ON_DEVICE(Index number) { return entries.visit(number, term); }, host);
}

/// store(o, Σ over r in [0, rows) of term(r, o)) for every o in [0, outputs); sums in double. The second half
/// of the scratch stays unchanged. Pieces take rows in turn, so that threads read contiguous memory even with
/// few outputs.
template <class Term, class Store>
void sum_rows(const Exec& exec, Index rows, Index outputs, const Term& term, const Store& store) {
  if (outputs <= 0) return;
  constexpr Index least = 8, threads = Index{1} << 18, few_pieces = 16;
  const auto room = static_cast<Index>(exec.device->scratch_bytes() / sizeof(double) / 2);
  const Index together = std::min(outputs, room);
  for (Index first = 0; first < outputs; first += together) {
    const Index count = std::min(together, outputs - first);
    const Index pieces = std::max<Index>(1, std::min({rows / least, threads / count, room / count}));
    const auto sum_of = [=] ROSSBY_ON_DEVICE(Index piece, Index o) {
      double sum = 0;
      for (Index r = piece; r < rows; r += pieces) sum += term(r, first + o);
      return sum;
    };
    if (pieces == 1) {
      for_each(exec, count, [=] ROSSBY_ON_DEVICE(Index o) { store(first + o, sum_of(0, o)); });
      continue;
    }
    double* partial = exec.device->scratch<double>(pieces * count);
    for_each(exec, pieces * count,
             [=] ROSSBY_ON_DEVICE(Index k) { partial[k] = sum_of(k / count, k % count); });
    if (pieces <= few_pieces) {
      for_each(exec, count, [=] ROSSBY_ON_DEVICE(Index o) {
        double sum = 0;
        for (Index piece = 0; piece < pieces; ++piece) sum += partial[piece * count + o];
        store(first + o, sum);
      });
      continue;
    }
    for_each_block<SumShared>(exec, count, [=] ROSSBY_ON_DEVICE(const Block& block, SumShared& shared) {
      block.each([&](int t) {
        double sum = 0;
        for (Index piece = t; piece < pieces; piece += block_threads)
          sum += partial[piece * count + block.index];
        shared.value[t] = sum;
      });
      fold(block, shared);
      block.each([&](int t) {
        if (t == 0) store(first + block.index, shared.value[0]);
      });
    });
  }
}

/// to[o] += Σ over rows of column o.
template <class T>
void add_column_sums(const Exec& exec, T* to, MatrixView<const T> from) {
  sum_rows(
      exec, from.rows, from.cols,
      [=] ROSSBY_ON_DEVICE(Index i, Index o) { return static_cast<double>(from.row(i)[o]); },
      [=] ROSSBY_ON_DEVICE(Index o, double sum) { to[o] = static_cast<T>(to[o] + sum); });
}

/// The same sums, stored in to (count).
template <class Term>
void keep_sums(const Exec& exec, double* to, Index count, Index rows, const Term& term) {
  sum_rows(exec, rows, count, term, [=] ROSSBY_ON_DEVICE(Index o, double sum) { to[o] = sum; });
}

}  // namespace rossby::ROSSBY_DEVICE
