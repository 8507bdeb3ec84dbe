#pragma once

#include <map>
#include <span>
#include <string>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// A GPU as one rank sees it.
struct SeenDevice {
  std::string id;    // the same on all ranks that see it; unique on the host
  std::string name;  // of the model
};

struct DeviceBinding {
  int device = 0;                    // index among the devices that this rank sees
  int ranks = 1;                     // ranks that share it
  int most = 1;                      // most ranks on one GPU, over all ranks of the communicator
  std::map<std::string, int> kinds;  // GPUs in use, by name
};

/// Assigns a GPU to each rank. In the order of their numbers on a host, each rank takes the first visible GPU
/// with the fewest ranks so far. Ranks that see all GPUs of a host take turns. Ranks that see one each
/// (CUDA_VISIBLE_DEVICES, srun --gpus-per-task=1) take that one, whatever its number. Every rank must see at
/// least one. Collective.
[[nodiscard]] DeviceBinding bind_devices(const Communicator& comm, std::span<const SeenDevice> seen);

}  // namespace rossby
