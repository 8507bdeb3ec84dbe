#include <map>

#include <gtest/gtest.h>

#include "rossby/kernels/sampled.hpp"
#include "tests/lib/kernels/dense_problem.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/random_edges.hpp"

// Layers on batches of pairs, on a device against the host: pairs repeat, rows have ghosts, nodes and batches
// may be missing.

namespace rossby::test {
namespace {

struct Size {
  Index n;
  int relations;
  Index steps, d, k, samples;
};

/// A rank's block among three; z is (steps, rows, d), the layout of latents.
template <class T>
struct SampledProblem {
  Size s;
  CsrBlock block;
  std::vector<T> weight, dense, z_all, self, u, owned, ghost, sums, own, sparse, full, low, single;
  std::vector<T> d_owned, d_ghost, d_all, d_weight, d_dense, d_self, du, d_sums, g;
  std::vector<std::uint8_t> pattern;
  std::vector<Sample> samples;

  SampledProblem(const Size& size, int part) : s(size) {
    const RowPartition partition = RowPartition::blocks(s.n, 3);
    const GlobalEdges edges =
        test::random_edges(s.n, s.relations, 5, partition.begin(part), partition.end(part));
    const GlobalEdges* group = &edges;
    block = localise(edges, partition, part, collect_ghosts(partition, part, {&group, 1}));
    const Index rows = block.rows, all = rows + block.ghosts;
    const auto values = [](Index count, const char* name, double from = -1, double to = 1) {
      return dense_problem::random_values<T>(count, name, from, to);
    };
    weight = values(block.entries(), "w", -0.3, 1.3);
    dense = values(s.relations * rows * all, "dense", -0.3, 1.3);
    for (Index e = 0; e < std::ssize(dense); ++e) pattern.push_back(e % 5 != 2);
    self = values(rows, "self", -0.3, 1.3);
    u = values(rows * s.k, "u");
    owned = values(s.steps * rows * s.d, "owned");
    ghost = values(block.ghosts * s.steps * s.d, "ghost");
    sums = values(s.steps * s.k * s.d, "sums");
    const Random draw(3, "samples");
    const auto pick = [&](Index key, Index among) {
      return static_cast<Index>(draw.uniform(static_cast<std::uint64_t>(key)) * static_cast<double>(among));
    };
    for (Index q = 0; q < s.samples && rows > 0; ++q)
      samples.push_back({pick(2 * q, rows), pick(2 * q + 1, s.steps)});
    const Index count = std::ssize(samples);
    own = values(count * s.d, "own");
    for (std::vector<T>* context : {&sparse, &full, &g})
      *context = values(count * s.relations * s.d, "context");
    low = single = values(count * s.d, "narrow");
    d_owned = values(std::ssize(owned), "d owned");
    d_ghost = values(std::ssize(ghost), "d ghost");
    z_all = values(all * s.steps * s.d, "z all");
    d_all = values(all * s.steps * s.d, "d all");
    d_weight = values(std::ssize(weight), "d weight");
    d_dense = values(std::ssize(dense), "d dense");
    d_self = values(rows, "d self");
    du = values(std::ssize(u), "du");
    d_sums = values(std::ssize(sums), "d sums");
  }

