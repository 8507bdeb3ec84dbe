#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/relation/builders.hpp"
#include "tests/lib/relation/parts.hpp"

// Distributed transposes, random walks, symmetric normalisation and Laplacians, against dense matrices.

namespace rossby {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr Index n = 13;

/// Node 6 has no edges, node 0 no outgoing ones, node 12 no incoming ones. Some nodes have self-loops.
std::vector<Edge> random_edges(int relations) {
  std::vector<Edge> edges;
  const Random random(17, "edges");
  std::uint64_t counter = 0;
  for (int k = 0; k < relations; ++k)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) {
        const double weight = random.uniform(counter++, 0.1, 1);
        if (random.uniform(counter++) > 0.3 || i == 6 || j == 6 || j == 0 || i == 12) continue;
        edges.push_back({j, i, k, weight});
      }
  return edges;
}

RowPartition partition_of(int parts, bool shuffled) {
  if (!shuffled) return RowPartition::blocks(n, parts);
  std::vector<int> owners;
  for (Index i = 0; i < n; ++i)
    owners.push_back(static_cast<int>(Random(2, "owners").bits(static_cast<std::uint64_t>(i)) %
                                      static_cast<unsigned>(parts)));
  return RowPartition::from_owners(owners, parts);
}

/// The relations of all parts as dense matrices.
std::vector<Matrix> whole(const std::vector<GlobalEdges>& blocks, const RowPartition& partition) {
  std::vector<Matrix> all(static_cast<std::size_t>(blocks.front().relations),
                          Matrix(n, std::vector<double>(n, 0.0)));
  for (int p = 0; p < partition.parts(); ++p) {
    const GlobalEdges& block = blocks[static_cast<std::size_t>(p)];
    const auto rows = partition.rows_of(p);
    EXPECT_EQ(block.rows, static_cast<Index>(rows.size()));
    for (Index i = 0; i < block.rows; ++i)
      for (int k = 0; k < block.relations; ++k)
        for (Index e = block.begin(i, k); e < block.end(i, k); ++e) {
          if (e > block.begin(i, k)) {
            EXPECT_LT(block.column[static_cast<std::size_t>(e - 1)],
                      block.column[static_cast<std::size_t>(e)]);
          }
          all[static_cast<std::size_t>(k)][static_cast<std::size_t>(rows[static_cast<std::size_t>(i)].value)]
             [static_cast<std::size_t>(block.column[static_cast<std::size_t>(e)].value)] =
                 block.value[static_cast<std::size_t>(e)];
        }
  }
  return all;
}

template <class Builder>
std::vector<Matrix> built(int relations, int parts, bool shuffled, const Builder& builder) {
  const auto edges = random_edges(relations);
  const RowPartition partition = partition_of(parts, shuffled);
  return whole(test::on_parts(parts,
                              [&](Mailbox& mailbox) {
                                const auto own =
                                    from_edge_list(test::slice(edges, mailbox.part(), mailbox.parts()),
                                                   relations, partition, mailbox);
                                return builder(own, partition, mailbox);
                              }),
               partition);
}

class Walks : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  template <class Builder, class Entry>
  void compare(int relations, const Builder& builder, int expected_relations, const Entry& entry) {
    const auto [parts, shuffled] = GetParam();
    const auto w =
        built(relations, 1, false, [](const GlobalEdges& own, const auto&, Mailbox&) { return own; });
    const auto got = built(relations, parts, shuffled, builder);
    ASSERT_EQ(static_cast<int>(got.size()), expected_relations);
    for (std::size_t k = 0; k < got.size(); ++k)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          EXPECT_NEAR(got[k][i][j], entry(w, k, i, j), 1e-15) << k << " " << i << " " << j;
  }
};

double row_sum(const Matrix& w, std::size_t i) {
  double sum = 0;
  for (const double value : w[i]) sum += value;
  return sum;
}
double column_sum(const Matrix& w, std::size_t j) {
  double sum = 0;
  for (const auto& row : w) sum += row[j];
  return sum;
}
double over(double value, double sum) {
  return sum > 0 ? value / sum : 0;
}

