#pragma once

#include <cstddef>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Moves node data between a partition and contiguous blocks of global rows, one block a rank: what lets each
/// rank read or write one stretch of a file in global row order. Nothing moves where the partition is
/// contiguous already; its blocks are then the partition's own.
class RowRedistribution {
 public:
  RowRedistribution(const Communicator& comm, const RowPartition& partition);
  /// Between a partition and these blocks, each of which holds global rows in ascending order.
  RowRedistribution(const Communicator& comm, const RowPartition& partition, RowPartition blocks);

  [[nodiscard]] Index rows() const { return partition_.rows(); }
  [[nodiscard]] Index owned() const { return partition_.size(comm_.rank()); }
  /// This rank's block: global rows [begin, begin + block_rows()).
  [[nodiscard]] Index begin() const { return blocks_.begin(comm_.rank()); }
  [[nodiscard]] Index block_rows() const { return blocks_.size(comm_.rank()); }
  /// The largest block or row count of any rank, the same on every rank.
  [[nodiscard]] Index largest() const { return largest_; }
  [[nodiscard]] const RowPartition& partition() const { return partition_; }
  [[nodiscard]] const Communicator& communicator() const { return comm_; }

  /// local (outer, owned, inner bytes) → block (outer, block rows, inner bytes). Collective.
  void to_blocks(const std::byte* local, Index outer, Index inner, std::byte* block) const;
  /// The way back. Collective.
  void from_blocks(const std::byte* block, Index outer, Index inner, std::byte* local) const;

 private:
  friend class EntryRedistribution;
  Communicator comm_;
  RowPartition partition_;
  RowPartition blocks_;
  bool moves_;
  Index largest_ = 0;
  std::vector<Index> order_;   // owned rows by ascending global row: the order of letters
  std::vector<int> block_of_;  // of each of them: the rank whose block holds it (ascending)
  std::vector<int> owner_of_;  // of each block row: its owner
};

/// The same for one value an entry of sparse relations: entries follow their rows.
class EntryRedistribution {
 public:
  /// Collective.
  EntryRedistribution(const RowRedistribution& rows, const GlobalEdges& edges);

  /// Entries of this rank's block: file entries [first, first + count()) of total().
  [[nodiscard]] Index first() const { return first_; }
  [[nodiscard]] Index count() const { return count_; }
  [[nodiscard]] Index total() const { return total_; }
  [[nodiscard]] Index largest() const { return largest_; }

  /// local: one value of `bytes` bytes an entry of the owned rows, in GlobalEdges order; block: those of the
  /// block rows, by (global row, relation, neighbour). Collective.
  void to_blocks(const std::byte* local, Index bytes, std::byte* block) const;
  void from_blocks(const std::byte* block, Index bytes, std::byte* local) const;

 private:
  const RowRedistribution& rows_;
  std::vector<Index> local_begin_;   // of each owned row's entries, and behind them all
  std::vector<Index> block_counts_;  // entries of each block row
  Index first_ = 0;
  Index count_ = 0;
  Index total_ = 0;
  Index largest_ = 0;
};

}  // namespace rossby
