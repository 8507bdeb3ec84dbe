#pragma once

#include "rossby/autograd/block_trace.hpp"
#include "rossby/plan/machine_profile.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Placement of the chunks of a job's streamed relations.
struct TransferPlace {
  int ranks_on_host = 1;
  int threads = 1;                        // of a rank
  double streamed_bytes = 0;              // of all relations and moments in files of a host
  double memory_bytes = 0;                // that ranks use on a host
  bool on_device = false;                 // between the host's memory and a device
  Transfer way = Transfer::pinned_async;  // to the device
};

/// Time that a step waits for chunks of streamed relations. A thread reads and writes files while kernels run
/// (lib/rossby/tensor/chunk_stream.hpp), so that an op takes
///
///     max(computing, moving, (computing + copying) on the cores that there are)
///
/// Copying is the processor's work for a transfer between memory and the system's copy of the file, at the
/// measured rates `file_read` and `file_write`. Moving is the same if the system can keep the files in
/// memory. If it cannot, moving has the rates of the disk for all reads, because the files are larger than
/// the memory that the ranks leave. For writes, it has the disk's rate for the share beyond the dirty pages
/// that Linux allows (vm.dirty_ratio, 20 %), because sweeps rewrite the files again and again.
///
/// For a device (lib/rossby/tensor/chunk_device.cpp), chunks that the host waits for add to the op's time.
/// Other chunks travel during the op, for the time of the slower direction or of both at their joint rate.
/// From pageable memory, the host copies one direction after the other.
class TransferTimes {
 public:
  TransferTimes(const MachineProfile& profile, const TransferPlace& place);

  /// Returns how much longer an op of `computing` seconds takes on a rank.
  [[nodiscard]] double waiting(double computing, const Moved& moved) const;
  /// True if the rates were measured; otherwise, nothing waits.
  [[nodiscard]] bool measured() const { return measured_; }

 private:
  [[nodiscard]] double waiting_for_device(double computing, const Moved& moved) const;

  Moved copy_, move_;    // seconds per byte, each way
  double together_ = 0;  // seconds per byte, both ways at once
  bool on_device_ = false;
  Transfer way_ = Transfer::pinned_async;
  double cores_ = 1;  // a rank's share of the host
  double busy_ = 1;   // cores of these that computing takes
  bool measured_ = false;
};

}  // namespace rossby
