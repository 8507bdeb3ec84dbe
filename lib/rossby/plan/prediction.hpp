#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/plan/op_times.hpp"
#include "rossby/plan/step_ops.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Where a training runs.
struct Place {
  int ranks = 1;  // total
  int hosts = 1;
  int threads = 1;                             // per rank
  int time_groups = 1;                         // of the ranks
  int stages = 1;                              // of a pipeline
  bool on_device = false;                      // each rank computes on a device
  std::string transport = "host";              // of arrays on a device (MessageSample)
  Transfer transfer = Transfer::pinned_async;  // of streamed chunks to a device
  [[nodiscard]] int ranks_on_host() const { return (ranks + hosts - 1) / hosts; }
};

/// Predicted time of a step by part, in seconds; means over the steps of an epoch.
struct Prediction {
  double forward = 0;  // ops, of the slowest rank
  double backward = 0;
  double optimiser = 0;
  double messages = 0;      // halos: the part that is not hidden behind ops
  double reduction = 0;     // sum over all ranks
  double summed_bytes = 0;  // of the reduction, as doubles
  double pipeline = 0;      // waiting for other stages
  double transfer = 0;      // chunks of streamed relations: the part that is not hidden behind ops
  double launches = 0;      // device only: host time to enqueue beyond compute time, and
                            // to wait for the device at the end
  double straggler = 0;     // excess of the slowest of equal ranks over their mean
  double imbalance = 0;     // largest compute time of a rank over the mean; 0: not all were traced
  Index epoch_steps = 0;
  double validation = 0;    // seconds per validation on the slowest rank, with its table catch-up
  double memory_bytes = 0;  // host memory of the largest rank; 0: unknown (on a device)
  double device_bytes = 0;  // of its device
  // Messages and bytes per step, summed over `sent_ranks` ranks: all of them, or the traced ones.
  double sent_messages = 0, sent_bytes = 0;
  int sent_ranks = 0;
  std::vector<EpochTraffic> sent_epochs;  // of all ranks, first epochs; none: unknown
  // Shares of the time of a step and of a validation in calls far (OpTimes::Answer, 1) from all measurements.
  double far_share = 0, validation_far_share = 0;
  /// Standard deviations of the logarithms of both times. They depend on how near and how noisy the
  /// measurements of similar calls are.
  double doubt = 0, validation_doubt = 0;
  std::vector<std::string> unmeasured;  // ops and messages between hosts without measurement
  std::vector<std::string> left_out;    // messages between ranks, stragglers, and ops without a
                                        // measured rate: they count as no time
  [[nodiscard]] double computing() const { return forward + backward + optimiser; }
  [[nodiscard]] double step() const {
    return computing() + messages + reduction + pipeline + transfer + launches + straggler;
  }
};

/// The parts of a step's time, by their names in files.
inline constexpr std::pair<const char*, double Prediction::*> step_parts[] = {
    {"forward", &Prediction::forward},     {"backward", &Prediction::backward},
    {"optimiser", &Prediction::optimiser}, {"messages", &Prediction::messages},
    {"reduction", &Prediction::reduction}, {"pipeline", &Prediction::pipeline},
    {"transfer", &Prediction::transfer},   {"launches", &Prediction::launches},
    {"straggler", &Prediction::straggler}};

/// Returns the interval that should contain nine of ten measurements, for a prediction of `seconds`.
[[nodiscard]] std::pair<double, double> interval_of(double seconds, double doubt);

/// Returns the doubt with this upper end of the interval.
[[nodiscard]] double doubt_of(double seconds, double upper);

/// Predicts a step in which the ranks in `ranks` (some or all) make these calls; the slowest rank counts.
/// With stages, all ranks with the same rows and times follow each other by stage; for a single rank, the
/// wait for other stages is unknown. Only the sequence of calls is modelled; their times are measured. `all`:
/// these are all ranks. On a device `times` are its own (Timed::device), and `launches` the host's times to
/// enqueue calls. The host runs ahead, so a step takes as long as the slower of the two.
[[nodiscard]] Prediction predict(const std::vector<StepOps>& ranks, const MachineProfile& profile,
                                 const OpTimes& times, const Place& place, bool all = false,
                                 const OpTimes* launches = nullptr);

/// Returns the seconds of one message round, from measurements with the most similar ranks and hosts: linear
/// in bytes, nearest in number of messages. Collectives of more ranks than measured start in more rounds
/// (their logarithm). An unmeasured transport counts as the host's.
[[nodiscard]] double message_seconds(const MachineProfile& profile, const std::string& kind,
                                     const Place& place, double messages, double bytes);

/// Returns the slowest rank's time over the mean time of the place's ranks, for a mean of `seconds`.
/// Interpolates linearly in the logarithm of time, for the nearest measured number of ranks. Returns 1 for
/// one rank, or if nothing was measured.
[[nodiscard]] double straggler_factor(const MachineProfile& profile, const Place& place, double seconds);

/// Returns the kind of message round of an op.
[[nodiscard]] std::string message_round_of(const TracedOp& op);

[[nodiscard]] nlohmann::ordered_json json_of(const Prediction& prediction);
[[nodiscard]] Prediction prediction_of(const nlohmann::ordered_json& json);

}  // namespace rossby
