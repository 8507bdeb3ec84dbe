#pragma once

#include <string_view>
#include <type_traits>
#include <vector>

namespace rossby {

/// Instruction sets that the cpu kernels may use. The program contains all of them and chooses at run time.
/// Sums are ordered differently in each set, so two runs are bit-equal only on the same set.
enum class Isa {
  portable,  // what the compiler's target guarantees (x86-64: SSE2)
  avx2,      // x86-64-v3: AVX2, FMA; 8 floats per register
  avx512     // x86-64-v4: AVX-512 F, VL, DQ, BW; 16 floats per register
};

/// True if this build contains the set and this processor supports it.
[[nodiscard]] bool supported(Isa isa);

/// The widest supported set.
[[nodiscard]] Isa widest_isa();

/// All supported sets, narrowest first.
[[nodiscard]] std::vector<Isa> supported_isas();

[[nodiscard]] std::string_view to_string(Isa isa);

/// Returns the set that computes scalars of type T if `isa` is allowed. Only the portable set has kernels for
/// double: reference results need precision, not speed, and every further set costs compile time.
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
