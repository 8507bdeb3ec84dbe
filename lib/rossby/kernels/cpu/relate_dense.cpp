#include <limits>

#include <unistd.h>

#include "rossby/kernels/cpu/dense_parts.hpp"

namespace rossby::cpu {
namespace {

/// Place of column j of a strip in its data.
template <class S>
Index place_in_strip(const DenseKernels<S>& kernels, Index j) {
  return kernels.paired ? j % 2 * (kernels.strip / 2) + j / 2 : j;
}

/// NaN without the payload, which rounding to bf16 could carry into the sign.
template <class S, class T>
T canonical(T value) {
  return std::is_same_v<S, T> || value == value ? value : std::numeric_limits<T>::quiet_NaN();
}

/// z (columns, width) as (strips, width, strip), zeros after the last column.
template <class S, class T = Arithmetic<S>>
void pack_strip(T* to, NodeView<const T> z, Index first, const DenseKernels<S>& kernels) {
  const Index width = z.width();
  const Index strip = kernels.strip;
  const Index count = std::min(strip, z.rows - first);
  for (Index j = 0; j < count; ++j)
    for (Index o = 0; o < width; ++o)
      to[o * strip + place_in_strip(kernels, j)] = canonical<S>(z.data[(first + j) * width + o]);
  for (Index j = count; j < strip; ++j)
    for (Index o = 0; o < width; ++o) to[o * strip + place_in_strip(kernels, j)] = T(0);
}

/// z (columns, width) with rows of `padded` values; z itself if no padding is needed.
template <class T>
const T* pad_rows(const Exec& exec, T* to, NodeView<const T> z, Index padded) {
  const Index width = z.width();
  if (padded == width) return z.data;
  for_each_piece(exec, z.rows, Index{256}, z.size(), [&](Index first, Index last) {
    for (Index j = first; j < last; ++j) {
      std::copy_n(z.data + j * width, width, to + j * padded);
      std::fill_n(to + j * padded + width, padded - width, T(0));
    }
  });
  return to;
}

/// True if the processor has 64-byte vectors and a second-level cache twice the smallest one found with them,
/// 1 MiB. Affects prefetching only, never results.
bool large_cache() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  return sysconf(_SC_LEVEL2_CACHE_SIZE) >= Index{1} << 21;
#else
  return false;
#endif
}

/// Rows that share the z of a block of columns; W has `value_bytes` per value. With a large cache, fewer rows
/// are faster up to some width (benchmarks/measured); beyond it, z is read too often.
Index forward_tile_rows(bool narrow, Index width, Index value_bytes) {
  constexpr Index most_width = 64;
  constexpr Index column_bytes = 192;  // 48 floats
  if (!large_cache()) return dense_forward_rows;
  if (narrow) return dense_sum_rows;
  if (width > most_width) return dense_forward_rows;
  return std::min(dense_forward_rows, column_bytes / value_bytes);
}

template <class S, class T = Arithmetic<S>>
double own_contexts(const Exec& exec, T* context, const DenseRelate<T>& relate, NodeView<const T> z,
                    T* scratch) {
  const DenseKernels<S>& kernels = kernels_of<DenseKernels, S>(exec.isa);
  const S* weight = stored_weight<S>(relate);
  const Index width = z.width();
  const bool narrow = width < kernels.lanes;
  const T* form = scratch;
  if (narrow) {
    const Index strips = (z.rows + kernels.strip - 1) / kernels.strip;
    for_each_piece(exec, strips, Index{16}, z.size(), [&](Index first, Index last) {
      for (Index s = first; s < last; ++s)
        pack_strip(scratch + s * width * kernels.strip, z, s * kernels.strip, kernels);
    });
  } else {
    form = pad_rows(exec, scratch, z, (width + kernels.lanes - 1) / kernels.lanes * kernels.lanes);
  }
  const auto forward = narrow ? kernels.forward_narrow : kernels.forward_wide;
  const Index tile = forward_tile_rows(narrow, width, Index{sizeof(S)});
  const Index tiles = (relate.rows + dense_forward_rows - 1) / dense_forward_rows;
  const Index work = relate.relations * relate.rows * relate.columns;
  return reduce_blocks(exec, relate.relations * tiles, 1, work, [&](Index first, Index last) {
    double sum = 0;
    for (Index t = first; t < last; ++t) {
      const Index k = t / tiles;
      const Index end = std::min(relate.rows, (t % tiles + 1) * dense_forward_rows);
      for (Index begin = t % tiles * dense_forward_rows; begin < end; begin += tile) {
        const Index row = k * relate.rows + begin;
        DenseForward<S> f{weight + row * relate.columns,
                          relate.pattern ? relate.pattern + row * relate.columns : nullptr,
                          relate.columns,
                          std::min(tile, end - begin),
                          relate.columns,
                          relate.clamped,
                          form,
                          width,
                          context + row * width,
                          sum};
        forward(f);
        sum = f.weight_sum;
      }
    }
    return sum;
  });
}

/// Blocks of strips: z and u of a block fit the second-level cache next to a tile of W and its moments. The
/// number of blocks makes them about equal. Processors with 64-byte vectors have 1 MiB or more, which the
/// long tiles of large widths need for themselves.
inline Index block_count(Index strips, Index strip_bytes, Index run_bytes, bool large) {
  const Index cache_bytes = Index{1} << (large ? 19 : 18);
  constexpr Index most_run_bytes = 4608;  // of a row of W
  constexpr Index even = 16;
  const Index most = std::clamp<Index>(cache_bytes / std::max<Index>(1, strip_bytes), 1,
                                       std::max<Index>(1, most_run_bytes / run_bytes));
  const Index blocks = (strips + most - 1) / most;
  constexpr Index shortest = 8;  // strips per row in equal shares: memory delivers long runs sooner
  const Index shared = std::min((strips + shortest - 1) / shortest, (blocks + even - 1) / even * even);
  return std::min({strips, reduction_blocks, std::max(blocks, shared)});
}

template <class S, class T = Arithmetic<S>>
double own_columns(const Exec& exec, NodeView<T> dz, const DenseGradient<T>& dm, const DenseRelate<T>& relate,
                   const T* g, NodeView<const T> z, T* z_strips, T* u) {
  const DenseKernels<S>& kernels = kernels_of<DenseKernels, S>(exec.isa);
  const DenseSinkArguments<S> sink(dm);
  const Index strip = kernels.strip;
  const Index width = z.width();
  constexpr Index value = sizeof(T);
  const Index size = width * strip;  // of z or u of a strip
  const Index strips = (relate.columns + strip - 1) / strip;
  const Index blocks = block_count(strips, 2 * size * value, strip * static_cast<Index>(sizeof(S)),
                                   kernels.lanes * value >= 64 && width <= 128);
  const auto backward = kernels.backward[static_cast<int>(sink.sink)];
  const bool large = large_cache();
  const auto block = [&](Index first, Index last) {
    double squares = 0;
    for (Index s = first; s < last; ++s) pack_strip(z_strips + s * size, z, s * strip, kernels);
    if (dz.data) std::fill_n(u + first * size, (last - first) * size, T(0));
    for (int k = 0; k < relate.relations; ++k) {
      DenseBackward<S> b =
          sink.block(relate, dm, k, 0, first * strip, std::min(last * strip, relate.columns) - first * strip);
      b.g = g + k * relate.rows * width;
      b.width = width;
      b.z = z_strips + first * size;
      b.u = dz.data ? u + first * size : nullptr;
      b.large_cache = large;
      backward(b);
      squares += b.squares;
    }
    if (dz.data)
      for (Index j = first * strip; j < std::min(last * strip, relate.columns); ++j)
        for (Index o = 0; o < width; ++o)
          dz.data[j * width + o] += u[j / strip * size + o * strip + place_in_strip(kernels, j % strip)];
    return squares;
  };
  return reduce_blocks(exec, blocks, 1, relate.relations * relate.rows * relate.columns,
                       [&](Index first, Index last) {
                         double squares = 0;
                         for (Index b = first; b < last; ++b)
                           squares += block(b * strips / blocks, (b + 1) * strips / blocks);
                         return squares;
                       });
}

/// Calls work(S{}) with S the type that stores W.
template <class T, class Work>
double with_storage(const DenseRelate<T>& relate, const Work& work) {
  if constexpr (std::is_same_v<T, float>)
    if (relate.bf16) return work(Bf16{});
  return work(T{});
}

template <class T>
double contexts(const Exec& exec, T* context, const DenseRelate<T>& relate, NodeView<const T> z, T* scratch) {
  return with_storage(relate, [&]<class S>(S) {
    return relate.product == DenseProduct::blas ? blas_contexts<S>(exec, context, relate, z)
                                                : own_contexts<S>(exec, context, relate, z, scratch);
  });
}

}  // namespace

