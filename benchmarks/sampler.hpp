#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rossby::bench {

/// Share of this process's processor time that a function took itself, without what it called.
struct FunctionShare {
  std::string
      name;  // of a shared library: "libm.so.6: tanhf", where the name is the exported one before the place
  double share = 0;
};

/// Samples where this process spends its processor time, on all of its threads: at each tick of the process's
/// profiling timer the instruction pointer is kept. Time in which the process waits or is not scheduled does
/// not count, so other programs' load does not either. Linux on x86-64 and AArch64; elsewhere it finds
/// nothing. One at a time.
class Sampler {
 public:
  Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  void start();
  void stop();
  [[nodiscard]] std::size_t samples() const;
  /// Largest share first.
  [[nodiscard]] std::vector<FunctionShare> functions() const;

 private:
  std::vector<std::uintptr_t> places_;
};

}  // namespace rossby::bench
