#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/base/stopwatch.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/plan/rates.hpp"
#include "rossby/run/calibration.hpp"
#include "rossby/run/device_choice.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/cuda_device.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby {
namespace {

/// Returns the median time in seconds of what `work` enqueues.
double time_queue(const Communicator& comm, Device& device, const std::function<void()>& work) {
  constexpr int repeats = 7;
  std::vector<double> times;
  work();
  device.wait();
  comm.barrier();
  for (int r = 0; r < repeats; ++r) {
    const Stopwatch begin;
    work();
    device.wait();
    times.push_back(begin.seconds());
  }
  return median_of(std::move(times));
}

void measure_copies(const Communicator& comm, Device& device, Index bytes, const AddRate& add) {
  DeviceDriver& driver = device.driver();
  const Buffer<std::byte> there(bytes, device);
  Buffer<std::byte> back(bytes, device), pageable(bytes), pinned = Buffer<std::byte>::pinned(bytes, device),
                                                          other = Buffer<std::byte>::pinned(bytes, device);
  std::fill_n(pageable.data(), bytes, std::byte{1});  // allocates the pages
  device.wait();
  const auto size = static_cast<std::size_t>(bytes);
  const auto amount = static_cast<double>(bytes);
  const auto time = [&](const char* kind, double moved, const std::function<void()>& work) {
    add(kind, amount, moved / time_queue(comm, device, work));
  };
  time("copy_in", amount, [&] { driver.copy_in(back.data(), pageable.data(), size); });
  time("copy_out", amount, [&] { driver.copy_out(pageable.data(), there.data(), size); });
  time("pinned_in", amount, [&] { driver.copy_in(back.data(), pinned.data(), size); });
  time("pinned_out", amount, [&] { driver.copy_out(pinned.data(), there.data(), size); });
  time("pinned_both", 2 * amount, [&] {
    driver.travel_in(back.data(), pinned.data(), size);
    driver.travel_out(other.data(), there.data(), size);
  });
  time("device_stream", 2 * amount, [&] { driver.copy_within(back.data(), there.data(), size); });
}

/// Returns values in [−1, 1): a prime number of random values, repeated.
std::vector<float> noise(Index size) {
  constexpr std::size_t period = 65'521;
  const Random random(1, "gemm");
  std::vector<float> values(static_cast<std::size_t>(size));
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = k < period ? static_cast<float>(2 * random.uniform(k) - 1) : values[k - period];
  return values;
}

void measure_products(const Communicator& comm, const Exec& exec, Index size, const AddRate& add) {
  Device& device = *exec.device;
  Buffer<float> a(size * size, device), b(size * size, device), c(size * size, device);
  // Zeros draw less power than a training's numbers, and would be multiplied at a higher clock.
  const std::vector<float> values = noise(size * size);
  device.upload(a.data(), std::span<const float>(values));
  device.upload(b.data(), std::span<const float>(values));
  const auto view = [&](Buffer<float>& of) { return MatrixView<float>(of.data(), size, size); };
  const auto n = static_cast<double>(size);
  constexpr int products = 4;
  const double seconds = time_queue(comm, device, [&] {
    for (int k = 0; k < products; ++k)
      matrix_product<float>(exec, view(c), Operand::plain, view(a), Operand::plain, view(b), false);
  });
  add("device_gemm", n, products * 2 * n * n * n / seconds);
}

/// Returns the seconds to wait for an idle device and to fetch the sums of a step from it.
double time_waiting(Device& device) {
  constexpr int waits = 101;
  std::vector<double> times;
  double sum = 0;
  for (int k = 0; k < waits; ++k) {
    (void)device.later(&sum);
    device.wait();
    const Stopwatch begin;
    device.settle();
    times.push_back(begin.seconds());
  }
  return median_of(std::move(times));
}

/// Returns the GPUs of a host: those that a rank sees or, if one each, those that ranks take. Collective.
int gpus_of_host(const Communicator& comm, const DeviceChoice& choice) {
  return std::max(cuda_devices().count, choice.gpus / hosts_of(comm));
}

}  // namespace

void measure_device(const Communicator& comm, const CalibrationOptions& options, MachineProfile& profile) {
  const std::vector<std::string> sets{"parallel.device=" + options.device,
                                      "parallel.products=" + options.products};
  const DeviceChoice choice = choose_device(comm, Config().with(sets));
  Device& device = *choice.device;
  Exec exec;
  exec.backend = choice.backend;
  exec.device = &device;
  const bool small = options.quick || choice.backend == Backend::simulated;
  double wait = time_waiting(device);
  MpiReducer reducer(comm);
  reducer.sum(std::span<double>(&wait, 1));
  profile.device = {device.driver().name(),
                    choice.backend == Backend::cuda ? gpus_of_host(comm, choice) : profile.cores,
                    static_cast<double>(device.driver().total_bytes()), wait / comm.size()};
  const AddRate add{comm, options.threads, profile};
  measure_copies(comm, device, Index{1} << (small ? 20 : 28), add);
  for (const Index size : {64, 512, 4096, 8192})
    if (!small || size == 64) measure_products(comm, exec, size, add);
}

}  // namespace rossby
