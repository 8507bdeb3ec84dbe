#pragma once

#include "rossby/kernels/device/sums.hpp"

namespace rossby::ROSSBY_DEVICE {

inline constexpr int tile = 64;         // rows and columns of a block's result
inline constexpr int tile_depth = 16;   // terms per phase
inline constexpr int lanes = 16;        // threads per side; each has 4 × 4 results
inline constexpr int pitch = tile + 4;  // of panels' rows: allows 16-byte loads, avoids bank conflicts

/// Layout of the scratch in doubles: first the part of sum_terms, then one sum per block, then partial
/// results, which exist only if blocks are few.
inline constexpr Index first_sum = 4096, behind_sums = 8192;

/// The index along which neighbouring threads read: the contiguous one.
struct TileOrder {
  bool a_down = false;   // a(i, k) along i, not along k
  bool b_along = false;  // b(k, j) along k, not along j
};

/// Shared memory of products; 16-byte loads need its alignment.
template <class T>
struct alignas(16) Panel {
  T row[tile_depth][pitch];
};

template <class T>
struct TileShared {
  Panel<T> a, b;
  SumShared squares;  // for results that return them
};

/// The rows and columns of a tile for a thread of `high` rows. Rows are contiguous, so few loads read them.
/// Columns are `lanes` apart, so that neighbouring threads write neighbouring results.
template <int high>
ROSSBY_ON_DEVICE constexpr int row_of(int thread, int p) {
  return thread / lanes * high + p;
}
ROSSBY_ON_DEVICE constexpr int column_of(int thread, int q) {
  return thread % lanes + q * lanes;
}

/// n values from an address aligned for 16-byte loads.
template <class T>
struct alignas(16) Sixteen {
  T value[16 / sizeof(T)];
};
template <int n, class T>
ROSSBY_ON_DEVICE void load_side_by_side(T (&to)[n], const T* from) {
  constexpr int each = static_cast<int>(16 / sizeof(T));
  static_assert(n % each == 0, "whole loads");
  ROSSBY_UNROLL
  for (int load = 0; load < n / each; ++load) {
    const auto some = *reinterpret_cast<const Sixteen<T>*>(from + load * each);
    ROSSBY_UNROLL
    for (int p = 0; p < each; ++p) to[load * each + p] = some.value[p];
  }
}

/// A thread's part of a tile: mine(p, q) += Σ over k < depth of left[k](row p) · right[k](column q), for its
/// `high` rows and 4 columns. Columns from `cols` on are empty and cost nothing.
template <int high, class T, class Mine>
ROSSBY_ON_DEVICE void multiply_panels(int thread, Index cols, int depth, const T (*left)[pitch],
                                      const T (*right)[pitch], Mine&& mine) {
  constexpr int wide = tile / lanes;
  for (int k = 0; k < depth; ++k) {
    T a[high], b[wide];
    load_side_by_side(a, &left[k][row_of<high>(thread, 0)]);
    ROSSBY_UNROLL
    for (int q = 0; q < wide; ++q) b[q] = right[k][column_of(thread, q)];
    ROSSBY_UNROLL
    for (int q = 0; q < wide; ++q) {
      if (q * lanes >= cols) continue;
      ROSSBY_UNROLL
      for (int p = 0; p < high; ++p) mine[p * wide + q] += a[p] * b[q];
    }
  }
}

/// store(piece, i, j, Σ over k of piece `piece` of a(i, k)·b(k, j)) for every (i, j) of (rows, cols) and each
/// of `pieces` equal parts of [0, depth): blocks of 64 × 64 through shared memory. a and b may transform what
/// they read, and store may do anything with a result. With `squares` (one per block), store returns doubles,
/// whose sums go there. With `Summed::a`, `squares` gets the sums of a's values instead, each (i, k) once.
enum class Summed { stored, a };
template <class T, Summed summed = Summed::stored, class A, class B, class Store>
void tile_blocks(const Exec& exec, Index pieces, Index rows, Index cols, Index depth, TileOrder order,
                 const A& a, const B& b, const Store& store, double* squares) {
  const Index across = (cols + tile - 1) / tile, down = (rows + tile - 1) / tile;
  const Index each = (depth + pieces - 1) / pieces;
  for_each_block<TileShared<T>>(
      exec, across * down * pieces, [=] ROSSBY_ON_DEVICE(const Block& block, TileShared<T>& shared) {
        const Index piece = block.index / (across * down), place = block.index % (across * down);
        const Index first_row = place / across * tile, first_col = place % across * tile;
        const Index begin = piece * each, end = begin + each < depth ? begin + each : depth;
        constexpr int side = tile / lanes, loads = tile * tile_depth / block_threads;
        PerThread<T, side * side> sums;
        PerThread<double, 1> seen;
        for (Index first = begin; first < end; first += tile_depth) {
          block.each([&](int t) {
            for (int q = 0; q < loads; ++q) {
              const int e = t + q * block_threads;
              const int row = order.a_down ? e % tile : e / tile_depth;
              const int k = order.a_down ? e / tile : e % tile_depth;
              const Index i = first_row + row;
              const T value = i < rows && first + k < end ? a(i, first + k) : T(0);
              shared.a.row[k][row] = value;
              if (summed == Summed::a) seen[t][0] += static_cast<double>(value);
              const int col = order.b_along ? e / tile_depth : e % tile;
              const int l = order.b_along ? e % tile_depth : e / tile;
              const Index j = first_col + col;
              shared.b.row[l][col] = j < cols && first + l < end ? b(first + l, j) : T(0);
            }
          });
          const int terms = end - first < tile_depth ? static_cast<int>(end - first) : tile_depth;
          block.each([&](int t) {
            multiply_panels<side>(t, cols - first_col, terms, shared.a.row, shared.b.row, sums[t]);
          });
        }
        block.each([&](int t) {
          auto&& mine = sums[t];
          double sum = 0;
          ROSSBY_UNROLL
          for (int p = 0; p < side; ++p) {
            ROSSBY_UNROLL
            for (int q = 0; q < side; ++q) {
              const Index i = first_row + row_of<side>(t, p), j = first_col + column_of(t, q);
              if (i < rows && j < cols) sum += store(piece, i, j, mine[p * side + q]);
            }
          }
          if (summed == Summed::a) sum = first_col == 0 ? seen[t][0] : 0.0;
          shared.squares.value[t] = sum;
        });
        if (!squares) return;
        fold(block, shared.squares);
        block.each([&](int t) {
          if (t == 0) squares[block.index] = shared.squares.value[0];
        });
      });
}

/// Number of pieces of the terms if results are few: enough to fill a GPU, sums of at least 512 terms, within
/// the scratch.
template <class T>
Index pieces_of(const Exec& exec, Index rows, Index cols, Index depth) {
  constexpr Index least_depth = 512, enough_blocks = 1024;
  const Index blocks = std::max<Index>(1, ((rows + tile - 1) / tile) * ((cols + tile - 1) / tile));
  const auto room =
      (static_cast<Index>(exec.device->scratch_bytes()) - behind_sums * static_cast<Index>(sizeof(double))) /
      static_cast<Index>(sizeof(T)) / std::max<Index>(1, rows * cols);
  return std::max<Index>(1, std::min({depth / least_depth, enough_blocks / blocks, room}));
}

/// add(i, j, Σ over k in [0, depth) of a(i, k)·b(k, j)), in pieces_of pieces that are added in order. If
/// given, *sum_of_a += Σ a(i, k) when the device settles.
template <class T, class A, class B, class Add>
void tile_product(const Exec& exec, Index rows, Index cols, Index depth, TileOrder order, const A& a,
                  const B& b, const Add& add, double* sum_of_a = nullptr) {
  const Index pieces = pieces_of<T>(exec, rows, cols, depth);
  const Index blocks = pieces * ((cols + tile - 1) / tile) * ((rows + tile - 1) / tile);
  // With many blocks results are one piece, so sums may lie in the place of partial results.
  double* sums = sum_of_a ? exec.device->scratch<double>(first_sum + blocks) + first_sum : nullptr;
  const auto multiply = [&](const auto& store) {
    if (sums)
      tile_blocks<T, Summed::a>(exec, pieces, rows, cols, depth, order, a, b, store, sums);
    else
      tile_blocks<T>(exec, pieces, rows, cols, depth, order, a, b, store, nullptr);
  };
  if (pieces == 1) {
    multiply([=] ROSSBY_ON_DEVICE(Index, Index i, Index j, T value) {
      add(i, j, value);
      return 0.0;
    });
  } else {
    T* partial = reinterpret_cast<T*>(exec.device->scratch<double>(behind_sums) + behind_sums);
    multiply([=] ROSSBY_ON_DEVICE(Index piece, Index i, Index j, T value) {
      partial[(piece * rows + i) * cols + j] = value;
      return 0.0;
    });
    for_each(exec, rows * cols, [=] ROSSBY_ON_DEVICE(Index k) {
      T sum = T(0);
      for (Index piece = 0; piece < pieces; ++piece) sum += partial[piece * rows * cols + k];
      add(k / cols, k % cols, sum);
    });
  }
  if (sums)
    sum_later(
        exec, blocks, [=] ROSSBY_ON_DEVICE(Index k) { return sums[k]; }, sum_of_a);
}

/// The same in one piece, with results that return a double each: *squares += their sum when the device
/// settles. If null, they are dropped.
template <class T, class A, class B, class Sink>
void tile_product_squares(const Exec& exec, Index rows, Index cols, Index depth, TileOrder order, const A& a,
                          const B& b, const Sink& sink, double* squares) {
  const auto room = static_cast<Index>(exec.device->scratch_bytes() / sizeof(double));
  double* partial = exec.device->scratch<double>(room) + first_sum;
  const Index across = (cols + tile - 1) / tile;
  const Index together = std::max<Index>(1, (room - first_sum) / std::max<Index>(1, across)) * tile;
  for (Index first = 0; first < rows; first += together) {
    const Index count = std::min(together, rows - first);
    tile_blocks<T>(
        exec, 1, count, cols, depth, order,
        [=] ROSSBY_ON_DEVICE(Index i, Index k) { return a(first + i, k); }, b,
        [=] ROSSBY_ON_DEVICE(Index, Index i, Index j, T value) { return sink(first + i, j, value); },
        squares ? partial : nullptr);
    if (!squares) continue;
    sum_later(
        exec, (count + tile - 1) / tile * across, [=] ROSSBY_ON_DEVICE(Index k) { return partial[k]; },
        squares);
  }
}

}  // namespace rossby::ROSSBY_DEVICE
