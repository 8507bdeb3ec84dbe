#pragma once

#include "rossby/kernels/autotune.hpp"
#include "rossby/kernels/relate_dense.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// The place where a dense learned relation that streams to a device is updated: on the device, which also
/// moves its moments, or on the host, which moves its gradient.
enum class UpdatePlace { device, host };
[[nodiscard]] constexpr std::string_view to_string(UpdatePlace place) {
  return place == UpdatePlace::device ? "device" : "host";
}

/// The host must save a tenth, because only updates on the device are bit-equal to those of a resident
/// relation. Seconds are those of a chunk's share of a backward sweep.
using UpdatePlaceChoice = Choice<UpdatePlace>;
constexpr double must_save(UpdatePlace) {
  return 0.1;
}

/// Contents and manner of a chunk's transfer.
struct UpdatePlaceTrial {
  Index rows = 0;
  Index columns = 0;
  bool bf16 = false;    // W and its moments (T = float); gradients are T
  bool moment = false;  // beta1 ≠ 0: there are m and v
  Transfer transfer = Transfer::pinned_async;
};

/// Sends the data of a chunk of rows × columns weights to `exec.device` and back, and updates one on the
/// host, for some tens of milliseconds. Returns the seconds of each place without the computation of the
/// gradient. Ranks that will run side by side should try side by side.
template <class T>
[[nodiscard]] UpdatePlaceChoice try_update_places(const Exec& exec, const UpdatePlaceTrial& trial);

}  // namespace rossby
