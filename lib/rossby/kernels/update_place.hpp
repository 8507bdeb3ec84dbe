#pragma once

#include "rossby/kernels/autotune.hpp"
#include "rossby/kernels/relate_dense.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Where a dense learned relation that streams to a device is updated: there, its moments travelling too, or
/// on the host, to which its gradient travels.
enum class UpdatePlace { device, host };
[[nodiscard]] constexpr std::string_view to_string(UpdatePlace place) {
  return place == UpdatePlace::device ? "device" : "host";
}

/// The host has to save a tenth: on the device updates have the bits of a relation that lies there. Seconds
/// are those of a chunk's share of a backward sweep.
using UpdatePlaceChoice = Choice<UpdatePlace>;
constexpr double must_save(UpdatePlace) {
  return 0.1;
}

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

}  // namespace rossby
