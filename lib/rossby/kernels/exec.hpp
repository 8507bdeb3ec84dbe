#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/isa.hpp"
#include "rossby/tensor/products.hpp"

namespace rossby {

class Device;

/// How kernels run: the back end and its resources. Passed first to every kernel.
enum class Backend {
  reference,  // plain loops: the truth, for tests
  cpu,        // OpenMP, BLAS, vector instructions
  simulated,  // the kernels of a GPU run by the host, for tests (tensor/simulated_device.hpp)
  cuda        // a GPU
};

/// Whether a back end's data lie on Exec::device. Host arrays that kernels take (lists of indices, constants
/// of updates) lie on the host with every back end.
[[nodiscard]] constexpr bool on_device(Backend backend) {
  return backend == Backend::simulated || backend == Backend::cuda;
}

struct Exec {
  Backend backend = Backend::cpu;
  int threads = 1;
  Isa isa = widest_isa();    // of the cpu kernels for float (isa_of)
  Device* device = nullptr;  // of the back ends that have one
  // Wide products of floats on the cpu back end (cpu/simd/bf16_product.hpp); devices have their own setting.
  Products products = Products::model;
};

/// The same for arrays of the host, where a device runs the others.
[[nodiscard]] constexpr Exec on_host(const Exec& exec) {
  return on_device(exec.backend) ? Exec{Backend::cpu, exec.threads, exec.isa} : exec;
}

/// Whether the kernels of the host compute, or would: a trace of what these take has a device that is
/// addresses alone.
[[nodiscard]] bool is_of_host(const Exec& exec);

/// Waits for the sums that a device still owes (Device::settle); nothing where there is none.
void settle(const Exec& exec);

/// What an op does, beside its code: planner, benchmarks and profile regions read these figures.
struct Cost {
  double flops = 0;     // multiply and add count as two
  double bytes = 0;     // memory traffic that cannot be avoided: each operand once
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
