#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/kernels/exec.hpp"

namespace rossby {

/// Measured time of one call of an op.
struct OpSample {
  std::string op;  // as tapes count it, or as steps note it (BlockTrace::note)
  bool backward = false;
  std::string precision;    // model.precision
  int ranks = 1;            // that computed at the same time on the host
  int threads = 1;          // per rank
  Cost cost;                // of the call, without messages
  ValueShape made;          // last value made before the call (TracedOp)
  double footprint = 0;     // bytes that the step or validation around it touches (TracedOp)
  double seconds = 0;       // median over repeats
  double spread = 0;        // half the interquartile range over the median
  bool on_device = false;   // `seconds` are of its queue; `precision` may be tf32 or bf16
  double host_seconds = 0;  // on a device: host time to enqueue the call
};

/// Measured time of one message round of `ranks` ranks.
struct MessageSample {
  std::string kind;     // gather, scatter_add (halos), allgather, reduce_scatter (all rows), allreduce
  int ranks = 1;        // over all hosts
  int hosts = 1;        // of these ranks
  double messages = 0;  // sent by a rank
  double bytes = 0;     // in all messages of a rank
  double seconds = 0;   // median over repeats, of the slowest rank
  double spread = 0;
  std::string transport = "host";  // of the host's arrays; of a device's: staged (through the host), nccl
};

/// A hardware rate, with all ranks of a host active.
struct RateSample {
  std::string kind;  // stream (bytes/s of a triad), gemm (flop/s); bytes/s of files: disk_write, disk_read,
                     // and what the system keeps of them in memory, file_write, file_read; of a device:
                     // device_stream (bytes/s of a copy within it, read and written), device_gemm (flop/s),
                     // bytes/s to and from it: copy_in, copy_out of pageable memory, pinned_in, pinned_out,
                     // pinned_both (both directions at once, the sum)
  int ranks = 1;     // of the host
  int threads = 1;
  double size = 0;  // of a rank's working set in bytes; gemm: rows and columns
  double rate = 0;  // per rank
  double spread = 0;
};

/// How much longer the slowest of several ranks takes than their mean time.
struct StragglerSample {
  int ranks = 1;
  int hosts = 1;
  double factor = 1;
  bool on_device = false;
  double seconds = 0;  // mean time of ranks; 0: of any length
};

/// The devices of a host, all of one kind.
struct DeviceKind {
  std::string name;         // from the driver; empty: no device was measured
  int count = 0;            // per host
  double memory_bytes = 0;  // per device
  double wait_seconds = 0;  // that the host takes to wait for an idle device
  friend bool operator==(const DeviceKind&, const DeviceKind&) = default;
};

/// Speed-up factors over the measured machine; 1 is as measured.
struct FasterBy {
  double network = 1;   // bytes of messages
  double latency = 1;   // messages of few bytes
  double memory = 1;    // bandwidth, of the host and of devices
  double compute = 1;   // flops
  double transfer = 1;  // between the host and a device
};

/// Measurements of one machine (rossby calibrate), which predictions read. Nothing in it is fitted. JSON:
/// apps/schemas/machine.schema.json.
struct MachineProfile {
  std::string host;       // name of the first measured host
  std::string processor;  // its processor
  int cores = 1;          // per host
  double memory_bytes = 0;
  double process_bytes = 0;  // resident memory of a rank without a model
  double cut_bytes = 0;      // extra if several ranks have cut a graph: more library pages
  std::string date;          // of the last measurement, ISO 8601
  std::string version;       // of Rossby
  std::string mpi;           // of the MPI library
  std::string blas;          // its own description
  DeviceKind device;
  std::vector<OpSample> ops;
  std::vector<MessageSample> messages;
  std::vector<RateSample> rates;
  std::vector<StragglerSample> stragglers;
  FasterBy faster;  // what-if factors of `ops`; never in a file
};

/// Adds the measurements of `more`. If both measured the same thing at the same size, `more` counts; for
/// message rounds, over its whole range of sizes. Throws UserError if the machines differ in processor, cores
/// or devices.
void merge(MachineProfile& into, const MachineProfile& more);

/// Returns the rate of the largest working set measured with the nearest number of ranks; 0 if none was
/// measured.
[[nodiscard]] double rate_of(const MachineProfile& profile, const std::string& kind, int ranks);

[[nodiscard]] nlohmann::ordered_json json_of(const MachineProfile& profile);
/// Reads a profile; `origin` names the file in messages. Throws UserError if the JSON is not a profile.
[[nodiscard]] MachineProfile profile_of(const nlohmann::ordered_json& json, const std::string& origin);
[[nodiscard]] MachineProfile read_profile(const std::string& file);

}  // namespace rossby
