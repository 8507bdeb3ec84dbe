#pragma once

#include <cstddef>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Moves node data between a partition and contiguous blocks of global rows, one block per rank, so that each
/// rank reads or writes one stretch of a file in global row order. If the partition is already contiguous,
/// nothing moves, and the blocks are its own.
class RowRedistribution {
 public:
  RowRedistribution(const Communicator& comm, const RowPartition& partition);
  /// Moves between a partition and these blocks, each with ascending global rows.
  RowRedistribution(const Communicator& comm, const RowPartition& partition, RowPartition blocks);

  [[nodiscard]] Index rows() const { return partition_.rows(); }
  [[nodiscard]] Index owned() const { return partition_.size(comm_.rank()); }
  /// This rank's block: global rows [begin, begin + block_rows()).
  [[nodiscard]] Index begin() const { return blocks_.begin(comm_.rank()); }
  [[nodiscard]] Index block_rows() const { return blocks_.size(comm_.rank()); }
  /// The largest block size or row count of any rank, the same on every rank.
  [[nodiscard]] Index largest() const { return largest_; }
  [[nodiscard]] const RowPartition& partition() const { return partition_; }
  [[nodiscard]] const Communicator& communicator() const { return comm_; }

  /// local (outer, owned, inner bytes) → block (outer, block rows, inner bytes). Collective.
  void to_blocks(const std::byte* local, Index outer, Index inner, std::byte* block) const;
  /// The inverse of to_blocks. Collective.
  void from_blocks(const std::byte* block, Index outer, Index inner, std::byte* local) const;

 private:
  friend class EntryRedistribution;
  Communicator comm_;
  RowPartition partition_;
  RowPartition blocks_;
  bool moves_;
  Index largest_ = 0;
  std::vector<Index> order_;   // owned rows by ascending global row: the order in messages
  std::vector<int> block_of_;  // per row in order_: the rank of its block (ascending)
  std::vector<int> owner_of_;  // owner per block row
};

/// Redistributes one value per entry of sparse relations. Entries follow their rows.
class EntryRedistribution {
 public:
  /// Collective.
  EntryRedistribution(const RowRedistribution& rows, const GlobalEdges& edges);

  /// Entries of this rank's block: file entries [first, first + count()) of total().
  [[nodiscard]] Index first() const { return first_; }
  [[nodiscard]] Index count() const { return count_; }
  [[nodiscard]] Index total() const { return total_; }
  [[nodiscard]] Index largest() const { return largest_; }

  /// local: one value of `bytes` bytes per entry of the owned rows, in GlobalEdges order. block: entries of
  /// the block rows, by (global row, relation, neighbour). Collective.
  void to_blocks(const std::byte* local, Index bytes, std::byte* block) const;
  void from_blocks(const std::byte* block, Index bytes, std::byte* local) const;

 private:
  const RowRedistribution& rows_;
  std::vector<Index> local_begin_;   // first entry of each owned row, then the end
  std::vector<Index> block_counts_;  // entries per block row
  Index first_ = 0;
  Index count_ = 0;
  Index total_ = 0;
  Index largest_ = 0;
};

}  // namespace rossby