  /// `at` returns the place of a vector.
  template <class At>
  void run(const Exec& exec, At&& at) {
    const Index rows = block.rows, all = rows + block.ghosts, d = s.d, count = std::ssize(samples);
    const Index wide = s.relations * d;
    const auto table = [&](T* values) { return NodeView<T>(values, rows, s.steps, d, d, rows * d); };
    const NodeView<T> z = table(at(owned)), dz = table(at(d_owned));
    const NodeView<T> z_ghost(at(ghost), block.ghosts, s.steps, d),
        dz_ghost(at(d_ghost), block.ghosts, s.steps, d);
    const MatrixView<const T> a(nullptr, 1, wide), delta(at(g), count, wide);
    const NodeView<T> mine(at(own), count, 1, d);
    gather_samples<T>(exec, mine, z, samples);
    scatter_add_samples<T>(exec, dz, mine, samples);

    const SparseRelate<T> relate{&block, at(weight), true, a};
    sampled_sparse_forward<T>(exec, {at(sparse), count, wide}, relate, samples, z, z_ghost);
    sampled_sparse_backward<T>(exec, dz, dz_ghost, at(d_weight), relate, samples, delta, z, z_ghost);

    // Dense relations see all positions as one array.
    DenseRelate<T> to{rows, all, s.relations, at(dense), pattern.data(), true, a};
    if (pattern.empty()) to.pattern = nullptr;
    const NodeView<T> seen(at(z_all), all, s.steps, d), d_seen(at(d_all), all, s.steps, d);
    std::vector<Index> order(samples.size()), counts(static_cast<std::size_t>(s.steps + 1));
    order_by_column(samples, order, counts);
    std::vector<T> scratch(static_cast<std::size_t>(sampled_dense_workspace(exec, to, d, count)));
    const SampledWork<T> work{order, scratch};
    sampled_dense_forward<T>(exec, {at(full), count, wide}, to, samples, seen, work);
    sampled_dense_backward<T>(exec, d_seen, at(d_dense), to, samples, delta, seen, work);

    const MatrixView<const T> factors(at(u), rows, s.k), narrow(at(own), count, d);
    const auto length = static_cast<std::size_t>(s.steps * s.k * d);
    const std::span<const T> s_sums(at(sums), length);
    sampled_low_rank_forward<T>(exec, {at(low), count, d}, factors, s_sums, samples);
    sampled_low_rank_backward<T>(exec, {at(d_sums), length}, at(du), factors, s_sums, samples, narrow);

    sampled_self_forward<T>(exec, {at(single), count, d}, at(self), samples, z);
    sampled_self_backward<T>(exec, dz, at(d_self), at(self), samples, narrow, z);
  }

  [[nodiscard]] std::vector<std::pair<const char*, const std::vector<T>*>> results() const {
    return {{"own", &own},           {"sparse", &sparse},   {"full", &full},       {"low", &low},
            {"single", &single},     {"d_owned", &d_owned}, {"d_ghost", &d_ghost}, {"d_all", &d_all},
            {"d_weight", &d_weight}, {"d_dense", &d_dense}, {"d_self", &d_self},   {"du", &du},
            {"d_sums", &d_sums}};
  }
};

class DeviceSampled : public OnBackend {
 protected:
  /// On the device; repeated requests return the same array.
  template <class T>
  void run(SampledProblem<T>& p) {
    OnDevice there(*device_);
    std::map<const void*, T*> places;
    p.run(Exec{GetParam(), 1, widest_isa(), device_.get()}, [&](std::vector<T>& values) {
      const auto [place, added] = places.try_emplace(&values, nullptr);
      if (added) place->second = there(values);
      return place->second;
    });
    there.fetch();
  }
};

TEST_P(DeviceSampled, EqualsTheHost) {
  for (const Size& s :
       {Size{2, 1, 1, 1, 1, 3}, Size{23, 3, 4, 1, 2, 50}, Size{41, 2, 3, 3, 1, 0}, Size{60, 2, 5, 4, 3, 131}})
    for (int part = 0; part < 3; ++part) {
      SCOPED_TRACE(std::to_string(s.n) + " part " + std::to_string(part));
      SampledProblem<double> truth(s, part), here(s, part);
      truth.run(Exec{}, [](std::vector<double>& values) { return values.data(); });
      run(here);
      for (std::size_t k = 0; k < truth.results().size(); ++k)
        dense_problem::expect_near(*here.results()[k].second, *truth.results()[k].second, 1e-13,
                                   here.results()[k].first);
      SampledProblem<float> once(s, part), again(s, part);
      run(once);
      run(again);
      for (std::size_t k = 0; k < once.results().size(); ++k)
        EXPECT_EQ(*once.results()[k].second, *again.results()[k].second) << once.results()[k].first;
    }
}

INSTANTIATE_TEST_SUITE_P(Simulated, DeviceSampled, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceSampled, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
