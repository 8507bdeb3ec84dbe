#include "rossby/kernels/isa.hpp"

namespace rossby {

bool supported(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return true;
    case Isa::avx2:
#ifdef ROSSBY_X86_SETS
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
      return false;
#endif
    case Isa::avx512:
#ifdef ROSSBY_X86_SETS
      return supported(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw");
#else
      return false;
#endif
  }
  return false;
}

Isa widest_isa() {
  if (supported(Isa::avx512)) return Isa::avx512;
  return supported(Isa::avx2) ? Isa::avx2 : Isa::portable;
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> sets;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (supported(isa)) sets.push_back(isa);
  return sets;
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "";
}

}  // namespace rossby
