#pragma once

#include "rossby/kernels/device/tiles.hpp"
#include "rossby/kernels/relate_dense.hpp"

namespace rossby::ROSSBY_DEVICE {

/// Rows of W that a block keeps in shared memory: as many as fit next to both factors.
template <class T>
inline constexpr int pass_rows = sizeof(T) > 4 ? tile / 2 : tile;

template <class T>
struct PassShared {
  Panel<T> a, b;
  alignas(16) T weight[pass_rows<T>][pitch];
  SumShared squares;
};

/// One relation's dz (columns, width) += Wᵀ factor, and sink(i, j, Σ factor(i, q) z(j, q), sink.load(i, j))
/// for every entry. sink.load reads an entry's present values, and sink.weight returns the W among them. W,
/// and the arrays that the sink updates, are read and written once. A block goes down a panel of 64 columns,
/// tile of gradients by tile; each tile's weights stay in shared memory for their product. *squares += Σ of
/// the sink's results when the device settles.
template <class T, class Sink>
void adjoint_and_update(const Exec& exec, const DenseRelate<T>& relate, Index width, const T* factor,
                        const T* z, T* dz, const Sink& sink, double* squares) {
  constexpr int down = pass_rows<T>, side = tile / lanes, high = down / lanes;
  constexpr Index enough_blocks = 1024;
  const Index rows = relate.rows, columns = relate.columns, across = (columns + tile - 1) / tile;
  if (rows == 0) return;
  // Pieces of rows whose dz are added in order, if panels alone are too few to fill a GPU.
  const auto room =
      (static_cast<Index>(exec.device->scratch_bytes()) - behind_sums * static_cast<Index>(sizeof(double))) /
      static_cast<Index>(sizeof(T)) / std::max<Index>(1, columns * width);
  const Index tiles = (rows + down - 1) / down;
  const Index most = std::max<Index>(1, std::min({tiles, enough_blocks / across, room}));
  const Index each = (tiles + most - 1) / most * down, pieces = (rows + each - 1) / each;
  auto* scratch =
      exec.device->scratch<double>(static_cast<Index>(exec.device->scratch_bytes() / sizeof(double)));
  double* sums = scratch + first_sum;
  const bool summed = squares != nullptr;
  T* partial = pieces > 1 ? reinterpret_cast<T*>(scratch + behind_sums) : nullptr;
  for_each_block<PassShared<T>>(
      exec, across * pieces, [=] ROSSBY_ON_DEVICE(const Block& block, PassShared<T>& shared) {
        const Index piece = block.index / across, first_col = block.index % across * tile;
        const Index begin = piece * each, end = begin + each < rows ? begin + each : rows;
        PerThread<T, side * side> adjoint;
        PerThread<double, 1> squared;
        for (Index first = begin; first < end; first += down) {
          PerThread<T, high * side> gradient;
          for (Index chunk = 0; chunk < width; chunk += tile_depth) {
            block.each([&](int t) {
              for (int e = t; e < down * tile_depth; e += block_threads) {
                const Index i = first + e / tile_depth, q = chunk + e % tile_depth;
                shared.a.row[e % tile_depth][e / tile_depth] =
                    i < end && q < width ? factor[i * width + q] : T(0);
              }
              for (int e = t; e < tile * tile_depth; e += block_threads) {
                const Index j = first_col + e / tile_depth, q = chunk + e % tile_depth;
                shared.b.row[e % tile_depth][e / tile_depth] =
                    j < columns && q < width ? z[j * width + q] : T(0);
              }
            });
            const int terms = width - chunk < tile_depth ? static_cast<int>(width - chunk) : tile_depth;
            block.each([&](int t) {
              multiply_panels<high>(t, columns - first_col, terms, shared.a.row, shared.b.row, gradient[t]);
            });
          }
          block.each([&](int t) {
            auto&& mine = gradient[t];
            double sum = 0;
            ROSSBY_UNROLL
            for (int p = 0; p < high; ++p) {
              const int row = row_of<high>(t, p);
              const Index i = first + row;
              typename Sink::Entry entries[side];
              ROSSBY_UNROLL
              for (int q = 0; q < side; ++q) {
                const Index j = first_col + column_of(t, q);
                if (i < end && j < columns) entries[q] = sink.load(i, j);
              }
              ROSSBY_UNROLL
              for (int q = 0; q < side; ++q) {
                const int col = column_of(t, q);
                shared.weight[row][col] = sink.weight(entries[q]);
                if (i < end && first_col + col < columns)
                  sum += sink(i, first_col + col, mine[p * side + q], entries[q]);
              }
            }
            squared[t][0] += sum;
          });
          for (int beside = 0; beside < down; beside += tile_depth) {
            block.each([&](int t) {
              for (int e = t; e < tile * tile_depth; e += block_threads) {
                const Index i = first + beside + e / tile, q = e % tile;
                shared.b.row[e / tile][e % tile] = i < end && q < width ? factor[i * width + q] : T(0);
              }
            });
            block.each([&](int t) {
              multiply_panels<side>(t, width, tile_depth, shared.weight + beside, shared.b.row, adjoint[t]);
            });
          }
        }
        block.each([&](int t) {
          auto&& mine = adjoint[t];
          ROSSBY_UNROLL
          for (int p = 0; p < side; ++p) {
            ROSSBY_UNROLL
            for (int q = 0; q < side; ++q) {
              const Index j = first_col + row_of<side>(t, p), to = column_of(t, q);
              if (j >= columns || to >= width) continue;
              if (partial)
                partial[(piece * columns + j) * width + to] = mine[p * side + q];
              else
                dz[j * width + to] += mine[p * side + q];
            }
          }
          shared.squares.value[t] = squared[t][0];
        });
        if (!summed) return;
        fold(block, shared.squares);
        block.each([&](int t) {
          if (t == 0) sums[block.index] = shared.squares.value[0];
        });
      });
  if (partial)
    for_each(exec, columns * width, [=] ROSSBY_ON_DEVICE(Index k) {
      T sum = T(0);
      for (Index piece = 0; piece < pieces; ++piece) sum += partial[piece * columns * width + k];
      dz[k] += sum;
    });
  if (squares)
    sum_later(
        exec, across * pieces, [=] ROSSBY_ON_DEVICE(Index k) { return sums[k]; }, squares);
}

}  // namespace rossby::ROSSBY_DEVICE
