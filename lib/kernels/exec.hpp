#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/isa.hpp"

namespace rossby {

/// How kernels run: the back end and its resources. Passed first to every kernel.
enum class Backend {
  reference,  // plain loops: the truth, for tests
  cpu         // OpenMP, BLAS, vector instructions
};

struct Exec {
  Backend backend = Backend::cpu;
  int threads = 1;
  Isa isa = widest_isa();  // of the cpu kernels
};

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
};

}  // namespace rossby
