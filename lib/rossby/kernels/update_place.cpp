#include "rossby/kernels/update_place.hpp"

#include <algorithm>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr int repeats = 3;

[[nodiscard]] bool beside(Transfer transfer) {
  return transfer == Transfer::pageable_async || transfer == Transfer::pinned_async;
}

/// Seconds in which `in` bytes go to the device while `out` bytes come back; one after the other if the host
/// waits.
double travel_seconds(Device& device, Transfer transfer, Index in, Index out) {
  const auto host = [&](Index bytes) {
    return pins(transfer) ? Buffer<std::byte>::pinned(bytes, device) : Buffer<std::byte>(bytes);
  };
  const Buffer<std::byte> from = host(in), there(in, device), back(out, device);
  Buffer<std::byte> to = host(out);
  DeviceDriver& driver = device.driver();
  device.wait();
  return least_seconds(repeats, [&] {
    if (beside(transfer)) {
      driver.travel_in(const_cast<std::byte*>(there.data()), from.data(), static_cast<std::size_t>(in));
      driver.travel_out(to.data(), back.data(), static_cast<std::size_t>(out));
    } else {
      driver.copy_in(const_cast<std::byte*>(there.data()), from.data(), static_cast<std::size_t>(in));
      driver.copy_out(to.data(), back.data(), static_cast<std::size_t>(out));
    }
    driver.wait();
  });
}

/// Seconds of the host's update of a chunk.
template <class T>
double update_seconds(const Exec& exec, const UpdatePlaceTrial& trial) {
  const Index size = trial.rows * trial.columns, wide = trial.bf16 ? 0 : size, narrow = trial.bf16 ? size : 0;
  Buffer<T> theta(wide), m(trial.moment ? wide : 0), v(wide), gradient(size);
  Buffer<Bf16> theta16(narrow), m16(trial.moment ? narrow : 0), v16(narrow);
  std::fill(theta.begin(), theta.end(), T(0.5));
  std::fill(v.begin(), v.end(), T(1e-4));
  std::fill(theta16.begin(), theta16.end(), round_nearest(0.5F));
  std::fill(v16.begin(), v16.end(), round_nearest(1e-4F));
  std::fill(gradient.begin(), gradient.end(), T(1e-3));
  DenseRelate<T> relate;
  relate.rows = trial.rows;
  relate.columns = trial.columns;
  relate.weight = trial.bf16 ? nullptr : theta.data();
  relate.bf16 = trial.bf16 ? theta16.data() : nullptr;
  relate.clamped = true;
  return least_seconds(repeats, [&] {
    DenseUpdate<T> update;
    update.theta = const_cast<T*>(relate.weight);
    update.m = trial.moment && !trial.bf16 ? m.data() : nullptr;
    update.v = trial.bf16 ? nullptr : v.data();
    if (trial.bf16) update.bf16 = {theta16.data(), trial.moment ? m16.data() : nullptr, v16.data(), {1, 0}};
    update.step.lr = 1e-6;
    update.step.beta1 = trial.moment ? 0.9 : 0;
    relate_dense_update<T>(on_host(exec), update, relate, gradient.data());
  });
}

}  // namespace

template <class T>
UpdatePlaceChoice try_update_places(const Exec& exec, const UpdatePlaceTrial& trial) {
  require(exec.device != nullptr, "places are tried with a device");
  const Index size = trial.rows * trial.columns;
  if (size == 0) return {};
  const Index stored = size * static_cast<Index>(trial.bf16 ? sizeof(Bf16) : sizeof(T));
  const Index gradient = size * static_cast<Index>(sizeof(T));
  const double arrays = trial.moment ? 3 : 2;
  UpdatePlaceChoice choice;
  choice.seconds[0] = arrays * travel_seconds(*exec.device, trial.transfer, stored, stored);
  const double travel = travel_seconds(*exec.device, trial.transfer, stored, gradient);
  const double update = update_seconds<T>(exec, trial);
  choice.seconds[1] = beside(trial.transfer) ? std::max(travel, update) : travel + update;
  return choice;
}

ROSSBY_FOR_SCALARS(try_update_places)

}  // namespace rossby
