#pragma once

// Loops of cpu kernels over data. The shape alone, never the number of threads, determines pieces of work, so
// that results are bit-equal at every number of threads.

#include <algorithm>
#include <array>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby::cpu {

/// Below this many scalars, starting threads costs more than it saves.
inline constexpr Index parallel_threshold = Index{1} << 15;

/// f(first, last) over [0, size) in pieces of `piece`; `work` (scalars touched) decides whether threads
/// start.
template <class F>
void for_each_piece(const Exec& exec, Index size, Index piece, Index work, const F& f) {
  if (size <= 0) return;
  const Index pieces = (size + piece - 1) / piece;
  if (exec.threads <= 1 || pieces <= 1 || work < parallel_threshold) {
    for (Index p = 0; p < pieces; ++p) f(p * piece, std::min(size, (p + 1) * piece));
    return;
  }
#pragma omp parallel for num_threads(exec.threads) schedule(static)
  for (Index p = 0; p < pieces; ++p) f(p * piece, std::min(size, (p + 1) * piece));
}

inline constexpr Index flat_piece = 4096;

/// f(length, pointers…) over runs of contiguous scalars of views of one shape.
template <class F, class First, class... Rest>
void for_each_run(const Exec& exec, const F& f, NodeView<First> first, NodeView<Rest>... rest) {
  const Index size = first.size();
  if (size == 0) return;
  if (first.packed() && (rest.packed() && ...)) {
    for_each_piece(exec, size, flat_piece, size, [&](Index begin, Index end) {
      f(end - begin, first.data + begin, (rest.data + begin)...);
    });
    return;
  }
  const Index rows_a_piece = std::max<Index>(1, flat_piece / std::max<Index>(1, first.width()));
  for_each_piece(exec, first.rows, rows_a_piece, size, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for (Index b = 0; b < first.cols; ++b) f(first.channels, first.at(i, b), rest.at(i, b)...);
  });
}

/// The most partial sums of a reduction.
inline constexpr Index reduction_blocks = 256;

/// Σ over [0, size) of f(first, last), which returns double, over fixed blocks of at least `least`, added in
/// order.
template <class F>
double reduce_blocks(const Exec& exec, Index size, Index least, Index work, const F& f) {
  if (size == 0) return 0;
  const Index block = std::max(least, (size + reduction_blocks - 1) / reduction_blocks);
  std::array<double, reduction_blocks> partial{};
  for_each_piece(exec, size, block, work,
                 [&](Index begin, Index end) { partial[begin / block] = f(begin, end); });
  double sum = 0;
  for (Index p = 0; p * block < size; ++p) sum += partial[p];
  return sum;
}

/// Σ over entries k of term(k) with eight independent partial sums, so that the compiler can use vector
/// registers.
template <class Term>
double sum_lanes(Index size, const Term& term) {
  constexpr Index lanes = 8;
  std::array<double, lanes> lane{};
  Index k = 0;
  for (; k + lanes <= size; k += lanes)
    for (Index l = 0; l < lanes; ++l) lane[l] += term(k + l);
  for (Index l = 0; k < size; ++k, ++l) lane[l] += term(k);
  double sum = 0;
  for (const double value : lane) sum += value;
  return sum;
}

/// Σ over views of one shape; f(length, pointers…) sums a run of contiguous scalars.
template <class F, class First, class... Rest>
double reduce_runs(const Exec& exec, const F& f, NodeView<First> first, NodeView<Rest>... rest) {
  const bool flat = first.packed() && (rest.packed() && ...);
  const Index width = std::max<Index>(1, first.width());
  return reduce_blocks(exec, first.rows, std::max<Index>(1, flat_piece / width), first.size(),
                       [&](Index begin, Index end) {
                         if (flat)
                           return f((end - begin) * first.width(), first.row(begin), rest.row(begin)...);
                         double sum = 0;
                         for (Index i = begin; i < end; ++i)
                           for (Index b = 0; b < first.cols; ++b)
                             sum += f(first.channels, first.at(i, b), rest.at(i, b)...);
                         return sum;
                       });
}

/// The same over `size` contiguous scalars.
template <class F, class T>
double reduce_span(const Exec& exec, Index size, const F& f, const T* x) {
  return reduce_blocks(exec, size, flat_piece, size,
                       [&](Index begin, Index end) { return f(end - begin, x + begin); });
}

}  // namespace rossby::cpu
