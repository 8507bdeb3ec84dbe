#include "rossby/relation/dense_block.hpp"

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

/// Calls visit(place in (r, rows, n), entry) for every entry.
template <class Visit>
void each_place(const GlobalEdges& edges, const RowPartition& partition, int part, const Visit& visit) {
  require(edges.rows == partition.size(part), "relation rows must be the owned rows");
  for (Index i = 0; i < edges.rows; ++i)
    for (int k = 0; k < edges.relations; ++k)
      for (Index e = edges.begin(i, k); e < edges.end(i, k); ++e)
        visit((k * edges.rows + i) * partition.rows() +
                  partition.position(edges.column[static_cast<std::size_t>(e)]).value,
              static_cast<std::size_t>(e));
}

}  // namespace

DenseBlock densify(const GlobalEdges& edges, const RowPartition& partition, int part) {
  DenseBlock block;
  block.rows = edges.rows;
  block.columns = partition.rows();
  block.relations = edges.relations;
  block.value = Buffer<double>(edges.relations * edges.rows * partition.rows());
  each_place(edges, partition, part,
             [&](Index place, std::size_t e) { block.value[place] = edges.value[e]; });
  return block;
}

std::vector<std::uint8_t> pattern_mask(const GlobalEdges& edges, const RowPartition& partition, int part) {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(edges.relations * edges.rows * partition.rows()),
                                 0);
  each_place(edges, partition, part,
             [&](Index place, std::size_t) { mask[static_cast<std::size_t>(place)] = 1; });
  return mask;
}

}  // namespace rossby
