#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/data/series.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"
#include "tests/support/shuffled_rows.hpp"

// Shared by tests of whole trainings: relations, rows and data that are functions of global indices.

namespace rossby::small_training {

/// Two random relations. Some rows of this part are empty.
inline GlobalEdges random_edges(const RowPartition& partition, int part, double density) {
  const Random random(4, "edges");
  const Index n = partition.rows();
  GlobalEdges edges;
  edges.rows = partition.size(part);
  edges.relations = 2;
  edges.ptr = {0};
  for (const GlobalRow row : partition.rows_of(part))
    for (int k = 0; k < 2; ++k) {
      for (Index j = 0; j < n; ++j) {
        const auto key = static_cast<std::uint64_t>((row.value * 2 + k) * n + j);
        if (row.value % 6 == 2 || random.uniform(key) > density) continue;
        edges.column.emplace_back(j);
        edges.value.push_back(random.at(1).uniform(key));
      }
      edges.ptr.push_back(edges.entries());
    }
  return edges;
}

/// Row blocks, or rows distributed at random in random order. Parts may be empty.
inline RowPartition make_partition(Index n, bool shuffled, int parts) {
  if (!shuffled || parts == 1) return RowPartition::blocks(n, parts);
  std::vector<int> owners;
  for (Index i = 0; i < n; ++i)
    owners.push_back(static_cast<int>(Random(2, "owners").bits(static_cast<std::uint64_t>(i)) %
                                      static_cast<unsigned>(parts)));
  return test::shuffled_rows(RowPartition::from_owners(owners, parts));
}

/// The rows of this part of a series with two features. A tenth of the values is missing.
inline Series random_series(const RowPartition& partition, int part, Index steps) {
  const auto rows = partition.rows_of(part);
  Series series(steps, partition.size(part), 2);
  const Random data(8, "data");
  for (Index t = 0; t < steps; ++t)
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (Index f = 0; f < 2; ++f) {
        const auto key = static_cast<std::uint64_t>((t * partition.rows() + rows[i].value) * 2 + f);
        const bool missing = data.at(1).uniform(key) < 0.1;
        series.at(t, static_cast<Index>(i), f) = missing ? NAN : static_cast<float>(data.normal(key));
      }
  return series;
}

/// Only the first relation.
inline GlobalEdges first_relation(const GlobalEdges& graph) {
  GlobalEdges one;
  one.rows = graph.rows;
  one.relations = 1;
  one.ptr = {0};
  for (Index i = 0; i < graph.rows; ++i) {
    for (Index e = graph.begin(i, 0); e < graph.end(i, 0); ++e) {
      one.column.push_back(graph.column[static_cast<std::size_t>(e)]);
      one.value.push_back(graph.value[static_cast<std::size_t>(e)]);
    }
    one.ptr.push_back(one.entries());
  }
  return one;
}

/// The small model of a descriptor. `more` holds further lines of [model].
inline std::shared_ptr<const Architecture> small_architecture(const ModelDescriptor& descriptor,
                                                              const std::string& more = "") {
  const std::string toml = "[model]\nname = \"" + std::string(descriptor.name) + "\"\n" +
                           std::string(descriptor.small) + "\n" + more;
  return descriptor.configure(KeyValues::parse(model_keys(), toml, "small model", {}));
}

}  // namespace rossby::small_training
