#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rossby/exchange/traced.hpp"
#include "rossby/mpi/domain.hpp"

namespace rossby {

class WholeGraph;

/// Makes relations on the rows of a domain.
using BuildEdges = std::function<GlobalEdges(const Communicator&, const Domain&)>;

/// A graph cut into the row blocks of pretended ranks.
class RowCut {
 public:
  RowCut(WholeGraph& whole, RowPartition partition);

  [[nodiscard]] const RowPartition& partition() const { return partition_; }
  /// The rows of a part, of relations that `build` makes whole the first time that they are asked for.
  [[nodiscard]] GlobalEdges rows(int part, const BuildEdges& build);
  /// What a part sends; no ghosts where no relations have been built.
  [[nodiscard]] const HaloCounts& halo(int part);
  /// Entries of a part's rows, of all relations that have been built.
  [[nodiscard]] Index entries(int part) const;
  /// Part 0 and those that have most rows, entries, ghosts, rows to send and neighbours: one of them is the
  /// slowest. Ascending.
  [[nodiscard]] std::vector<int> heavy();

 private:
  [[nodiscard]] GlobalEdges part_of(const GlobalEdges& whole, int part) const;
  WholeGraph* whole_;
  RowPartition partition_;
  std::optional<std::vector<HaloCounts>> halos_;
};

/// Nodes and relations of a configuration as one process sees them whole: what ranks that are not there
/// (Communicator::pretended) would own is cut out of it. A plan holds one for all that it tries.
class WholeGraph {
 public:
  /// Reads the header of the data, as one rank. Throws UserError as make_domain does.
  explicit WholeGraph(const Config& config);

  /// What make_domain would give rank `space.rank()` of `space.size()` row blocks, but for the order of rows
  /// inside them (parallel.row_order), which is the file's. Lives as long as this.
  [[nodiscard]] Domain domain(const Communicator& space, const Config& config);

  /// Entries of each global row, of all relations of relation.* (build_edges), which row blocks of equal cost
  /// are balanced by; empty where there are none, or a dense relation has all.
  [[nodiscard]] const std::vector<Index>& node_entries(const Config& config);

 private:
  friend class RowCut;
  Domain domain_;
  std::optional<GlobalEdges> edges_;
  std::optional<std::vector<Index>> entries_;
  std::map<std::pair<std::string, int>, std::unique_ptr<RowCut>>
      cuts_;  // by parallel.partition, parallel.entry_cost, parts
};

/// The rows of this rank: built by all ranks, or cut out of a whole graph where they are pretended.
/// Collective.
[[nodiscard]] GlobalEdges rows_of_rank(const Communicator& space, const Domain& domain,
                                       const BuildEdges& build);

}  // namespace rossby
