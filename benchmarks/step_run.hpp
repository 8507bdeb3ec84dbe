#pragma once

#include <array>
#include <string>
#include <vector>

#include "benchmarks/machine.hpp"
#include "benchmarks/sampler.hpp"
#include "benchmarks/step_problem.hpp"

namespace rossby::bench {

/// Measurements of the batches of one pass. Times are medians over batches, of the slowest rank.
struct PassResult {
  StepTime time;
  double best_seconds = 0;         // of the quickest batch
  double ahead_seconds = 0;        // on a device: per batch, with steps that run ahead as in training
  double floor_seconds = 0;        // computing and transfers overlap; the slowest rank's
  double cache_floor_seconds = 0;  // 0: no cache holds the state
  double batches = 0;              // of a whole epoch
  StepProblem<float>::Travelled travelled;  // of this rank, in one step: to the device and back
  double exchange_bytes = 0;                // sent by all ranks in one step, ghosts and reductions
  Work work;                                // of this rank
  struct Op {
    std::string name;
    Cost cost;  // of one step on this rank, as the tape counts it
    double calls = 0;
  };
  std::vector<Op> ops;
};

struct CaseResult {
  std::array<PassResult, 2> pass;  // decoder, dynamics
  double epoch_seconds = 0;
  double best_epoch_seconds = 0;
  double settle_seconds = 0;  // per epoch: late updates at its end
  bool extrapolated = false;  // only some batches of an epoch were run
  double node_steps_per_second = 0;
  double peak_rss_bytes = 0;      // of all ranks together
  double peak_rss_bytes_max = 0;  // of the largest rank
  double setup_seconds = 0;
  double final_loss = 0;  // of the last dynamics batch
};

/// Returns the largest relative difference between losses of two epochs: the small version of a case on
/// `exec` in float, and on the reference kernels in double (float if relations are in bf16). Collective.
[[nodiscard]] double check_case(const StepCase& item, Ranks& ranks, const Exec& exec);

/// Runs `epochs` epochs and measures all but the first one. `sampler` (may be null) samples the measured
/// ones. Collective.
[[nodiscard]] CaseResult measure_case(const StepCase& item, Ranks& ranks, const Exec& exec, int epochs,
                                      Machine& machine, Sampler* sampler);

/// Returns the largest resident size of this process since the last `forget_peak`, in bytes.
[[nodiscard]] double peak_resident_bytes_since();
void forget_peak();

}  // namespace rossby::bench
