#include "rossby/plan/transfers.hpp"

#include <algorithm>

namespace rossby {

TransferTimes::TransferTimes(const MachineProfile& profile, const TransferPlace& place) {
  constexpr double dirty_ratio = 0.2;
  const auto byte = [&](const char* kind) {
    const double rate = rate_of(profile, kind, place.ranks_on_host);
    return rate > 0 ? 1 / rate : 0;
  };
  if (place.on_device) {
    on_device_ = true;
    way_ = place.way;
    move_ =
        pins(way_) ? Moved{byte("pinned_in"), byte("pinned_out")} : Moved{byte("copy_in"), byte("copy_out")};
    together_ = byte("pinned_both");
    measured_ = move_.brought > 0 && move_.home > 0;
    return;
  }
  copy_ = {byte("file_read"), byte("file_write")};
  measured_ = copy_.brought > 0 && copy_.home > 0;
  const double left = std::max(profile.memory_bytes - place.memory_bytes, 0.0);
  const bool known = profile.memory_bytes > 0;
  const double waits = known ? std::min(dirty_ratio * left, place.streamed_bytes) : place.streamed_bytes;
  const double written = waits < place.streamed_bytes ? 1 - waits / place.streamed_bytes : 0;
  const bool reads_disk = known && place.streamed_bytes > left;
  move_ = {std::max(copy_.brought, reads_disk ? byte("disk_read") : 0),
           std::max(copy_.home, written * byte("disk_write"))};
  cores_ = static_cast<double>(profile.cores) / std::max(place.ranks_on_host, 1);
  busy_ = std::min(static_cast<double>(place.threads), cores_);
}

double TransferTimes::waiting_for_device(double computing, const Moved& moved) const {
  const double in = moved.brought * move_.brought, out = moved.home * move_.home;
  if (way_ == Transfer::pageable || way_ == Transfer::pinned) return in + out;
  const double travel = way_ == Transfer::pageable_async
                            ? in + out
                            : std::max({in, out, (moved.brought + moved.home) * together_});
  return std::max(travel, computing) - computing;
}

double TransferTimes::waiting(double computing, const Moved& moved) const {
  if (!measured_) return 0;
  if (on_device_) return waiting_for_device(computing, moved);
  const auto seconds = [&](const Moved& a_byte) {
    return moved.brought * a_byte.brought + moved.home * a_byte.home;
  };
  const double shared = (computing * busy_ + seconds(copy_)) / cores_;
  return std::max({seconds(move_), shared, computing}) - computing;
}

}  // namespace rossby
