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

/// Builds relations on the rows of a domain.
using BuildEdges = std::function<GlobalEdges(const Communicator&, const Domain&)>;

/// A graph cut into the row blocks of pretended ranks.
class RowCut {
 public:
  RowCut(WholeGraph& whole, RowPartition partition);

  [[nodiscard]] const RowPartition& partition() const { return partition_; }
  /// Returns a part's rows of relations. `build` makes the whole relations at the first request.
  [[nodiscard]] GlobalEdges rows(int part, const BuildEdges& build);
  /// Traffic of a part; no ghosts if no relations have been built.
  [[nodiscard]] const HaloCounts& halo(int part);
  /// Number of entries in a part's rows, over all relations built so far.
  [[nodiscard]] Index entries(int part) const;
  /// Part 0 and the parts with the most rows, entries, ghosts, rows to send and neighbours, ascending. One of
  /// them is the slowest.
  [[nodiscard]] std::vector<int> heavy();

 private:
  [[nodiscard]] GlobalEdges part_of(const GlobalEdges& whole, int part) const;
  WholeGraph* whole_;
  RowPartition partition_;
  std::optional<std::vector<HaloCounts>> halos_;
};

/// Nodes and relations of a configuration as a whole, in one process. The shares of pretended ranks
/// (Communicator::pretended) are cut out of it. A plan keeps one for all its candidates.
class WholeGraph {
 public:
  /// Reads the header of the data as a single rank. Throws UserError as make_domain does.
  explicit WholeGraph(const Config& config);

  /// Returns the domain that make_domain would return to rank `space.rank()` of `space.size()` row blocks,
  /// except that rows within blocks have the file's order (parallel.row_order). Must not outlive this object.
  [[nodiscard]] Domain domain(const Communicator& space, const Config& config);

  /// Entries of each global row, over all relations of relation.* (build_edges), used to balance row blocks.
  /// Empty without relations, or if a dense relation has all entries.
  [[nodiscard]] const std::vector<Index>& node_entries(const Config& config);

 private:
  friend class RowCut;
  Domain domain_;
  std::optional<GlobalEdges> edges_;
  std::optional<std::vector<Index>> entries_;
  std::map<std::pair<std::string, int>, std::unique_ptr<RowCut>>
      cuts_;  // by parallel.partition, parallel.entry_cost, parts
};

/// Returns this rank's rows, built by all ranks, or cut out of a whole graph for pretended ranks. Collective.
[[nodiscard]] GlobalEdges rows_of_rank(const Communicator& space, const Domain& domain,
                                       const BuildEdges& build);

}  // namespace rossby
