#pragma once

#include <map>
#include <string>

#include "rossby/base/index.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/plan/rates.hpp"

namespace rossby::bench {

/// What a kernel or step cannot avoid. Each operand counts once, accumulated ones twice (read and write).
struct Work {
  double bytes = 0;
  double flops = 0;        // multiply and add count as two
  double working_set = 0;  // bytes of all arrays touched: decides which cache could hold them
};

/// A cache that all threads together have this much of.
struct Cache {
  std::string name;  // "L2", "L3"
  double bytes = 0;
};

/// What this machine can do with a number of threads, measured by this process.
///
/// bandwidth: STREAM triad x = y + s·z in float, three arrays a thread, counted as 12 bytes an element (a
/// write's allocation is not counted); the best of several runs (McCalpin, "Memory bandwidth and machine
/// balance", 1995). gemm: the largest rate of a few SGEMM sizes, every thread multiplying matrices of its
/// own.
class Machine {
 public:
  /// Measures memory bandwidth and GEMM rate. `quick`: smaller sizes and fewer repeats, for smoke tests.
  /// `processes` measure at the same time on this machine and share its last cache.
  Machine(int threads, bool quick, int processes = 1);
  /// The same of a device: y += s·x by its kernels, square products of 4096 by its BLAS.
  static Machine of_device(const Exec& exec, bool quick);

  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] double bandwidth() const { return bandwidth_; }      // bytes a second, from memory
  [[nodiscard]] double read_bandwidth() const { return read_; }      // of a sum, from memory
  [[nodiscard]] double update_bandwidth() const { return update_; }  // of x = s·x, from memory
  [[nodiscard]] double gemm() const { return gemm_; }                // flops a second
  /// Of a device: bytes a second from pinned memory to it, and back, each on its own.
  [[nodiscard]] double copy_in() const { return copy_in_; }
  [[nodiscard]] double copy_out() const { return copy_out_; }
  /// Beside a device: the host's own triad.
  [[nodiscard]] double host_bandwidth() const { return host_; }

  /// Triad bandwidth over a working set of this size, rounded to a power of two; measured at first use.
  [[nodiscard]] double bandwidth_within(double working_set);

  /// The smallest cache that holds the working set; bytes 0 where none does.
  [[nodiscard]] Cache cache_of(double working_set) const;

  /// max(bytes / bandwidth, flops / gemm), seconds.
  [[nodiscard]] double floor_seconds(const Work& work) const;
  /// The same with the bandwidth of a triad over the same working set.
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

/// Flops a second of a product of two n × n matrices of floats on a device.
[[nodiscard]] double measure_device_gemm(const Exec& exec, Index n, int repeats);

}  // namespace rossby::bench
