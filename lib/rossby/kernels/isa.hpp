#pragma once

#include <string_view>
#include <type_traits>
#include <vector>

namespace rossby {

/// Which instructions the cpu kernels may use. The program holds all of them and picks at run time; sums of
/// different sets differ in their order, so two runs are bit-equal only on one set.
enum class Isa {
  portable,  // what the compiler's target guarantees (x86-64: SSE2)
  avx2,      // x86-64-v3: AVX2, FMA; 8 floats a register
  avx512     // x86-64-v4: AVX-512 F, VL, DQ, BW; 16 floats a register
};

/// Whether this build holds the set and this processor has it.
[[nodiscard]] bool supported(Isa isa);

/// The widest supported set.
[[nodiscard]] Isa widest_isa();

/// All supported sets, narrowest first.
[[nodiscard]] std::vector<Isa> supported_isas();

[[nodiscard]] std::string_view to_string(Isa isa);

/// The set that computes scalars of type T when `isa` is allowed. Only the portable set has kernels for
/// double: reference results need the precision, not the speed, and every further set costs compile time.
template <class T>
[[nodiscard]] constexpr Isa isa_of(Isa isa) {
  return std::is_same_v<T, double> ? Isa::portable : isa;
}

/// All supported sets that have kernels for T, narrowest first.
template <class T>
[[nodiscard]] std::vector<Isa> supported_isas_of() {
  return std::is_same_v<T, double> ? std::vector<Isa>{Isa::portable} : supported_isas();
}

}  // namespace rossby
