#include "rossby/kernels/diffuse.hpp"

#include <algorithm>
#include <bit>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/runs.hpp"
#include "rossby/kernels/device/sparse.hpp"

namespace rossby::ROSSBY_DEVICE {

namespace {

/// A recursion's signal (0) and its last two terms (1, 2), for some channels of all rows.
template <class T>
struct alignas(16) TermsOfABlock {
  T value[3][16 * 1024 / sizeof(T)];
};

/// The part of one thread block: one column, a few runs of channels. Levels mix rows only, so blocks are
/// independent.
template <class T, int n>
struct Part {
  using V = Run<T, n>;
  int rows;
  int shift;  // a row has room for 2^shift runs in shared memory
  int runs;   // runs in use; fewer at the end of the column's channels
  Index col, first;

  /// A phase: calls f(row, its run) for every run.
  template <class F>
  ROSSBY_ON_DEVICE void each(const Block& block, const F& f) const {
    block.each([&](int t) {
      const int run = t & ((1 << shift) - 1);
      if (run >= runs) return;
      for (int i = t >> shift; i < rows; i += block_threads >> shift) f(i, run);
    });
  }
  [[nodiscard]] ROSSBY_ON_DEVICE int place(int i, int run) const { return ((i << shift) + run) * n; }
  template <class U>
  [[nodiscard]] ROSSBY_ON_DEVICE U* at(const NodeView<U>& view, int i, int run, Index channel = 0) const {
    return view.at(i, col) + channel + first + run * n;
  }
  /// Σ of weight·row over entries [begin, end), with rows in shared memory.
  template <class RowOf, class WeightOf>
  ROSSBY_ON_DEVICE V gathered(const T* from, int run, int begin, int end, const RowOf& row,
                              const WeightOf& weight) const {
    V sum{};
    for (int e = begin; e < end; ++e) {
      const V value = load<n>(from + place(row(e), run));
      const T factor = weight(e);
      ROSSBY_UNROLL
      for (int k = 0; k < n; ++k) sum.value[k] += factor * value.value[k];
    }
    return sum;
  }
};

/// Division of a diffusion into such parts.
template <class T, int n>
struct Parts {
  int rows, shift;
  Index channels, runs, chunks, blocks;

