#pragma once

#include <string>

#include "rossby/kernels/relate_dense.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Where a dense learned relation that streams to a device is updated: there, its moments travelling too, or
/// on the host, to which its gradient travels.
enum class UpdatePlace { device, host };
[[nodiscard]] std::string_view to_string(UpdatePlace place);

/// The quicker place, and what a chunk's share of a backward sweep took by either in the trial (0: not
/// tried).
struct UpdatePlaceChoice {
  UpdatePlace place = UpdatePlace::device;
  double device_seconds = 0;
  double host_seconds = 0;
};

/// One line: "host (device 5.1 ms a chunk, host 3.0 ms)".
[[nodiscard]] std::string to_string(const UpdatePlaceChoice& choice);

/// What travels of a chunk, and how.
struct UpdatePlaceTrial {
  Index rows = 0;
  Index columns = 0;
  bool bf16 = false;    // W and its moments (T = float); gradients are T
  bool moment = false;  // beta1 ≠ 0: there are m and v
  Transfer transfer = Transfer::pinned_async;
};

/// Sends what a chunk of rows × columns weights needs to `exec.device` and back, and updates one on the host,
/// for some tens of milliseconds: seconds of either place, what computes the gradient apart. Ranks that will
/// run side by side are to try side by side.
template <class T>
[[nodiscard]] UpdatePlaceChoice try_update_places(const Exec& exec, const UpdatePlaceTrial& trial);

/// The host has to win by a tenth: on the device updates have the bits of a relation that lies there.
void choose(UpdatePlaceChoice& choice);

}  // namespace rossby
