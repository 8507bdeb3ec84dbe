#pragma once

#include <map>
#include <string>

#include "rossby/base/index.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/plan/rates.hpp"

namespace rossby::bench {

/// The minimum work of a kernel or step. Each operand counts once, accumulated ones twice (read and write).
struct Work {
  double bytes = 0;
  double flops = 0;        // multiply and add count as two
  double working_set = 0;  // bytes of all arrays touched, to find a cache that can hold them
};

/// A cache and its total size for all threads.
struct Cache {
  std::string name;  // "L2", "L3"
  double bytes = 0;
};

/// Limits of this machine with a number of threads, measured by this process.
///
/// bandwidth: STREAM triad x = y + s·z in float, three arrays per thread, 12 bytes per element (without a
/// write's allocation); the best of several runs (McCalpin, "Memory bandwidth and machine balance", 1995).
/// gemm: the largest rate of a few SGEMM sizes; every thread multiplies its own matrices.
class Machine {
 public:
  /// Measures memory bandwidth and GEMM rate. `quick`: smaller sizes and fewer repeats, for smoke tests.
  /// `processes`: number of processes that measure at the same time on this machine and share its last cache.
  Machine(int threads, bool quick, int processes = 1);
  /// Measures a device: y += s·x by its kernels, square products of size 4096 by its BLAS.
  static Machine of_device(const Exec& exec, bool quick);

  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] double bandwidth() const { return bandwidth_; }      // bytes per second, from memory
  [[nodiscard]] double read_bandwidth() const { return read_; }      // of a sum, from memory
  [[nodiscard]] double update_bandwidth() const { return update_; }  // of x = s·x, from memory
  [[nodiscard]] double gemm() const { return gemm_; }                // flops per second
  /// Bytes per second from pinned memory to a device, and back, one direction at a time.
  [[nodiscard]] double copy_in() const { return copy_in_; }
  [[nodiscard]] double copy_out() const { return copy_out_; }
  /// With a device: the triad bandwidth of the host.
  [[nodiscard]] double host_bandwidth() const { return host_; }

  /// Returns the triad bandwidth over a working set, rounded to a power of two; measured at first use.
  [[nodiscard]] double bandwidth_within(double working_set);

  /// Returns the smallest cache that holds the working set; its bytes are 0 if none does.
  [[nodiscard]] Cache cache_of(double working_set) const;

  /// Returns max(bytes / bandwidth, flops / gemm), in seconds.
  [[nodiscard]] double floor_seconds(const Work& work) const;
  /// Returns the same with the bandwidth of a triad over the same working set.
  [[nodiscard]] double cache_floor_seconds(const Work& work);

 private:
  Machine() = default;

  int threads_ = 1;
  bool quick_ = true;
  double bandwidth_ = 0;
  double read_ = 0;
  double update_ = 0;
  double gemm_ = 0;
  double copy_in_ = 0;
  double copy_out_ = 0;
  double host_ = 0;
  Cache l2_, l3_;
  std::map<int, double> within_;  // by log2 of the working set
};

/// Returns the rate of a product of two n × n float matrices on a device, in flops per second.
[[nodiscard]] double measure_device_gemm(const Exec& exec, Index n, int repeats);

}  // namespace rossby::bench
