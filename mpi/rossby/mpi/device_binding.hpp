#pragma once

#include <map>
#include <span>
#include <string>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// A GPU as one rank sees it.
struct SeenDevice {
  std::string id;    // the same on all ranks that see it, and no other GPU's of the host
  std::string name;  // of its kind
};

struct DeviceBinding {
  int device = 0;                    // which of those that this rank sees
  int ranks = 1;                     // that share it
  int most = 1;                      // ranks that share one, of all that the communicator's ranks use
  std::map<std::string, int> kinds;  // GPUs that they use, by name
};

/// Gives a GPU to each rank: in the order of their numbers on a host each takes the first one of those with
/// the fewest ranks so far among those that it sees. So ranks that see all of a host's GPUs take turns, and
/// ranks that see one each (CUDA_VISIBLE_DEVICES, srun --gpus-per-task=1) take that, whatever its number.
/// Every rank sees one or more. Collective.
[[nodiscard]] DeviceBinding bind_devices(const Communicator& comm, std::span<const SeenDevice> seen);

}  // namespace rossby
