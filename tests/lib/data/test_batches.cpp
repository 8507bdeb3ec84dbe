#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/data/batches.hpp"
#include "rossby/exchange/one_rank.hpp"

namespace rossby {
namespace {

constexpr Index n = 13;
constexpr Index steps = 9;

/// The rows of one part. Every fifth value is missing.
Series make_series(const RowPartition& partition, int part, bool missing) {
  Series series(steps, partition.size(part), 1);
  const auto rows = partition.rows_of(part);
  for (Index t = 0; t < steps; ++t)
    for (std::size_t i = 0; i < rows.size(); ++i)
      series.at(t, static_cast<Index>(i), 0) = missing && (t * n + rows[i].value) % 5 == 0 ? NAN : 1.0f;
  return series;
}

const std::vector<Index> training{0, 1, 2, 5, 6, 7};  // one fold is held out
const std::vector<Index> pairs{1, 2, 6, 7};

TEST(Batches, PairsVisitEveryPairOnceAnEpochAtAnyRankCount) {
  for (const int parts : {1, 3}) {
    const RowPartition partition = RowPartition::blocks(n, parts);
    for (const Index epoch : {0, 1}) {
      std::map<Index, std::vector<std::pair<Index, Index>>> decoder, dynamics;  // by batch
      for (int part = 0; part < parts; ++part) {
        const Series series = make_series(partition, part, false);
        OneRankReducer reducer;
        BatchPlan plan({.pairs = true, .pairs_per_batch = 10, .seed = 3}, series, training, pairs, partition,
                       part, reducer);
        EXPECT_EQ(plan.batches(), 8 + 6);  // ⌈6·13/10⌉ + ⌈4·13/10⌉
        plan.start_epoch(epoch);
        for (Index b = 0; b < plan.batches(); ++b) {
          const Batch& batch = plan.batch(b);
          EXPECT_EQ(batch.pass, b < 8 ? Pass::decoder : Pass::dynamics);
          auto& list = (b < 8 ? decoder : dynamics)[b];
          for (std::size_t q = 0; q < batch.times.size(); ++q)
            list.emplace_back(batch.times[q],
                              partition.rows_of(part)[static_cast<std::size_t>(batch.rows[q])].value);
        }
      }
      std::set<std::pair<Index, Index>> seen;
      for (auto& [b, list] : decoder) {
        EXPECT_EQ(list.size(), b == 7 ? 8u : 10u);
        seen.insert(list.begin(), list.end());
      }
      EXPECT_EQ(seen.size(), 6u * 13u);
      seen.clear();
      for (auto& [b, list] : dynamics) seen.insert(list.begin(), list.end());
      EXPECT_EQ(seen.size(), 4u * 13u);
      for (const auto& [t, i] : seen)
        EXPECT_TRUE(std::count(pairs.begin(), pairs.end(), t)) << "step " << t << ", row " << i;
    }
  }
}

TEST(Batches, EpochsHaveOrdersOfTheirOwnAndSeedsToo) {
  const RowPartition partition = RowPartition::blocks(n, 1);
  const Series series = make_series(partition, 0, false);
  OneRankReducer reducer;
  const auto first_batch = [&](std::uint64_t seed, Index epoch) {
    BatchPlan plan({.pairs = true, .pairs_per_batch = 10, .seed = seed}, series, training, pairs, partition,
                   0, reducer);
    plan.start_epoch(epoch);
    return plan.batch(0).rows;
  };
  EXPECT_EQ(first_batch(1, 0), first_batch(1, 0));
  EXPECT_NE(first_batch(1, 0), first_batch(1, 1));
  EXPECT_NE(first_batch(1, 0), first_batch(2, 0));
}

TEST(Batches, SlabsCountWhatIsObserved) {
  const RowPartition partition = RowPartition::blocks(n, 1);
  const Series series = make_series(partition, 0, true);
  OneRankReducer reducer;
  BatchPlan plan({.slab_steps = 4}, series, training, pairs, partition, 0, reducer);
  plan.start_epoch(0);
  std::vector<Index> seen;
  for (Index b = 0; b < plan.batches(); ++b) {
    const Batch& batch = plan.batch(b);
    double observed = 0;
    for (const Index t : batch.times)
      for (Index i = 0; i < n; ++i) observed += std::isnan(series.at(t, i, 0)) ? 0 : 1;
    EXPECT_EQ(batch.observed, observed);
    if (batch.pass == Pass::decoder) seen.insert(seen.end(), batch.times.begin(), batch.times.end());
    const bool dynamics = batch.pass == Pass::dynamics;
    EXPECT_TRUE(!dynamics ||
                batch.targets == static_cast<double>(n * static_cast<Index>(batch.times.size())));
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, training);
}

TEST(Batches, PairsCountWhatIsObserved) {
  const RowPartition partition = RowPartition::blocks(n, 1);
  const Series series = make_series(partition, 0, true);
  OneRankReducer reducer;
  BatchPlan plan({.pairs = true, .pairs_per_batch = 7}, series, training, pairs, partition, 0, reducer);
  plan.start_epoch(2);
  double total = 0;
  for (Index b = 0; b < plan.batches() && plan.batch(b).pass == Pass::decoder; ++b)
    total += plan.batch(b).observed;
  double expected = 0;
  for (const Index t : training)
    for (Index i = 0; i < n; ++i) expected += std::isnan(series.at(t, i, 0)) ? 0 : 1;
  EXPECT_EQ(total, expected);
}

TEST(Batches, JointSlabsKnowWhichStepsHaveAPredecessor) {
  const RowPartition partition = RowPartition::blocks(n, 1);
  const Series series = make_series(partition, 0, false);
  OneRankReducer reducer;
  BatchPlan plan({.slab_steps = 0, .joint = true}, series, training, pairs, partition, 0, reducer);
  plan.start_epoch(0);
  ASSERT_EQ(plan.batches(), 1);
  const Batch& batch = plan.batch(0);
  EXPECT_EQ(batch.times, training);
  EXPECT_EQ(batch.predicted_times, pairs);
  EXPECT_EQ(batch.targets, 4.0 * n);
}

}  // namespace
}  // namespace rossby