template <class T>
Index relate_dense_workspace(const Exec&, const DenseRelate<T>& relate, Index cols, Index channels) {
  return DenseWorkspace<T>(relate, cols, channels).size;
}

template <class T>
void relate_dense_forward(const Exec& exec, NodeView<T> h, const DenseRelate<T>& relate, NodeView<const T> z,
                          std::span<T> workspace) {
  const DenseWorkspace<T> parts(relate, h.cols, h.channels);
  T* context = relate.context ? relate.context : workspace.data() + parts.context;
  const double sum = contexts(exec, context, relate, z, workspace.data() + parts.z);
  if (relate.weight_sum) *relate.weight_sum = sum;
  for (int k = 0; k < relate.relations; ++k)
    rossby::linear_forward<T>(exec, as_layer(h), relation_rows(context, relate, k, z.cols),
                              relation_weight(relate, k), nullptr, true);
}

template <class T>
void relate_dense_backward(const Exec& exec, NodeView<T> dz, MatrixView<T> da, DenseGradient<T> dm,
                           const DenseRelate<T>& relate, NodeView<const T> delta, NodeView<const T> z,
                           std::span<T> workspace) {
  const DenseWorkspace<T> parts(relate, delta.cols, delta.channels);
  const Index d = relate.a.cols / relate.relations;
  if (da.data) {
    T* context = relate.context;
    if (!context) {
      context = workspace.data() + parts.context;
      contexts(exec, context, relate, z, workspace.data() + parts.z);
    }
    for (int k = 0; k < relate.relations; ++k)
      rossby::linear_backward_weight<T>(exec, {da.data + k * d, da.rows, d, da.stride}, as_layer(delta),
                                        relation_rows(context, relate, k, z.cols),
                                        workspace.subspan(static_cast<std::size_t>(parts.scratch)));
  }
  if (!dz.data && !dm.buffer && !dm.update) return;
  T* g = workspace.data() + parts.g;
  std::fill_n(g, (relate.relations * relate.rows + dense_row_padding) * z.width(), T(0));
  for (int k = 0; k < relate.relations; ++k)
    rossby::linear_backward_input<T>(exec, relation_rows(g, relate, k, z.cols), as_layer(delta),
                                     relation_weight(relate, k));
  const double squares = with_storage(relate, [&]<class S>(S) {
    if constexpr (std::is_same_v<S, Bf16>)
      std::transform(g, g + relate.relations * relate.rows * z.width(), g, canonical<S, T>);
    return relate.product == DenseProduct::blas
               ? blas_columns<S>(exec, dz, dm, relate, g, z)
               : own_columns<S>(exec, dz, dm, relate, g, z, workspace.data() + parts.z,
                                workspace.data() + parts.u);
  });
  if (dm.update) *dm.update->squares_to() += squares;
}

