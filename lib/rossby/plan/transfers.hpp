#pragma once

#include "rossby/autograd/block_trace.hpp"
#include "rossby/plan/machine_profile.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Where the chunks of a job's streamed relations travel.
struct TransferPlace {
  int ranks_on_host = 1;
  int threads = 1;                        // of a rank
  double streamed_bytes = 0;              // of all relations and moments that rest in files of a host
  double memory_bytes = 0;                // of a host that its ranks take
  bool on_device = false;                 // they travel between the host's memory and a device
  Transfer way = Transfer::pinned_async;  // there
};

/// What chunks of streamed relations make a step wait for. A thread reads and writes files beside the kernels
/// (lib/rossby/tensor/chunk_stream.hpp), so that an op takes
///
///     max(computing, moving, (computing + copying) on the cores that there are)
///
/// Copying is what the processor does for a transfer: between memory and the system's copy of the file, at
/// the measured rates `file_read`, `file_write`. Moving is the same where the system can keep the files in
/// memory, and at the rates of the disk where it cannot: all that is read, where the files are larger than
/// what the ranks leave of a host; of what is written, what passes the share of it that Linux lets wait for
/// the disk (vm.dirty_ratio, 20 %), as sweeps write all of it again and again.
///
/// To a device and back (lib/rossby/tensor/chunk_device.cpp) chunks that the host waits for add to an op.
/// Others travel beside it, as long as the slower direction takes, or both at what they reach together; from
/// pageable memory it is the host that copies, one direction after the other.
class TransferTimes {
 public:
  TransferTimes(const MachineProfile& profile, const TransferPlace& place);

  /// What an op of `computing` seconds takes longer on a rank.
  [[nodiscard]] double waiting(double computing, const Moved& moved) const;
  /// Whether the rates were measured; where not, nothing waits.
  [[nodiscard]] bool measured() const { return measured_; }
  /// Whether chunks come from the disk, or from what the system keeps of it.
  [[nodiscard]] bool reads_disk() const { return reads_disk_; }
  [[nodiscard]] bool writes_disk() const { return writes_disk_; }

 private:
  [[nodiscard]] double waiting_for_device(double computing, const Moved& moved) const;

  Moved copy_, move_;    // seconds a byte, each way
  double together_ = 0;  // seconds a byte to and from a device at once
  bool on_device_ = false;
  Transfer way_ = Transfer::pinned_async;
  double cores_ = 1;  // a rank's share of the host
  double busy_ = 1;   // cores of them that computing takes
  bool measured_ = false, reads_disk_ = false, writes_disk_ = false;
};

}  // namespace rossby
