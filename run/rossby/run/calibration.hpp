#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/machine_profile.hpp"
#include "rossby/plan/step_ops.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// How long and on what a machine is measured.
struct CalibrationOptions {
  double case_seconds = 0.09;       // a small training, three times
  double ops_seconds = 45;          // all of them: less each, where the first round took too long
  int threads = 1;                  // of a rank
  std::string precision = "float";  // of the small trainings
  std::string device = "cpu";       // what they compute on: cpu, cuda, simulated (parallel.device)
  std::string products = "model";   // there (parallel.products)
  bool quick = false;               // a few cases for a moment: for tests
  std::string folder;               // for the small files that are made and removed
  std::vector<Config> own;          // trainings of the user's, measured beside the small ones
};

/// Times steps of a training on `own`, while all ranks of `together` time theirs. Collective over `together`.
[[nodiscard]] TimedOps time_training(const Communicator& together, const Communicator& own,
                                     const Config& config, double seconds,
                                     Purpose purpose = Purpose::training, WholeGraph* whole = nullptr);

/// What was timed, of steps and of validations, with so many ranks on a host.
[[nodiscard]] std::vector<OpSample> samples_of(const TimedOps& timed, const Config& config, int ranks,
                                               int threads);

/// What the steps of small trainings of every model take, by op: each rank trains on its own, all at the same
/// time, and the first one's calls count, in the round of median time. Adds the straggler that they are to
/// each other. Returns by what share steps of a training took longer in the slowest of its rounds, which are
/// some time apart, than in the quickest: the median over trainings; on a quiet machine next to nothing.
/// Collective.
double measure_ops(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// Resident memory of a rank after the first steps of a training that holds next to nothing: libraries, what
/// they keep, and the program; and what is added where several ranks cut a graph (MachineProfile).
/// Collective.
void measure_process(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// What message rounds take, over 2, 4, … and all ranks: of arrays of the host, or of the device that options
/// name. Collective.
void measure_messages(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// Memory bandwidth, products of matrices and the disk under all ranks at once. Collective.
void measure_rates(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// What the device is that options name, and its rates: within it, and to and from it. Under all ranks at
/// once. Collective.
void measure_device(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile);

/// This rank alone, which still knows whom it shares its host's devices with. Collective.
[[nodiscard]] Communicator alone_on_host(const Communicator& comm);

}  // namespace rossby
