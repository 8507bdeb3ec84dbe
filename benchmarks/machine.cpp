#include "benchmarks/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include <unistd.h>

#include "benchmarks/kernel_case.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby::bench {
namespace {

double cache_bytes(int name, double otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<double>(bytes) : otherwise;
}

}  // namespace

namespace {

double best_gemm(int threads, bool quick) {
  const std::vector<int> sizes = quick ? std::vector{256} : std::vector{512, 1024, 2048};
  double best = 0;
  for (const int size : sizes) best = std::max(best, measure_gemm(size, threads));
  return best;
}

}  // namespace

Machine::Machine(int threads, bool quick, int processes) : threads_(threads), quick_(quick) {
  const double l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 0);
  l2_ = {"L2", l2 * threads};
  l3_ = {"L3", cache_bytes(_SC_LEVEL3_CACHE_SIZE, 0) / processes};
  const double beyond = std::max(8 * std::max(l3_.bytes, l2_.bytes), 96.0 * 1024 * 1024);
  const double bytes = quick ? 24e6 : beyond;
  bandwidth_ = measure_stream(Stream::triad, bytes, threads, quick ? 0.01 : 0.5);
  read_ = measure_stream(Stream::read, bytes, threads, quick ? 0.01 : 0.2);
  update_ = measure_stream(Stream::update, bytes, threads, quick ? 0.01 : 0.2);
  gemm_ = best_gemm(threads, quick);
}

Cache Machine::cache_of(double working_set) const {
  if (working_set <= l2_.bytes) return l2_;
  if (working_set <= l3_.bytes) return l3_;
  return {};
}

double Machine::bandwidth_within(double working_set) {
  const int power = static_cast<int>(std::lround(std::log2(std::max(working_set, 4096.0))));
  auto found = within_.find(power);
  if (found == within_.end())
    found = within_
                .emplace(power, measure_stream(Stream::triad, std::ldexp(1.0, power), threads_,
                                               quick_ ? 0.005 : 0.1))
                .first;
  return found->second;
}

double Machine::floor_seconds(const Work& work) const {
  return std::max(work.bytes / bandwidth_, work.flops / gemm_);
}

double Machine::cache_floor_seconds(const Work& work) {
  return std::max(work.bytes / std::max(bandwidth_, bandwidth_within(work.working_set)), work.flops / gemm_);
}

namespace {

/// Returns the seconds of one of `repeats` calls that are enqueued together, the best of three tries.
template <class F>
double device_seconds(const Exec& exec, int repeats, const F& f) {
  double best = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt <= 3; ++attempt) {
    exec.device->wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int r = 0; r < repeats; ++r) f();
    exec.device->wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (attempt > 0) best = std::min(best, seconds / repeats);
  }
  return best;
}

}  // namespace

double measure_device_gemm(const Exec& exec, Index n, int repeats) {
  Buffer<float> a(n * n, *exec.device), b(n * n, *exec.device), c(n * n, *exec.device);
  // Zeros would draw less power and run at a higher clock.
  const Buffer<float> values = random_values<float>(n * n, "gemm");
  for (Buffer<float>* operand : {&a, &b}) exec.device->upload(operand->data(), values.span());
  const double seconds = device_seconds(exec, repeats, [&] {
    matrix_product<float>(exec, {c.data(), n, n}, Operand::plain, {a.data(), n, n}, Operand::plain,
                          {b.data(), n, n}, false);
  });
  return 2.0 * std::pow(static_cast<double>(n), 3) / seconds;
}

Machine Machine::of_device(const Exec& exec, bool quick) {
  Machine machine;
  machine.host_ = measure_stream(Stream::triad, quick ? 24e6 : 1e9, exec.threads, quick ? 0.01 : 0.5);
  const Index size = quick ? 1 << 12 : 1 << 26, n = quick ? 64 : 4096;
  const int repeats = quick ? 1 : 10;
  {
    Buffer<float> x(size, *exec.device), y(size, *exec.device);
    const NodeView<float> from(x.data(), 1, 1, size), to(y.data(), 1, 1, size);
    const auto bytes = 4.0 * static_cast<double>(size);
    machine.bandwidth_ =
        3 * bytes / device_seconds(exec, repeats, [&] { accumulate<float>(exec, to, 0.5F, from); });
    machine.update_ = 2 * bytes / device_seconds(exec, repeats, [&] { scale<float>(exec, to, 0.5F, to); });
    machine.read_ = machine.bandwidth_;
    Buffer<float> host = Buffer<float>::pinned(size, *exec.device);
    DeviceDriver& driver = exec.device->driver();
    const auto length = static_cast<std::size_t>(size) * sizeof(float);
    machine.copy_in_ =
        bytes / device_seconds(exec, repeats, [&] { driver.travel_in(x.data(), host.data(), length); });
    machine.copy_out_ =
        bytes / device_seconds(exec, repeats, [&] { driver.travel_out(host.data(), y.data(), length); });
  }
  machine.gemm_ = measure_device_gemm(exec, n, repeats);
  return machine;
}

}  // namespace rossby::bench
