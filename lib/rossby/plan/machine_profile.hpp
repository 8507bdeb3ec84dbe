#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/autograd/block_trace.hpp"
#include "rossby/kernels/exec.hpp"

namespace rossby {

/// What one call of an op took on a machine.
struct OpSample {
  std::string op;  // as tapes count it, or as steps note it (BlockTrace::note)
  bool backward = false;
  std::string precision;    // model.precision
  int ranks = 1;            // that computed at the same time on the host
  int threads = 1;          // of each
  Cost cost;                // of the call, without messages
  ValueShape made;          // the value that was made last before it (TracedOp)
  double footprint = 0;     // bytes that the step or validation around it touches (TracedOp)
  double seconds = 0;       // median over repeats
  double spread = 0;        // half the distance of the quartiles over the median
  bool on_device = false;   // then `seconds` are those of its queue, and `precision` may be tf32 or bf16
  double host_seconds = 0;  // and these are what the host took to enqueue it
};

/// What one message round took: every rank of `ranks` took part.
struct MessageSample {
  std::string kind;     // gather, scatter_add (halos), allgather, reduce_scatter (all rows), allreduce
  int ranks = 1;        // over all hosts
  int hosts = 1;        // that they ran on
  double messages = 0;  // that a rank sends
  double bytes = 0;     // in all of them together
  double seconds = 0;   // median over repeats, of the slowest rank
  double spread = 0;
  std::string transport = "host";  // of arrays there; of a device's: staged through the host's memory, nccl
};

/// A rate of the hardware under all ranks of a host at once.
struct RateSample {
  std::string kind;  // stream (bytes/s of a triad), gemm (flop/s); bytes/s of files: disk_write, disk_read,
                     // and what the system keeps of them in memory, file_write, file_read; of a device:
                     // device_stream (bytes/s of a copy within it, read and written), device_gemm (flop/s),
                     // bytes/s to and from it: copy_in, copy_out of pageable memory, pinned_in, pinned_out,
                     // pinned_both (both directions at once, the sum)
  int ranks = 1;     // of the host
  int threads = 1;
  double size = 0;  // bytes of the working set a rank; gemm: rows and columns
  double rate = 0;  // of one rank
  double spread = 0;
};

/// How much longer what several ranks do at a time takes than the mean of their own times: the slowest one
/// counts.
struct StragglerSample {
  int ranks = 1;
  int hosts = 1;
  double factor = 1;
  bool on_device = false;
  double seconds = 0;  // that they take, on average; 0: of any length
};

/// The devices of a host, all of one kind.
struct DeviceKind {
  std::string name;         // as its driver says it; empty: nothing was measured on one
  int count = 0;            // of a host
  double memory_bytes = 0;  // of one
  double wait_seconds = 0;  // that the host takes to wait for one that has nothing left to do
};

/// How many times as fast as measured a machine is taken to be; 1: as it was.
struct FasterBy {
  double network = 1;   // bytes of messages
  double latency = 1;   // messages of hardly any bytes
  double memory = 1;    // bandwidth, of the host and of devices
  double compute = 1;   // flops
  double transfer = 1;  // between the host and a device
};

/// Measurements of one machine (rossby calibrate), which predictions read. Everything in it was measured:
/// nothing is fitted. JSON: apps/schemas/machine.schema.json.
struct MachineProfile {
  std::string host;       // name of the first host that was measured
  std::string processor;  // its processor
  int cores = 1;          // of a host
  double memory_bytes = 0;
  double process_bytes = 0;  // resident memory of a rank that holds no model
  double cut_bytes = 0;      // beyond that of one of several that have cut a graph: pages of more libraries
  std::string date;          // of the last measurement, ISO 8601
  std::string version;       // of Rossby
  std::string mpi;           // of the MPI library
  std::string blas;          // what it says of itself
  DeviceKind device;
  std::vector<OpSample> ops;
  std::vector<MessageSample> messages;
  std::vector<RateSample> rates;
  std::vector<StragglerSample> stragglers;
  FasterBy faster;  // what is asked of `ops` (what_if); never in a file
};

/// Adds what `more` has measured; what both have measured (the same thing at the same size) is taken from
/// `more`, of message rounds all sizes from the smallest to the largest of it. Throws UserError where they
/// are not of one kind of machine: processor, cores, devices.
void merge(MachineProfile& into, const MachineProfile& more);

/// The rate of the largest working set that was measured under the nearest number of ranks; 0: none.
[[nodiscard]] double rate_of(const MachineProfile& profile, const std::string& kind, int ranks);

[[nodiscard]] nlohmann::ordered_json json_of(const MachineProfile& profile);
/// `origin` stands for the file in messages. Throws UserError where it is no profile.
[[nodiscard]] MachineProfile profile_of(const nlohmann::ordered_json& json, const std::string& origin);
[[nodiscard]] MachineProfile read_profile(const std::string& file);

}  // namespace rossby
