#pragma once

#include <cstdint>
#include <vector>

#include "rossby/base/index.hpp"

// Predicts statistics of asynchronous training. Each worker trains on one sub-batch after another. One loop
// sums the available gradients, updates the weights and publishes them. Oyama et al. (SPRINT, IEEE Big Data
// 2016) predict mini-batch size and gradient staleness from the ratio of both times. Here the loop waits for
// a gradient instead of making an empty update, and both times vary.

namespace rossby {

/// Workers with equal properties.
struct AsyncWorkers {
  Index count = 1;
  std::vector<double> seconds;  // of a sub-batch, equally likely values
  Index sub_batches = 0;        // of each worker, per epoch
};

struct AsyncQuestion {
  std::vector<AsyncWorkers> workers;
  std::vector<double> update_seconds;  // from summing gradients to publishing weights, equally likely values
  bool repeats = false;                // train.uneven: workers go on until all sub-batches are done
  /// While no gradient waits, ranks rest: `shortest_rest` seconds, then twice as long, up to `longest_rest`,
  /// with a round of `empty_seconds` in between. An update begins when all ranks have joined it.
  double shortest_rest = 0, longest_rest = 0, empty_seconds = 0;
  std::uint64_t seed = 1;  // of random draws
};

/// Shares of the values 0, 1, 2, …
using Shares = std::vector<double>;
[[nodiscard]] double mean_of(const Shares& shares);
/// Half the sum of absolute differences.
[[nodiscard]] double total_variation(const Shares& a, const Shares& b);

struct AsyncStatistics {
  double epoch_seconds = 0;
  double updates = 0;  // per epoch
  Shares mini_batch;   // distribution of sub-batches per update
  Shares staleness;    // distribution over sub-batches
};

/// Predicts by a renewal law. In an update of u seconds, worker w finishes N_w(u) sub-batches, a renewal
/// process in equilibrium; without jitter, N_w(u) = floor(q) + Bernoulli(frac q), where q is u divided by its
/// seconds. The mini-batch is max(1, Σ_w N_w(u)). The staleness of a gradient is the number of updates
/// published while it is computed, plus one if an update is under way at its end. Workers that have done
/// their sub-batches drop out.
///
/// The law needs independent phases of workers: their times must vary, and there must be more than a few
/// workers. Without jitter, phases lock, and workers that start together stay together for about (1 / (3
/// cv))² sub-batches. `simulate_asynchronous` covers that case.
[[nodiscard]] AsyncStatistics asynchronous_law(const AsyncQuestion& question);

/// Simulates an epoch of the two loops, event by event. Workers begin together, or at a random point of their
/// first sub-batch.
[[nodiscard]] AsyncStatistics simulate_asynchronous(const AsyncQuestion& question,
                                                    bool begin_together = true);

/// Returns the mean of `epochs` simulations with independent draws, because an epoch of few sub-batches
/// varies by chance.
[[nodiscard]] AsyncStatistics simulate_epochs(AsyncQuestion question, Index epochs);

}  // namespace rossby
