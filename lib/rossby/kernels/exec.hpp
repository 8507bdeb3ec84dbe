#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/isa.hpp"
#include "rossby/tensor/products.hpp"

namespace rossby {

class Device;

/// The back end of a kernel and its resources; the first argument of every kernel.
enum class Backend {
  reference,  // plain loops: the truth, for tests
  cpu,        // OpenMP, BLAS, vector instructions
  simulated,  // GPU kernels run on the host, for tests (tensor/simulated_device.hpp)
  cuda        // a GPU
};

/// True if a back end's data lie on Exec::device. Host arrays that kernels take (lists of indices, constants
/// of updates) lie on the host with every back end.
[[nodiscard]] constexpr bool on_device(Backend backend) {
  return backend == Backend::simulated || backend == Backend::cuda;
}

struct Exec {
  Backend backend = Backend::cpu;
  int threads = 1;
  Isa isa = widest_isa();    // for the float kernels of the cpu back end (isa_of)
  Device* device = nullptr;  // null on back ends without a device
  // How the cpu back end computes wide products of floats (cpu/simd/bf16_product.hpp); devices have a setting
  // of their own.
  Products products = Products::model;
};

/// The same settings for host arrays, if a device runs the other kernels.
[[nodiscard]] constexpr Exec on_host(const Exec& exec) {
  return on_device(exec.backend) ? Exec{Backend::cpu, exec.threads, exec.isa} : exec;
}

/// True on the CPU back end, and while tracing it with a device that holds no memory.
[[nodiscard]] bool is_of_host(const Exec& exec);

/// Waits for sums that a device has not delivered yet (Device::settle); does nothing without a device.
void settle(const Exec& exec);

/// The work of an op, declared next to its code. The planner, benchmarks and profile regions read these
/// figures.
struct Cost {
  double flops = 0;     // multiply and add count as two
  double bytes = 0;     // unavoidable memory traffic: each operand once
  double messages = 0;  // sent by this rank
  double message_bytes = 0;
  constexpr Cost& operator+=(const Cost& other) {
    flops += other.flops;
    bytes += other.bytes;
    messages += other.messages;
    message_bytes += other.message_bytes;
    return *this;
  }
  friend constexpr bool operator==(const Cost&, const Cost&) = default;
};

}  // namespace rossby
