#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// What of a machine is measured, and where that is kept. The same on every rank.
struct CalibrateOptions {
  std::string output;                // file (JSON) to write, or to add to
  std::vector<std::string> configs;  // TOML files: trainings that are measured beside the small ones
  std::vector<std::string> sets;     // key=value, for these
  std::string precision = "float";   // of the small trainings: float, double, tf32, bf16
  std::string device = "auto";       // measured beside the host: auto, none, cuda, simulated
  bool quick = false;                // a few small cases for a moment each
  std::vector<std::string> only;     // of ops, messages, rates, device; empty: all of them
  bool replace = false;              // what the file holds, instead of adding to it

  /// Whether `what`, one of `only`, of the host is measured.
  [[nodiscard]] bool wants(const char* what) const;
};

/// What was measured; the file may hold more.
struct Calibrated {
  MachineProfile profile;
  int threads = 1;     // of a rank
  std::string device;  // that was measured, too; empty: none
  double seconds = 0;  // that it took
  double apart = 0;    // by which rounds of a training differ (measure_ops)
};

/// Measures this machine under all ranks of `comm`, for plans, and writes options.output. Throws UserError on
/// every rank: before minutes of measuring, if that file cannot be written afterwards. Collective.
Calibrated calibrate(const Communicator& comm, const CalibrateOptions& options);

}  // namespace rossby
