#include "rossby/kernels/isa.hpp"

#include "rossby/kernels/cpu/simd/bf16_product.hpp"
#include "rossby/kernels/product.hpp"

namespace rossby {

bool supported(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return true;
    case Isa::avx2:
#if defined(ROSSBY_WIDE_ISAS)
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
      return false;
#endif
    case Isa::avx512:
#if defined(ROSSBY_WIDE_ISAS)
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

bool has_bf16_products() {
#if defined(ROSSBY_WIDE_ISAS)
  return supported(Isa::avx512) && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

namespace cpu {

const Bf16Products& bf16_products([[maybe_unused]] Isa isa, [[maybe_unused]] bool in_software) {
#if defined(ROSSBY_WIDE_ISAS)
  if (isa == Isa::avx512 && !in_software && has_bf16_products()) return avx512_bf16::table<Bf16Products>();
  if (isa == Isa::avx512) return avx512::table<Bf16Products>();
  if (isa == Isa::avx2) return avx2::table<Bf16Products>();
#endif
  return portable::table<Bf16Products>();
}

}  // namespace cpu
}  // namespace rossby