  explicit Parts(const NodeView<const T>& x)
      : rows(static_cast<int>(x.rows)), channels(x.channels), runs((x.channels + n - 1) / n) {
    const int row_bytes = 2 * x.rows > most_diffused_rows ? 32 : 64;
    const int most = row_bytes / static_cast<int>(n * sizeof(T));
    const auto wanted = std::bit_ceil(static_cast<unsigned>(std::min<Index>(most, runs)));
    shift = std::bit_width(wanted) - 1;
    chunks = (runs + wanted - 1) / wanted;
    blocks = x.cols * chunks;
  }
  [[nodiscard]] ROSSBY_ON_DEVICE Part<T, n> part(const Block& block) const {
    const auto number = static_cast<unsigned>(block.index), of = static_cast<unsigned>(chunks);
    const Index run = Index{number % of} << shift;
    const auto left = static_cast<int>(runs - run);
    return {rows, shift, left < 1 << shift ? left : 1 << shift, Index{number / of}, run * n};
  }
};

template <int n, class T>
void forward_in_runs(const Exec& exec, const NodeView<T>& z, const SparseMatrix<T>& s,
                     const DiffusionSteps& recursion, const NodeView<const T>& x) {
  const DeviceCsr csr(exec, *s.block);
  const T* weight = s.weight;
  const int steps = recursion.steps;
  const bool chebyshev = recursion.chebyshev;
  const Parts<T, n> parts(x);
  for_each_block<TermsOfABlock<T>>(
      exec, parts.blocks, [=] ROSSBY_ON_DEVICE(const Block& block, TermsOfABlock<T>& shared) {
        const Part<T, n> part = parts.part(block);
        part.each(block, [&](int i, int run) {
          const Run<T, n> value = load<n>(part.at(x, i, run));
          store<n>(shared.value[0] + part.place(i, run), value);
          store<n>(part.at(z, i, run), value);
        });
        for (int q = 0; q < csr.relations; ++q) {
          int from = 0, to = 1, before = -1;
          for (int step = 1; step <= steps; ++step) {
            const Index term = (1 + Index{step - 1} * csr.relations + q) * parts.channels;
            part.each(block, [&](int i, int run) {
              const int list = i * csr.relations + q, here = part.place(i, run);
              Run<T, n> sum = part.gathered(
                  shared.value[from], run, csr.ptr[list], csr.ptr[list + 1],
                  [&](int e) { return csr.column[e]; }, [&](int e) { return weight[e]; });
              if (chebyshev && before >= 0) {
                const Run<T, n> less = load<n>(shared.value[before] + here);
                ROSSBY_UNROLL
                for (int k = 0; k < n; ++k) sum.value[k] = T(2) * sum.value[k] - less.value[k];
              }
              if (step < steps) store<n>(shared.value[to] + here, sum);
              store<n>(part.at(z, i, run, term), sum);
            });
            before = from;
            from = to;
            to = 3 - to;  // from the third term on, overwrites `before`, which only its own thread reads
          }
        }
      });
}

template <int n, class T>
void adjoint_in_runs(const Exec& exec, const NodeView<T>& dx, const SparseMatrix<T>& s,
                     const DiffusionSteps& recursion, const NodeView<const T>& dz) {
  const DeviceCsr csr(exec, *s.block);
  const T* weight = s.weight;
  const int steps = recursion.steps;
  const bool chebyshev = recursion.chebyshev;
  const Parts<T, n> parts(dx);
  for_each_block<TermsOfABlock<T>>(
      exec, parts.blocks, [=] ROSSBY_ON_DEVICE(const Block& block, TermsOfABlock<T>& shared) {
        const Part<T, n> part = parts.part(block);
        const auto bring = [&](int to, Index term) {
          part.each(block, [&](int i, int run) {
            store<n>(shared.value[to] + part.place(i, run),
                     load<n>(part.at(dz, i, run, term * parts.channels)));
          });
        };
        bring(0, 0);
        for (int q = 0; q < csr.relations; ++q) {
          // b_k = dz_k + 2 Sᵀ b_(k+1) − b_(k+2) down to b_1; the signal gets Sᵀ b_1 − b_2.
          int from = 1, to = 2, before = -1;
          bring(from, 1 + Index{steps - 1} * csr.relations + q);
          for (int step = steps - 1; step >= 0; --step) {
            const Index term = (1 + Index{step - 1} * csr.relations + q) * parts.channels;
            const T alpha = chebyshev && step > 0 ? T(2) : T(1);
            const int sum_to = step > 0 ? to : 0;
            part.each(block, [&](int i, int run) {
              const int list = i * csr.relations + q, here = part.place(i, run);
              Run<T, n> value =
                  step > 0 ? load<n>(part.at(dz, i, run, term)) : load<n>(shared.value[0] + here);
              const Run<T, n> sum = part.gathered(
                  shared.value[from], run, csr.t_ptr[list], csr.t_ptr[list + 1],
                  [&](int e) { return csr.t_row[e]; }, [&](int e) { return weight[csr.t_entry[e]]; });
              ROSSBY_UNROLL
              for (int k = 0; k < n; ++k) value.value[k] += alpha * sum.value[k];
              if (chebyshev && before >= 0) {
                const Run<T, n> less = load<n>(shared.value[before] + here);
                ROSSBY_UNROLL
                for (int k = 0; k < n; ++k) value.value[k] -= less.value[k];
              }
              store<n>(shared.value[sum_to] + here, value);
            });
            before = from;
            from = to;
            to = before;  // b_k overwrites b_(k+2), which only its own thread reads
          }
        }
        part.each(block, [&](int i, int run) {
          T* const to = part.at(dx, i, run);
          Run<T, n> value = load<n>(shared.value[0] + part.place(i, run));
          const Run<T, n> there = load<n>(to);
          ROSSBY_UNROLL
          for (int k = 0; k < n; ++k) value.value[k] += there.value[k];
          store<n>(to, value);
        });
      });
}

}  // namespace

template <class T>
void diffuse_forward(const Exec& exec, NodeView<T> z, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> x) {
  if (in_runs(z) && in_runs(x)) return forward_in_runs<whole_run<T>>(exec, z, s, steps, x);
  forward_in_runs<1>(exec, z, s, steps, x);
}

template <class T>
void diffuse_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> dz) {
  if (in_runs(dz) && in_runs(dx)) return adjoint_in_runs<whole_run<T>>(exec, dx, s, steps, dz);
  adjoint_in_runs<1>(exec, dx, s, steps, dz);
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(diffuse_forward, diffuse_adjoint)
