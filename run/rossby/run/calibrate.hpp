#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/plan/machine_profile.hpp"

namespace rossby {

/// Options of `rossby calibrate`. The same on every rank.
struct CalibrateOptions {
  std::string output;                // JSON file to write or to extend
  std::vector<std::string> configs;  // TOML files of trainings to measure beside the small ones
  std::vector<std::string> sets;     // key=value, for `configs`
  std::string precision = "float";   // of the small trainings: float, double, tf32, bf16
  std::string device = "auto";       // device to measure beside the host: auto, none, cuda, simulated
  bool quick = false;                // a few small cases, each measured briefly
  std::vector<std::string> only;     // parts to measure: ops, messages, rates, device; empty: all
  bool replace = false;              // replace the content of the file instead of adding to it

  /// True if `what`, a part as in `only`, is measured on the host.
  [[nodiscard]] bool wants(const char* what) const;
};

/// The new measurements; the file may hold more.
struct Calibrated {
  MachineProfile profile;
  int threads = 1;     // of a rank
  std::string device;  // name of the measured device; empty: none
  double seconds = 0;  // time that calibration took
  double apart = 0;    // relative difference between rounds of a training (measure_ops)
};

/// Measures this machine for plans, on all ranks of `comm`, and writes options.output. Throws UserError on
/// every rank. It does so before minutes of measuring if that file cannot be written. Collective.
Calibrated calibrate(const Communicator& comm, const CalibrateOptions& options);

}  // namespace rossby
