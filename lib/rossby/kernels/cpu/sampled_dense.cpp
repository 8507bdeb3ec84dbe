#include <algorithm>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/sampled.hpp"
#include "rossby/kernels/sampled.hpp"

// Columns are cut into pieces. A piece's latents of one time step stay in the first two levels of the cache
// while the matching rows of W stream by.

namespace rossby::cpu {
namespace {

constexpr Index columns_a_piece = 2048;

/// Places of the pieces' scratch values.
template <class T>
struct Pieces {
  Index columns, d, stride, count, sums;

  Pieces(const Exec& exec, Index all, Index channels, Index partial_sums)
      : columns(all), d(channels), count((all + columns_a_piece - 1) / columns_a_piece), sums(partial_sums) {
    const Index run = kernels_of<SampledKernels, T>(exec.isa).run,
                widest = std::min(columns_a_piece, columns);
    // One extra run, so that planes do not all begin in the same set of the first-level cache.
    stride = (widest + run - 1) / run * run + run;
  }
  /// Values of the planes of z and of its gradient, and of the sums.
  [[nodiscard]] Index each() const { return 2 * d * stride + sums; }
  struct Scratch {
    T *z, *dz, *sums;
  };
  [[nodiscard]] Scratch of(std::span<T> workspace, Index piece) const {
    T* at = workspace.data() + piece * each();
    return {at, at + d * stride, at + 2 * d * stride};
  }
};

/// Samples grouped by column, each with all relations.
template <class T>
struct Rows {
  const DenseRelate<T>& relate;
  std::span<const Sample> samples;
  std::span<const Index> order;

  /// The entry of relation k of the q-th sample at column j.
  [[nodiscard]] Index entry(Index q, int k, Index j) const {
    const Sample& sample = samples[static_cast<std::size_t>(order[static_cast<std::size_t>(q)])];
    return (k * relate.rows + sample.row) * relate.columns + j;
  }
  /// The next row, or −1 after the last.
  [[nodiscard]] Index next(Index q, int k, Index j) const {
    if (k + 1 < relate.relations) return entry(q, k + 1, j);
    return q + 1 < std::ssize(order) ? entry(q + 1, 0, j) : -1;
  }

  /// A piece of the row that begins at `entry`.
  [[nodiscard]] SampledRow<T> at(Index entry, Index next, Index columns, Index d, Index stride) const {
    return {.weight = relate.weight + entry,
            .pattern = relate.pattern ? relate.pattern + entry : nullptr,
            .columns = columns,
            .d = d,
            .stride = stride,
            .clamped = relate.clamped,
            .next = next < 0 ? nullptr : relate.weight + next};
  }

