#pragma once

#include <memory>
#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby::test {

/// P pretended ranks in one process, each with an Exchange that moves data and counts messages and bytes
/// exactly as the real ones do.
///
/// The caller plays the ranks one after the other: all begin, then all end, in any order. Data is copied at
/// begin, so a rank that has ended may go on while others have not. An end that comes before all ranks have
/// begun is a BugError, as are ranks that begin different things. Sums run in the order of the real
/// exchanges: results are bit-equal to theirs.
class DryRunWorld {
 public:
  /// Halo exchange: ghosts[p] are the ghosts of part p (positions owned elsewhere, ascending), as
  /// collect_ghosts makes them.
  DryRunWorld(const RowPartition& partition, std::vector<GhostList> ghosts);

  /// Allgather / reduce-scatter of dense relations: the ghost space of every rank is all positions.
  static DryRunWorld dense(const RowPartition& partition);

  DryRunWorld(DryRunWorld&&) noexcept;
  DryRunWorld& operator=(DryRunWorld&&) noexcept;
  ~DryRunWorld();

  [[nodiscard]] int parts() const;
  /// The exchange of one pretended rank; lives as long as the world.
  [[nodiscard]] Exchange& exchange(int part);

 private:
  class State;
  class Port;
  explicit DryRunWorld(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace rossby::test
