#pragma once

#include <span>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// Assigns nodes to ranks. Positions number the nodes rank by rank, and within a rank by ascending global row
/// unless reordered. Rank p owns the positions [begin(p), end(p)), and its local row l is position begin(p) +
/// l. Every rank holds the same object. Memory: nothing per node for contiguous blocks, otherwise 12 bytes
/// per node.
class RowPartition {
 public:
  /// Contiguous blocks of global rows with summed weights as equal as a prefix split allows. If `weights` is
  /// empty or all zero, counts are equal (the first n mod P blocks hold one row more). Weights must be finite
  /// and non-negative. A part is empty only if n < P.
  static RowPartition blocks(Index rows, int parts, std::span<const double> weights = {});

  /// From the owner of each global row (partitioners, tiles). Throws UserError if an owner is outside
  /// 0…parts−1.
  static RowPartition from_owners(std::span<const int> owners, int parts);

  /// Returns a partition with the same owners, and the rows of each part in another order. `rows` lists the
  /// global rows by position. Throws BugError if a part's positions do not list its own rows, each once.
  [[nodiscard]] RowPartition reordered(std::span<const Index> rows) const;

  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] int parts() const { return static_cast<int>(begin_.size()) - 1; }
  [[nodiscard]] Index begin(int part) const { return begin_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] Index end(int part) const { return begin_[static_cast<std::size_t>(part) + 1]; }
  [[nodiscard]] Index size(int part) const { return end(part) - begin(part); }

  [[nodiscard]] Position position(GlobalRow row) const;
  [[nodiscard]] GlobalRow global(Position position) const;
  [[nodiscard]] int owner(GlobalRow row) const { return owner(position(row)); }
  [[nodiscard]] int owner(Position position) const;

  /// The global rows of one part, in local order.
  [[nodiscard]] std::vector<GlobalRow> rows_of(int part) const;
  /// The local rows of one part by ascending global row: 0, 1, 2, … unless reordered.
  [[nodiscard]] std::vector<Index> by_global_row(int part) const;

  /// Memory of the lists.
  [[nodiscard]] std::size_t bytes() const {
    return position_.size() * sizeof(std::int32_t) + (global_.size() + begin_.size()) * sizeof(Index);
  }

  /// True if positions equal global rows (contiguous blocks in their own order).
  [[nodiscard]] bool identity() const { return position_.empty(); }

 private:
  Index rows_ = 0;
  std::vector<Index> begin_;
  std::vector<std::int32_t> position_;  // by global row; empty: position = row
  std::vector<Index> global_;           // by position; empty: row = position
};

/// Returns the owner of each global row. Cuts a (lat, lon) grid into `parts` near-square tiles of near-equal
/// weight, by recursive bisection along the longer side of the bounding box, in cells. Any number of parts is
/// allowed; p is cut into floor(p/2) and the rest. A tile is empty only if n < parts. A cut follows a grid
/// line except for the last cells that equal weights need. Tiles of equal weights therefore differ by at most
/// one node per cut.
///
/// `node_of_cell[lat·n_lon + lon]` is the global row of a cell, or −1 if the cell is not a node (land).
/// `weights` (per node; empty: all 1) are balanced. Deterministic.
std::vector<int> grid_tiles(Index n_lat, Index n_lon, std::span<const Index> node_of_cell, int parts,
                            std::span<const double> weights = {});

}  // namespace rossby
