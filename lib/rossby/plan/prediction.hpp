#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/plan/op_times.hpp"
#include "rossby/plan/step_ops.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Where a training is to run.
struct Place {
  int ranks = 1;  // in all
  int hosts = 1;
  int threads = 1;                             // of a rank
  int time_groups = 1;                         // that the ranks are in
  int stages = 1;                              // of a pipeline
  bool on_device = false;                      // each rank computes on a device
  std::string transport = "host";              // of arrays there (MessageSample)
  Transfer transfer = Transfer::pinned_async;  // of chunks of relations that are streamed there
  [[nodiscard]] int ranks_on_host() const { return (ranks + hosts - 1) / hosts; }
};

/// What a step is predicted to take, by what it goes into; means over the steps of an epoch, in seconds.
struct Prediction {
  double forward = 0;  // ops, of the slowest rank
  double backward = 0;
  double optimiser = 0;
  double messages = 0;      // halos: what of them is not hidden behind ops
  double reduction = 0;     // the sum over all ranks
  double summed_bytes = 0;  // of it, as doubles
  double pipeline = 0;      // what it waits for other stages
  double transfer = 0;      // chunks of streamed relations: what of them is not hidden behind ops
  double launches = 0;   // on a device: what the host takes to enqueue more than that takes to compute, and
                         // to wait for it at the end
  double straggler = 0;  // what the slowest of equal ranks takes longer than their mean
  double imbalance = 0;  // most computing of a rank over the mean of the ranks; 0: not all were traced
  Index epoch_steps = 0;
  double validation = 0;    // seconds of one, on the slowest rank, with the tables that are caught up for it
  double memory_bytes = 0;  // of the host, of the rank that needs most; 0: not known (on a device)
  double device_bytes = 0;  // of its device
  // What a rank sends a step, summed over `sent_ranks` of the ranks: all of them, or those that were traced.
  double sent_messages = 0, sent_bytes = 0;
  int sent_ranks = 0;
  std::vector<EpochTraffic> sent_epochs;  // by all ranks together, of the first epochs; none: not known
  // Of the time of a step, and of a validation: of calls that are far (OpTimes::Answer, 1) from all that were
  // measured.
  double far_share = 0, validation_far_share = 0;
  /// Standard deviations of the logarithms of both times, from what was measured near their calls, how far
  /// that is, and how noisy.
  double doubt = 0, validation_doubt = 0;
  std::vector<std::string> unmeasured;  // ops, and messages between hosts, that were never measured
  std::vector<std::string> left_out;    // messages between ranks, how far these are apart, and ops without a
                                        // rate, never measured: they are taken to take no time
  [[nodiscard]] double computing() const { return forward + backward + optimiser; }
  [[nodiscard]] double step() const {
    return computing() + messages + reduction + pipeline + transfer + launches + straggler;
  }
};

/// What a step's time is made of, by the names in files.
inline constexpr std::pair<const char*, double Prediction::*> step_parts[] = {
    {"forward", &Prediction::forward},     {"backward", &Prediction::backward},
    {"optimiser", &Prediction::optimiser}, {"messages", &Prediction::messages},
    {"reduction", &Prediction::reduction}, {"pipeline", &Prediction::pipeline},
    {"transfer", &Prediction::transfer},   {"launches", &Prediction::launches},
    {"straggler", &Prediction::straggler}};

/// Nine measurements of ten are expected between these, of what is predicted to take `seconds`.
[[nodiscard]] std::pair<double, double> interval_of(double seconds, double doubt);
/// The doubt that has this upper end.
[[nodiscard]] double doubt_of(double seconds, double upper);

/// Predicts a step of which every rank in `ranks` (some or all of them: the slowest counts) makes these
/// calls. With stages, all those with the same rows and times follow each other, by stage; of one rank alone
/// what it waits for other stages is not known. Only how calls follow each other is modelled; what they take
/// was measured. `all`: these are all ranks. On a device `times` are its own (Timed::device), and `launches`
/// what the host takes to enqueue calls: it runs ahead, and a step takes as long as the slower of the two.
[[nodiscard]] Prediction predict(const std::vector<StepOps>& ranks, const MachineProfile& profile,
                                 const OpTimes& times, const Place& place, bool all = false,
                                 const OpTimes* launches = nullptr);

/// Seconds of one message round, between those that were measured with the most similar ranks and hosts:
/// along the bytes by straight lines, along the number of messages by the nearest. Collectives of more ranks
/// than were measured start in more rounds (their logarithm). Rounds of a transport that was not measured are
/// taken to be those of the host.
[[nodiscard]] double message_seconds(const MachineProfile& profile, const std::string& kind,
                                     const Place& place, double messages, double bytes);

/// How much longer than their mean the slowest of the place's ranks takes for what takes `seconds` on
/// average: between those that were measured with the nearest number of ranks, by straight lines along the
/// logarithm of time. 1 for one rank, or where nothing was measured.
[[nodiscard]] double straggler_factor(const MachineProfile& profile, const Place& place, double seconds);

/// Which kind of message round an op stands for.
[[nodiscard]] std::string message_round_of(const TracedOp& op);

[[nodiscard]] nlohmann::ordered_json json_of(const Prediction& prediction);

}  // namespace rossby