TEST_P(Walks, TransposesGoBetweenParts) {
  compare(
      2, [](const GlobalEdges& own, const RowPartition& p, Mailbox& m) { return transpose(own, p, m); }, 2,
      [](const auto& w, std::size_t k, std::size_t i, std::size_t j) { return w[k][j][i]; });
}

TEST_P(Walks, RandomWalksHaveColumnsThatSumToOne) {
  compare(
      2,
      [](const GlobalEdges& own, const RowPartition& p, Mailbox& m) { return random_walks(own, true, p, m); },
      4,
      [](const auto& w, std::size_t k, std::size_t i, std::size_t j) {
        return k < 2 ? over(w[k][i][j], column_sum(w[k], j)) : over(w[k - 2][j][i], row_sum(w[k - 2], j));
      });
  compare(
      1,
      [](const GlobalEdges& own, const RowPartition& p, Mailbox& m) {
        return random_walks(own, false, p, m);
      },
      1,
      [](const auto& w, std::size_t k, std::size_t i, std::size_t j) {
        return over(w[k][i][j], column_sum(w[k], j));
      });
}

TEST_P(Walks, SymmetricNormalisationDividesByTheRootsOfBothDegrees) {
  compare(
      2,
      [](const GlobalEdges& own, const RowPartition& p, Mailbox& m) {
        return normalise_symmetrically(own, p, m);
      },
      2,
      [](const auto& w, std::size_t k, std::size_t i, std::size_t j) {
        return over(w[k][i][j], std::sqrt(row_sum(w[k], i) * row_sum(w[k], j)));
      });
}

Matrix both_ways(const Matrix& w) {
  Matrix both = w;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) both[i][j] = std::max(w[i][j], w[j][i]);
  return both;
}

/// 2 L / 2 − I with L = I − D^{−1/2} W D^{−1/2}, and L = 0 in rows without edges.
double laplacian(const Matrix& w, std::size_t i, std::size_t j) {
  const Matrix both = both_ways(w);
  const double scale = std::sqrt(row_sum(both, i) * row_sum(both, j));
  const double identity = i == j ? 1 : 0, of_l = row_sum(both, i) > 0 ? identity : 0;
  return of_l - over(both[i][j], scale) - identity;
}

TEST_P(Walks, UndirectedEdgesHaveTheLargerWeight) {
  compare(
      2, [](const GlobalEdges& own, const RowPartition& p, Mailbox& m) { return undirected(own, p, m); }, 2,
      [](const auto& w, std::size_t k, std::size_t i, std::size_t j) { return both_ways(w[k])[i][j]; });
}

TEST_P(Walks, ScaledLaplaciansAreThoseOfDenseMatrices) {
  compare(
      2,
      [](const GlobalEdges& own, const RowPartition& p, Mailbox& m) { return scaled_laplacian(own, p, m); },
      2, [](const auto& w, std::size_t k, std::size_t i, std::size_t j) { return laplacian(w[k], i, j); });
}

/// Chebyshev polynomials stay within ±1 on this interval.
TEST(Laplacian, HasItsSpectrumWithinTheUnitInterval) {
  const auto all = built(1, 3, true, [](const GlobalEdges& own, const RowPartition& p, Mailbox& m) {
    return scaled_laplacian(own, p, m);
  });
  std::vector<double> x(n), y(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<double>(i) + 1);
  double norm = 0;
  for (int turn = 0; turn < 500; ++turn) {
    norm = 0;
    for (std::size_t i = 0; i < n; ++i) {
      y[i] = 0;
      for (std::size_t j = 0; j < n; ++j) y[i] += all[0][i][j] * x[j];
      norm += y[i] * y[i];
    }
    norm = std::sqrt(norm);
    for (std::size_t i = 0; i < n; ++i) x[i] = y[i] / norm;
  }
  EXPECT_NEAR(norm, 1, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Parts, Walks, testing::Combine(testing::Values(1, 2, 3, 7, 17), testing::Bool()));

}  // namespace
}  // namespace rossby
