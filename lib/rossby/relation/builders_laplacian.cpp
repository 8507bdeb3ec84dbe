#include <algorithm>

#include "rossby/relation/builders.hpp"

namespace rossby {
namespace {

/// Appends an entry to an output that grows list by list.
void append(GlobalEdges& to, GlobalRow column, double value) {
  to.column.push_back(column);
  to.value.push_back(value);
}

}  // namespace

GlobalEdges undirected(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox) {
  const GlobalEdges back = transpose(edges, partition, mailbox);
  GlobalEdges out;
  out.rows = edges.rows;
  out.relations = edges.relations;
  out.ptr = {0};
  const auto lists = static_cast<std::size_t>(edges.rows * edges.relations);
  for (std::size_t list = 0; list < lists; ++list) {
    auto a = static_cast<std::size_t>(edges.ptr[list]), b = static_cast<std::size_t>(back.ptr[list]);
    const auto a_end = static_cast<std::size_t>(edges.ptr[list + 1]),
               b_end = static_cast<std::size_t>(back.ptr[list + 1]);
    while (a < a_end || b < b_end) {
      if (b == b_end || (a < a_end && edges.column[a] < back.column[b])) {
        append(out, edges.column[a], edges.value[a]);
        ++a;
      } else if (a == a_end || back.column[b] < edges.column[a]) {
        append(out, back.column[b], back.value[b]);
        ++b;
      } else {
        append(out, edges.column[a], std::max(edges.value[a], back.value[b]));
        ++a, ++b;
      }
    }
    out.ptr.push_back(out.entries());
  }
  return out;
}

GlobalEdges scaled_laplacian(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox) {
  const GlobalEdges both = normalise_symmetrically(undirected(edges, partition, mailbox), partition, mailbox);
  GlobalEdges out;
  out.rows = both.rows;
  out.relations = both.relations;
  out.ptr = {0};
  for (Index i = 0; i < both.rows; ++i)
    for (int k = 0; k < both.relations; ++k) {
      for (Index e = both.begin(i, k); e < both.end(i, k); ++e)
        append(out, both.column[static_cast<std::size_t>(e)], -both.value[static_cast<std::size_t>(e)]);
      // No edges: 0 − 1.
      if (both.begin(i, k) == both.end(i, k))
        append(out, partition.global(Position{partition.begin(mailbox.part()) + i}), -1);
      out.ptr.push_back(out.entries());
    }
  return out;
}

}  // namespace rossby
