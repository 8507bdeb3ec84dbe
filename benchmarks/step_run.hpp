#pragma once

#include <array>
#include <string>
#include <vector>

#include "benchmarks/machine.hpp"
#include "benchmarks/sampler.hpp"
#include "benchmarks/step_problem.hpp"

namespace rossby::bench {

/// What was measured of the batches of one pass; times are medians over batches, the slowest rank's.
struct PassResult {
  StepTime time;
  double best_seconds = 0;                  // of the quickest batch
  double ahead_seconds = 0;                 // on a device: a batch, as a training makes them
  double floor_seconds = 0;                 // computing and travelling side by side; the slowest rank's
  double cache_floor_seconds = 0;           // 0: no cache holds the state
  double batches = 0;                       // of a whole epoch
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
  double settle_seconds = 0;  // of an epoch: updates that steps had put off, made up for at its end
  bool extrapolated = false;  // only some batches of an epoch were run
  double node_steps_per_second = 0;
  double peak_rss_bytes = 0;      // of all ranks together
  double peak_rss_bytes_max = 0;  // of the largest rank
  double setup_seconds = 0;
  double final_loss = 0;  // of the last dynamics batch
};

/// Largest relative difference of the losses of two epochs between the small version of a case on `exec` in
/// float and on the reference kernels in double (float where relations are in bf16). Collective.
[[nodiscard]] double check_case(const StepCase& item, Ranks& ranks, const Exec& exec);

/// Runs `epochs` epochs, the first of which is not measured. `sampler` (may be null) samples the measured
/// ones. Collective.
[[nodiscard]] CaseResult measure_case(const StepCase& item, Ranks& ranks, const Exec& exec, int epochs,
                                      Machine& machine, Sampler* sampler);

/// Memory of this process: largest resident size since the last `forget_peak`, bytes.
[[nodiscard]] double peak_resident_bytes_since();
void forget_peak();

}  // namespace rossby::bench
