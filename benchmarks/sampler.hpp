#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rossby::bench {

/// Share of this process's processor time in a function itself, without its callees.
struct FunctionShare {
  std::string name;  // in shared libraries "libm.so.6: tanhf", with the last exported name before the address
  double share = 0;
};

/// Samples where this process spends processor time, on all threads: each tick of the profiling timer stores
/// the instruction pointer. Time in which the process waits or is not scheduled does not count, so the load
/// of other programs does not count. Works on Linux on x86-64 and AArch64; finds nothing elsewhere. Use one
/// at a time.
class Sampler {
 public:
  Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  void start();
  void stop();
  [[nodiscard]] std::size_t samples() const;
  /// Returns the functions, largest share first.
  [[nodiscard]] std::vector<FunctionShare> functions() const;

 private:
  std::vector<std::uintptr_t> places_;
};

}  // namespace rossby::bench
