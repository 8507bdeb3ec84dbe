#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/machine_profile.hpp"
#include "rossby/plan/step_ops.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// Settings of a measurement of a machine.
struct CalibrationOptions {
  double case_seconds = 0.09;       // per small training, three times
  double ops_seconds = 45;          // for all ops; less each if round 1 is slow
  int threads = 1;                  // per rank
  std::string precision = "float";  // of the small trainings
  std::string device = "cpu";       // of small trainings: cpu, cuda, simulated (parallel.device)
  std::string products = "model";   // of small trainings (parallel.products)
  bool quick = false;               // a few cases, briefly: for tests
  std::string folder;               // for small files, which are removed
  std::vector<Config> own;          // trainings of the user, measured too
};

/// Adds the mean of the ranks' rates to a profile. Ranks of one host measure at the same time. Collective.
struct AddRate {
  const Communicator& comm;
  int threads;
  MachineProfile& profile;
  void operator()(const char* kind, double size, double rate, double spread = 0) const;
};

/// Times steps of a training on `own`, while all ranks of `together` time theirs. Collective over `together`.
[[nodiscard]] TimedOps time_training(const Communicator& together, const Communicator& own,
                                     const Config& config, double seconds,
                                     Purpose purpose = Purpose::training, WholeGraph* whole = nullptr);

/// Returns the timed calls of steps and validations, measured with this number of ranks per host.
[[nodiscard]] std::vector<OpSample> samples_of(const TimedOps& timed, const Config& config, int ranks,
                                               int threads);

/// Measures the ops in steps of small trainings of every model. All ranks train at the same time, each its
/// own training. Calls of the first rank in the round of median time count. Also adds the straggler time
/// between ranks. Returns how much longer steps took in the slowest round than in the quickest, as a share:
/// the median over trainings. Rounds are some time apart, so a quiet machine gives nearly 0. Collective.
double measure_ops(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// Measures the resident memory of a rank after the first steps of a tiny training: program, libraries and
/// their caches. Also measures the extra memory if several ranks cut a graph (MachineProfile). Collective.
void measure_process(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// Times message rounds over 2, 4, … and all ranks, with arrays of the host or of the device in the options.
/// Collective.
void measure_messages(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// Measures memory bandwidth, matrix products and the disk, with all ranks busy at once. Collective.
void measure_rates(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// Records which device the options name, and its rates: on the device, and to and from it. All ranks run at
/// once. Collective.
void measure_device(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// Returns a communicator of this rank only, which still knows the ranks that share its host's devices.
/// Collective.
[[nodiscard]] Communicator alone_on_host(const Communicator& comm);

}  // namespace rossby