template <class T>
void relate_dense_update(const Exec& exec, DenseUpdate<T>& update, const DenseRelate<T>& relate,
                         const T* gradient) {
  constexpr Index rows = 8, bytes_ahead = 1536;
  const Index tiles = (relate.rows + rows - 1) / rows;
  const double squares = with_storage(relate, [&]<class S>(S) {
    const DenseGradient<T> dm(&update);
    const DenseSinkArguments<S> sink(dm);
    const auto pass = kernels_of<DenseKernels, S>(exec.isa).sink[static_cast<int>(sink.sink)];
    const auto tile = [&](Index t) {
      const int k = static_cast<int>(t / tiles);
      const Index row = t % tiles * rows;
      DenseBackward<S> b = sink.block(relate, dm, k, row, 0, relate.columns);
      b.rows = std::min(b.rows, rows);
      b.ahead = bytes_ahead / static_cast<Index>(sizeof(T));
      pass(b, gradient + (k * relate.rows + row) * relate.columns, relate.columns);
      return b.squares;
    };
    return reduce_blocks(exec, relate.relations * tiles, 1, relate.relations * relate.rows * relate.columns,
                         [&](Index from, Index to) {
                           double sum = 0;
                           for (Index t = from; t < to; ++t) sum += tile(t);
                           return sum;
                         });
  });
  *update.squares_to() += squares;
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, relate_dense_workspace, relate_dense_forward, relate_dense_backward,
                 relate_dense_update)