  /// Calls row(sample, relation, entry, next) for each sample, with begin(column) and end(column) around the
  /// samples of each column.
  template <class Begin, class Row, class End>
  void walk(Index first, const Begin& begin, const Row& row, const End& end) const {
    for (Index q = 0; q < std::ssize(order); ++q) {
      const Index s = order[static_cast<std::size_t>(q)];
      const auto column = [&](Index at) {
        return samples[static_cast<std::size_t>(order[static_cast<std::size_t>(at)])].col;
      };
      if (q == 0 || column(q) != column(q - 1)) begin(column(q));
      for (int k = 0; k < relate.relations; ++k) row(s, k, entry(q, k, first), next(q, k, first));
      if (q + 1 == std::ssize(order) || column(q + 1) != column(q)) end(column(q));
    }
  }
};

template <class T>
Index work_of(const DenseRelate<T>& relate, std::span<const Sample> samples) {
  return std::ssize(samples) * relate.relations * relate.columns;
}

/// True if the vector kernels support such relations.
template <class T>
bool vectors_know(const DenseRelate<T>& relate) {
  return !relate.bf16 && (relate.clamped || !relate.pattern);
}

}  // namespace

template <class T>
Index sampled_dense_workspace(const Exec& exec, const DenseRelate<T>& relate, Index d, Index samples) {
  if (!vectors_know(relate)) return 0;
  const Pieces<T> pieces(exec, relate.columns, d, samples * relate.relations * d);
  return pieces.count * pieces.each();
}

template <class T>
void sampled_dense_forward(const Exec& exec, MatrixView<T> context, const DenseRelate<T>& relate,
                           std::span<const Sample> samples, NodeView<const T> z, const SampledWork<T>& work) {
  if (!vectors_know(relate))
    return Implementation<rossby::sampled_dense_forward<T>>::reference()(exec, context, relate, samples, z,
                                                                         work);
  const SampledKernels<T>& kernels = kernels_of<SampledKernels, T>(exec.isa);
  const Index d = context.cols / relate.relations;
  const Pieces<T> pieces(exec, relate.columns, d, context.size());
  const Rows<T> rows{relate, samples, work.order};
  for_each_piece(
      exec, relate.columns, columns_a_piece, work_of(relate, samples), [&](Index first, Index last) {
        const auto own = pieces.of(work.values, first / columns_a_piece);
        std::fill_n(own.sums, context.size(), T(0));
        rows.walk(
            first,
            [&](Index column) {
              kernels.to_planes(last - first, d, z.at(first, column), z.row_stride, own.z, pieces.stride);
            },
            [&](Index s, int k, Index e, Index next) {
              SampledRow<T> row = rows.at(e, next, last - first, d, pieces.stride);
              row.z = own.z;
              row.context = own.sums + s * context.cols + k * d;
              kernels.forward(row);
            },
            [](Index) {});
      });
  for (Index s = 0; s < context.rows; ++s) {
    std::fill_n(context.row(s), context.cols, T(0));
    for (Index p = 0; p < pieces.count; ++p)
      for (Index c = 0; c < context.cols; ++c)
        context.row(s)[c] += pieces.of(work.values, p).sums[s * context.cols + c];
  }
}

template <class T>
void sampled_dense_backward(const Exec& exec, NodeView<T> dz, T* dm, const DenseRelate<T>& relate,
                            std::span<const Sample> samples, MatrixView<const T> d_context,
                            NodeView<const T> z, const SampledWork<T>& work) {
  if (!vectors_know(relate))
    return Implementation<rossby::sampled_dense_backward<T>>::reference()(exec, dz, dm, relate, samples,
                                                                          d_context, z, work);
  const SampledKernels<T>& kernels = kernels_of<SampledKernels, T>(exec.isa);
  const Index d = d_context.cols / relate.relations;
  const Pieces<T> pieces(exec, relate.columns, d, d_context.size());
  const Rows<T> rows{relate, samples, work.order};
  if (!dz.data && !dm) return;
  for_each_piece(
      exec, relate.columns, columns_a_piece, work_of(relate, samples), [&](Index first, Index last) {
        const auto own = pieces.of(work.values, first / columns_a_piece);
        rows.walk(
            first,
            [&](Index column) {
              if (dm)
                kernels.to_planes(last - first, d, z.at(first, column), z.row_stride, own.z, pieces.stride);
              if (dz.data) std::fill_n(own.dz, d * pieces.stride, T(0));
            },
            [&](Index s, int k, Index e, Index next) {
              SampledRow<T> row = rows.at(e, next, last - first, d, pieces.stride);
              row.z = own.z;
              row.g = d_context.row(s) + k * d;
              if (dz.data) row.dz = own.dz;
              if (dm) row.dm = dm + e;
              if (dm && next >= 0) row.next_dm = dm + next;
              kernels.backward(row);
            },
            [&](Index column) {
              if (dz.data)
                kernels.add_planes(last - first, d, dz.at(first, column), dz.row_stride, own.dz,
                                   pieces.stride);
            });
      });
}

}  // namespace rossby::cpu

namespace rossby {

void order_by_column(std::span<const Sample> samples, std::span<Index> order, std::span<Index> counts) {
  require(order.size() == samples.size(), "samples are put in order one by one");
  std::fill(counts.begin(), counts.end(), Index{0});
  for (const Sample& sample : samples) ++counts[static_cast<std::size_t>(sample.col + 1)];
  for (std::size_t c = 1; c < counts.size(); ++c) counts[c] += counts[c - 1];
  for (Index s = 0; s < std::ssize(samples); ++s) {
    Index& place = counts[static_cast<std::size_t>(samples[static_cast<std::size_t>(s)].col)];
    order[static_cast<std::size_t>(place++)] = s;
  }
}

}  // namespace rossby

ROSSBY_IMPLEMENT(cpu, sampled_dense_workspace, sampled_dense_forward, sampled_dense_backward)
