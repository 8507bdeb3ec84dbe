#include "rossby/mpi/whole_graph.hpp"

#include <algorithm>
#include <cstddef>

#include "rossby/base/error.hpp"

namespace rossby {

RowCut::RowCut(WholeGraph& whole, RowPartition partition)
    : whole_(&whole), partition_(std::move(partition)) {}

GlobalEdges RowCut::part_of(const GlobalEdges& whole, int part) const {
  GlobalEdges edges;
  edges.rows = partition_.size(part);
  edges.relations = whole.relations;
  edges.ptr = {0};
  for (const GlobalRow row : partition_.rows_of(part))
    for (int k = 0; k < whole.relations; ++k) {
      const auto begin = static_cast<std::ptrdiff_t>(whole.begin(row.value, k));
      const auto end = static_cast<std::ptrdiff_t>(whole.end(row.value, k));
      edges.column.insert(edges.column.end(), whole.column.begin() + begin, whole.column.begin() + end);
      edges.value.insert(edges.value.end(), whole.value.begin() + begin, whole.value.begin() + end);
      edges.ptr.push_back(edges.entries());
    }
  return edges;
}

GlobalEdges RowCut::rows(int part, const BuildEdges& build) {
  if (!whole_->edges_) {
    whole_->edges_ = build(Communicator::self(), whole_->domain_);
    halos_.reset();
  }
  return part_of(*whole_->edges_, part);
}

const HaloCounts& RowCut::halo(int part) {
  if (!halos_) {
    std::vector<GhostList> ghosts(static_cast<std::size_t>(partition_.parts()));
    for (int p = 0; whole_->edges_ && p < partition_.parts(); ++p) {
      const GlobalEdges edges = part_of(*whole_->edges_, p);
      const GlobalEdges* groups[] = {&edges};
      ghosts[static_cast<std::size_t>(p)] = collect_ghosts(partition_, p, groups);
    }
    halos_ = halo_counts(partition_, ghosts);
  }
  return (*halos_)[static_cast<std::size_t>(part)];
}

Index RowCut::entries(int part) const {
  Index entries = 0;
  if (!whole_->edges_ || whole_->edges_->relations == 0) return entries;
  for (const GlobalRow row : partition_.rows_of(part))
    entries +=
        whole_->edges_->end(row.value, whole_->edges_->relations - 1) - whole_->edges_->begin(row.value, 0);
  return entries;
}

std::vector<int> RowCut::heavy() {
  std::vector<int> parts{0};
  const auto add_largest = [&](const auto& size) {
    int largest = 0;
    Index most = size(0);
    for (int p = 1; p < partition_.parts(); ++p)
      if (const Index here = size(p); here > most) {
        largest = p;
        most = here;
      }
    parts.push_back(largest);
  };
  add_largest([&](int p) { return partition_.size(p); });
  add_largest([&](int p) { return entries(p); });
  add_largest([&](int p) { return halo(p).ghosts; });
  add_largest([&](int p) { return halo(p).rows_sent; });
  add_largest([&](int p) { return halo(p).owners + halo(p).receivers; });
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

WholeGraph::WholeGraph(const Config& config) : domain_(make_domain(Communicator::self(), config)) {
  // Rows in the order of the file, because parts are cut by their numbers there.
  domain_.partition = RowPartition::blocks(domain_.nodes(), 1);
  domain_.rows = domain_.partition.rows_of(0);
}

Domain WholeGraph::domain(const Communicator& space, const Config& config) {
  const std::string kind = config.parallel.partition + " " + std::to_string(config.parallel.entry_cost);
  auto& cut = cuts_[{kind, space.size()}];
  if (!cut)
    cut = std::make_unique<RowCut>(*this,
                                   choose_partition(Communicator::self(), config, domain_, space.size()));
  Domain domain = domain_;
  domain.partition = cut->partition();
  domain.cut_graph = space.size() > 1 && partition_kind(config, domain_, space.size()) == "graph";
  domain.rows = domain.partition.rows_of(space.rank());
  domain.fixed.assign(domain.rows.size() * static_cast<std::size_t>(domain.inputs.fixed), 0.0);
  domain.cut = cut.get();
  return domain;
}

const std::vector<Index>& WholeGraph::node_entries(const Config& config) {
  if (entries_) return *entries_;
  entries_.emplace();
  if (config.relation.discover == "dense" || config.relation.storage == "dense") return *entries_;
  const GlobalEdges edges = build_edges(Communicator::self(), config, domain_, domain_.partition);
  if (edges.relations > 0)
    for (Index row = 0; row < edges.rows; ++row)
      entries_->push_back(edges.end(row, edges.relations - 1) - edges.begin(row, 0));
  return *entries_;
}

GlobalEdges rows_of_rank(const Communicator& space, const Domain& domain, const BuildEdges& build) {
  return domain.cut ? domain.cut->rows(space.rank(), build) : build(space, domain);
}

}  // namespace rossby
