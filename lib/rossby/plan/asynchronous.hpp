#pragma once

#include <cstdint>
#include <vector>

#include "rossby/base/index.hpp"

// Statistics of asynchronous training before it runs. Each worker trains on sub-batches, one after the other;
// one loop sums the gradients that are there, updates the weights and publishes them. Oyama et al. (SPRINT,
// IEEE Big Data 2016) predict the size of mini-batches and the staleness of gradients from the ratio of both
// times; here the loop waits for a gradient where there is none, instead of making an empty update, and both
// times vary.

namespace rossby {

/// Workers that are alike.
struct AsyncWorkers {
  Index count = 1;
  std::vector<double> seconds;  // that a sub-batch took, or may take: equally likely
  Index sub_batches = 0;        // of each worker in an epoch
};

struct AsyncQuestion {
  std::vector<AsyncWorkers> workers;
  std::vector<double> update_seconds;  // from summing gradients to publishing weights: equally likely
  bool repeats = false;                // train.uneven: all go on until they have done them all together
  /// While nothing waits for an update, ranks rest: `shortest_rest` seconds, then twice as long, up to
  /// `longest_rest`, with a round of `empty_seconds` in between. An update begins when all have joined it.
  double shortest_rest = 0, longest_rest = 0, empty_seconds = 0;
  std::uint64_t seed = 1;  // of what is drawn
};

/// Shares of 0, 1, 2, …
using Shares = std::vector<double>;
[[nodiscard]] double mean_of(const Shares& shares);
/// Half the sum of absolute differences.
[[nodiscard]] double total_variation(const Shares& a, const Shares& b);

struct AsyncStatistics {
  double epoch_seconds = 0;
  double updates = 0;  // in an epoch
  Shares mini_batch;   // of updates, by sub-batches that they take
  Shares staleness;    // of sub-batches
};

/// The law: worker w finishes N_w(u) sub-batches in an update of u seconds, a renewal process in equilibrium
/// (without jitter floor(q) + Bernoulli(frac q), q = u / its seconds); the mini-batch is
/// max(1, Σ_w N_w(u)). A gradient is as stale as updates are published while it is computed, and one more if
/// one is under way at its end. Workers that have done their sub-batches drop out.
///
/// It holds if the phases of workers are independent: their times have to vary, and there have to be more
/// than a few. Without jitter phases lock, and workers that begin an epoch together stay together for some (1
/// / (3 cv))² sub-batches. `simulate_asynchronous` tells what happens then.
[[nodiscard]] AsyncStatistics asynchronous_law(const AsyncQuestion& question);

/// An epoch of the two loops, event by event. Workers begin together, or at a random place of their first
/// sub-batch.
[[nodiscard]] AsyncStatistics simulate_asynchronous(const AsyncQuestion& question,
                                                    bool begin_together = true);

/// The mean of `epochs` of them, each with draws of its own: an epoch of few sub-batches is a matter of
/// chance.
[[nodiscard]] AsyncStatistics simulate_epochs(AsyncQuestion question, Index epochs);

}  // namespace rossby
