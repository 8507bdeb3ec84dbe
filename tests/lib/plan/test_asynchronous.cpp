#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/plan/asynchronous.hpp"

// The law of asynchronous training against the simulation of its two loops, and both against hand counts.

namespace rossby {
namespace {

/// Times with this mean and coefficient of variation (gamma-like: never below a tenth).
std::vector<double> times(double mean, double variation, std::uint64_t seed) {
  const Random random(seed, "times");
  std::vector<double> values;
  for (std::uint64_t k = 0; k < 500; ++k)
    values.push_back(mean * std::max(0.1, 1 + variation * random.normal(k)));
  const double is = std::accumulate(values.begin(), values.end(), 0.0) / 500;
  for (double& value : values) value *= mean / is;
  return values;
}

/// Bins of a quarter of the standard deviation, because an epoch has too few updates for hundreds of values.
Shares in_bins(const Shares& shares, const Shares& like) {
  double squares = 0;
  const double mean = mean_of(like);
  for (std::size_t k = 0; k < like.size(); ++k)
    squares += like[k] * std::pow(static_cast<double>(k) - mean, 2);
  const auto width = std::max<std::size_t>(1, static_cast<std::size_t>(std::sqrt(squares) / 4));
  Shares bins;
  for (std::size_t k = 0; k < shares.size(); ++k) {
    if (k / width >= bins.size()) bins.push_back(0);
    bins[k / width] += shares[k];
  }
  return bins;
}

void expect_near(const AsyncQuestion& question, const std::string& of) {
  const AsyncStatistics law = asynchronous_law(question), simulated = simulate_asynchronous(question, false);
  const double batch = mean_of(simulated.mini_batch), staleness = mean_of(simulated.staleness);
  EXPECT_NEAR(mean_of(law.mini_batch), batch, 0.02 * batch) << of;
  EXPECT_NEAR(mean_of(law.staleness), staleness, 0.02 * staleness) << of;
  EXPECT_NEAR(law.epoch_seconds, simulated.epoch_seconds, 0.02 * simulated.epoch_seconds) << of;
  EXPECT_NEAR(law.updates, simulated.updates, 0.02 * simulated.updates) << of;
  EXPECT_LT(
      total_variation(in_bins(law.mini_batch, law.mini_batch), in_bins(simulated.mini_batch, law.mini_batch)),
      0.05)
      << of;
  EXPECT_LT(
      total_variation(in_bins(law.staleness, law.staleness), in_bins(simulated.staleness, law.staleness)),
      0.05)
      << of;
}

/// Enough sub-batches for sharp statistics of updates, few enough for a test.
Index sub_batches(double update_seconds, double updates = 6000) {
  return static_cast<Index>(updates * update_seconds);
}

TEST(AsynchronousLaw, AgreesWithTheSimulation) {
  for (const Index workers : {16, 64, 512})
    for (const double q : {0.05, 0.4, 1.3}) {
      AsyncQuestion question;
      question.workers = {{workers, times(1, 0.15, 1), std::max<Index>(sub_batches(q), 300)}};
      question.update_seconds = times(q, 0.2, 2);
      question.repeats = true;
      expect_near(question, std::to_string(workers) + " workers, q = " + std::to_string(q));
    }
}

// Ranks that rest while no gradient waits join an update late, which then has more gradients.
TEST(AsynchronousLaw, AgreesIfRanksRest) {
  for (const Index workers : {16, 64})
    for (const double q : {0.02, 0.1}) {
      AsyncQuestion question;
      question.workers = {{workers, times(1, 0.15, 1), std::max<Index>(sub_batches(q), 500)}};
      question.update_seconds = times(q, 0.2, 2);
      question.repeats = true;
      question.shortest_rest = 0.01;
      question.longest_rest = 0.05;
      question.empty_seconds = 0.01;
      expect_near(question, std::to_string(workers) + " resting workers, q = " + std::to_string(q));
    }
}

TEST(AsynchronousLaw, AgreesForUnevenWorkers) {
  for (const Index workers : {16, 64, 512}) {
    AsyncQuestion question;
    question.workers = {{workers / 2, times(1, 0.15, 1), sub_batches(0.6, 2000)},
                        {workers / 4, times(1.5, 0.1, 2), sub_batches(0.6, 2000)},
                        {workers / 4, times(3, 0.2, 3), sub_batches(0.6, 2000)}};
    question.update_seconds = times(0.6, 0.2, 4);
    for (const bool repeats : {false, true}) {
      // At the end only four slow workers of 16 are left: too few for independent phases.
      if (workers == 16 && !repeats) continue;
      question.repeats = repeats;
      expect_near(question,
                  std::to_string(workers) + (repeats ? " uneven workers that repeat" : " uneven workers"));
    }
  }
}

TEST(AsynchronousLaw, OfTimesThatDoNotVaryIsThatOfSprint) {
  AsyncQuestion question;
  question.workers = {{4, {1.0}, 100}};
  question.update_seconds = {2.25};
  const AsyncStatistics law = asynchronous_law(question);
  // Each worker finishes two sub-batches in an update, and three in a quarter of the updates.
  EXPECT_NEAR(mean_of(law.mini_batch), 4 * 2.25, 1e-9);
  EXPECT_NEAR(law.mini_batch.at(8), std::pow(0.75, 4), 1e-9);
  EXPECT_NEAR(law.mini_batch.at(12), std::pow(0.25, 4), 1e-9);
  // r = 1 / 2.25 is the probability that one more update is published while a gradient is computed.
  EXPECT_NEAR(mean_of(law.staleness), 1 + 1 / 2.25, 0.01);
  EXPECT_EQ(law.staleness.at(0), 0);
  EXPECT_NEAR(law.staleness.at(2), 1 / 2.25, 0.01);
  EXPECT_NEAR(law.epoch_seconds, 102.25, 1e-9);
}

TEST(AsynchronousLaw, OneWorkerHasMiniBatchesOfOne) {
  AsyncQuestion question;
  question.workers = {{1, times(1, 0.1, 1), 50}};
  question.update_seconds = times(0.2, 0.1, 2);
  for (const AsyncStatistics& s : {asynchronous_law(question), simulate_asynchronous(question)}) {
    EXPECT_NEAR(mean_of(s.mini_batch), 1, 1e-9);
    EXPECT_NEAR(mean_of(s.staleness), 1, 0.03) << "the first gradient is not stale";
    EXPECT_NEAR(s.updates, 50, 1);
  }
}

TEST(AsynchronousSimulation, CountsWhatCanBeCountedByHand) {
  // Two workers of 1 s and 3 s, updates of 1.5 s. Gradients end at 1, 2, 3, 3, 6; updates begin at 1, 2.5, 4.
  AsyncQuestion question;
  question.workers = {{1, {1.0}, 3}, {1, {3.0}, 2}};
  question.update_seconds = {1.5};
  const AsyncStatistics s = simulate_asynchronous(question);
  EXPECT_EQ(s.updates, 4);
  // {1}, {2}, {3, 3}, {6}: versions read are 0, 0, 0, 0, and 1 of the last (published at 2.5, read at 3).
  EXPECT_EQ(s.mini_batch, (Shares{0, 0.75, 0.25}));
  EXPECT_EQ(s.staleness, (Shares{0.2, 0.2, 0.6}));
  EXPECT_DOUBLE_EQ(s.epoch_seconds, 7.5);
}

TEST(AsynchronousSimulation, UpdatesBeginWhenRestingRanksJoin) {
  AsyncQuestion question;
  question.workers = {{1, {1.0}, 2}, {1, {1.3}, 1}};
  question.update_seconds = {0.5};
  question.shortest_rest = 0.25;
  question.longest_rest = 0.5;
  question.empty_seconds = 0.05;
  // Rests end at 0.25, 0.8, 1.35. The first update takes the gradients of 1 and 1.3, and is published at
  // 1.85. The second gradient of the first worker arrives at 2, during the rest until 2.1.
  const AsyncStatistics s = simulate_asynchronous(question);
  EXPECT_EQ(s.mini_batch, (Shares{0, 0.5, 0.5}));
  EXPECT_NEAR(s.epoch_seconds, 2.6, 1e-12);
}

TEST(AsynchronousSimulation, EpochsAreAveraged) {
  AsyncQuestion question;
  question.workers = {{5, times(1, 0.3, 1), 6}};
  question.update_seconds = {0.1};
  const AsyncStatistics all = simulate_epochs(question, 20);
  double seconds = 0, updates = 0;
  for (; question.seed <= 20; ++question.seed) {
    const AsyncStatistics one = simulate_asynchronous(question);
    seconds += one.epoch_seconds;
    updates += one.updates;
  }
  EXPECT_NEAR(all.epoch_seconds, seconds / 20, 1e-9);
  EXPECT_NEAR(all.updates, updates / 20, 1e-9);
  EXPECT_NEAR(mean_of(all.mini_batch), 30 * 20 / updates, 1e-9) << "each sub-batch is in one update";
}

// Without jitter, workers that begin together end together: each update takes all gradients. A law of
// independent phases cannot predict this.
TEST(AsynchronousSimulation, PhasesLockWithoutJitter) {
  AsyncQuestion question;
  question.workers = {{16, {1.0}, 50}};
  question.update_seconds = {0.4};
  const AsyncStatistics s = simulate_asynchronous(question);
  EXPECT_EQ(s.mini_batch.at(15), 0.5) << "one begins the update, the others come at the same moment";
  EXPECT_GT(total_variation(s.mini_batch, asynchronous_law(question).mini_batch), 0.9);
}

TEST(AsynchronousLaw, RefusesTimesThatAreNone) {
  AsyncQuestion question;
  question.workers = {{2, {1.0}, 10}};
  EXPECT_THROW((void)asynchronous_law(question), UserError);
  question.update_seconds = {0.0};
  EXPECT_THROW((void)simulate_asynchronous(question), UserError);
  question.update_seconds = {NAN};
  EXPECT_THROW((void)asynchronous_law(question), UserError);
}

}  // namespace
}  // namespace rossby
